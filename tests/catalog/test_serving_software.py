"""Software that serves, by name and by the chip of a system."""

import csv
import gzip

import pytest
from places import GOLDEN

from jaxroof import catalog
from jaxroof.catalog.lookup import architecture
from jaxroof.catalog.serving_software import (
    KIND,
    MEASURED,
    START,
    kind_of_chip,
    serving_name,
    serving_software,
    weak_points,
)
from jaxroof.errors import InputError

SYSTEMS = {
    "ampere": "a100-80-sxm", "hopper": "h200-141-sxm", "blackwell": "gb300-nvl72",
    "cdna3": "mi325x", "cdna4": "mi355x", "tpu": "tpu-v7",
}  # fmt: skip


def test_every_constant_of_the_sheet():
    with gzip.open(GOLDEN / "serving/software.csv.gz", "rt", newline="") as file:
        rows = [*csv.DictReader(file)]
    named = set()
    for row in rows:
        name, _, kind = row.pop("software").partition(" ")
        found = serving_software(name, SYSTEMS.get(kind))
        named |= {(name, kind)} if kind else set()
        assert {key: float(getattr(found, key)) for key in row} == {
            key: float(value) for key, value in row.items()
        }, (name, kind)
        assert float(found.calibrated) == (kind != "")
    entries = {name: catalog.describe(KIND, name) for name in catalog.names(KIND)}
    assert named == {(name, kind) for name in entries for kind in SYSTEMS if kind in entries[name]}


def test_a_name_goes_by_the_chip():
    assert [serving_name(None, one) for one in ("h100-nvs8", "tpu-v6e", "rtx-4090", None)] == [
        *("vllm-2026", "jax-2026", START, START)
    ]
    assert serving_name("trtllm", "a100-80-sxm") == "trtllm-2024"
    assert serving_name("vllm", "mi355x") == "vllm-2026"  # none was measured there: the newest
    assert kind_of_chip("b200-next") is None
    never = serving_software("sglang-2025", "a100-80-sxm")
    assert float(never.calibrated) == float(never.experts_measured) == float(never.ttft_fitted) == 0
    assert float(never.mixed) == 0.0  # of the software on any chip
    assert float(never.layer) == float(serving_software().layer)
    with pytest.raises(InputError, match=r"vlm-2026.*vllm-2026"):
        serving_software("vlm-2026", "h100-nvs8")


def test_models_that_were_measured_are_those_of_the_catalogue():
    for name, shape in MEASURED.items():
        found = architecture(name)
        assert tuple(map(float, (found.layers, found.hidden, found.experts))) == shape
    entries = [catalog.describe(KIND, name) for name in catalog.names(KIND)]
    models = {one for e in entries for kind in SYSTEMS for one in e.get(kind, {}).get("models", ())}
    assert models == {*MEASURED}


def test_a_file_changes_constants(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('base = "vllm-2026"\nlayer = "31 us"\nown_dense = 0.1\n', encoding="utf-8")
    found = serving_software(path, "h100-nvs8")
    assert float(found.layer) == pytest.approx(31e-6)
    assert float(found.hop) == 4.94e-6
    assert float(found.own_dense), float(found.calibrated) == (0.1, 1.0)
    path.write_text("matrix = 1.2\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"mine\.toml.*matrix.*1\.2"):
        serving_software(path, "h100-nvs8")
    path.write_text("matrx = 0.6\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"matrx.*'matrix'"):
        serving_software(path, "h100-nvs8")


def test_what_is_weak_is_said():
    assert [*weak_points("vllm-2026", "h100-nvs8", True)] == []
    assert "maximum load" in next(weak_points("trtllm", "h100-nvs8", True))
    assert [*weak_points("trtllm", "h100-nvs8", False)] == []
    assert "not measured" in next(weak_points("atom-2025", "h100-nvs8", False))
