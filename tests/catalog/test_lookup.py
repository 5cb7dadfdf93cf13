"""Every number of the catalogue against its sheet, and what is said of a wrong file or name."""

import csv
import gzip
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from places import GOLDEN
from refusals import refused

import jaxroof as jr
from jaxroof import catalog
from jaxroof.engine.grid.question import resolve
from jaxroof.errors import InputError
from jaxroof.records import units

MODEL = dict.fromkeys(("layers", "hidden", "feedforward", "heads"), "1") | {"sequence": "token"}
EVERY = units(jr.System)
STUDIED = """matrix_flops vector_flops matrix_efficiency launch_latency hbm_bandwidth hbm_capacity
hbm_usable fast_domain fast_bandwidth fast_efficiency fast_latency slow_bandwidth slow_efficiency
slow_latency nics"""
SYSTEM = {name: EVERY[name] for name in STUDIED.split()}
FIELDS = {"models": MODEL, "systems": SYSTEM}
DEFAULTED = {"matrix_efficiency", "launch_latency", "hbm_usable"}

# Sheet transformer_model 2.1: sequence, hidden, heads, layers, feedforward.
MODELS = {
    "gpt3": (2048, 12288, 96, 96, 49152),
    "gpt3-1t": (2048, 25600, 160, 128, 102400),
    "vit-era5": (64800, 12288, 64, 48, 49152),
    "vit-era5-half": (32400, 6144, 32, 48, 24576),
}
SAMPLES = {"gpt3-1t": 488281250, "vit-era5": 28e6, "vit-era5-half": 28e6}  # sheet, section 9
# Sheet transformer_model 2.2, in its own units: SI size of the unit, A100, H200, B200, B200-next.
PARTS = ("a100", "h200", "b200", "b200-next")
SHEET = {
    "matrix_flops": (1e12, 312, 989.4, 2500, 3750),
    "vector_flops": (1e12, 78, 133.8, 339, 508.5),
    "hbm_bandwidth": (1e9, 1555, 4800, 8000, 16000),
    "hbm_capacity": (1e9, 80, 141, 192, 384),
    "fast_bandwidth": (1e9, 300, 450, 900, 3600),
    "fast_efficiency": (1, 0.7, 0.7, 0.7, 0.8),
    "fast_latency": (1, 2.5e-6, 2.5e-6, 2.5e-6, 5e-6),
    "slow_bandwidth": (1e9, 25, 50, 100, 200),
    "slow_efficiency": (1, 0.7, 0.7, 0.7, 0.8),
    "slow_latency": (1, 5e-6, 5e-6, 5e-6, 1e-5),
    "nics": (1, 1, 1, 1, 1),
}
# bf16 and fp32: sheet 2.2. The others: systems.csv, rows a100-80-sxm, h200-141-sxm, gb200-nvl72;
# 0 is a format that is not native.
PEAKS = {
    "bf16": (1e12, 312, 989.4, 2500, 3750),
    "fp8": (1, 0, 1.9789e15, 5e15, 0),
    "fp4": (1, 0, 0, 1e16, 0),
    "int8": (1, 6.24e14, 1.9789e15, 5e15, 0),
    "fp32": (1e12, 19.5, 66.9, 169, 253.5),
}
VARIANTS = [(part, f"{part}-nvs{size}", size) for part in PARTS[:3] for size in (4, 8, 64)]
VARIANTS.append(("b200-next", "b200-next", 64))
CHIPS = GOLDEN / "scaling_book" / "book_chip_specs.csv.gz"
BOOK = {  # name: chip of the book's table
    "tpu-v3": "TPU v3", "tpu-v4-book": "TPU v4p", "tpu-v5p-book": "TPU v5p",
    "tpu-v5e-book": "TPU v5e",
    "tpu-v6e-book": "TPU v6e", "tpu-v7-book": "TPU7x", "a100-book": "A100", "h100-book": "H100",
    "h200-book": "H200", "b200-book": "B200", "gb200-nvl72-book": "B200",
    "h100-sxm": "H100 SXM sheet", "h100-nvl": "H100 NVL sheet",
}  # fmt: skip
NOT_OF_THE_BOOK = {  # what its table leaves open and a training step needs
    "a100-book": {"slow_bandwidth": 25e9},
    "h100-sxm": {"slow_bandwidth": 50e9},
    "h100-nvl": {"slow_bandwidth": 50e9, "fast_bandwidth": 300e9},
}
RATES_OF_BOOK = ("bf16_flop_per_s", "int8_or_fp8_op_per_s", "fp4_flop_per_s")


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    found = catalog.entry("models", name, MODEL)
    keys = ("sequence", "hidden", "heads", "layers", "feedforward")
    assert tuple(found[key] for key in keys) == MODELS[name]
    assert all(type(found[key]) is float for key in keys)
    assert "2410.00273" in found["source"] or "Subramanian" in found["source"]
    assert found["title"]
    assert set(found) == {*MODEL, "title", "source"}


@pytest.mark.parametrize(("name", "samples"), SAMPLES.items())
def test_models_are_trained_on_as_many_samples(name: str, samples: float) -> None:
    model = jr.model(name)
    assert float(model.training_tokens) / float(model.sequence) == samples


@pytest.mark.parametrize(("part", "name", "fast_domain"), VARIANTS)
def test_systems(part: str, name: str, fast_domain: int) -> None:
    found = catalog.entry("systems", name, SYSTEM)
    column = 1 + PARTS.index(part)
    for field, row in SHEET.items():
        assert found[field] == pytest.approx(row[0] * row[column], rel=1e-15), field
    peaks = {key: row[0] * row[column] for key, row in PEAKS.items() if row[column]}
    assert found["peaks"] == pytest.approx(peaks, rel=1e-15)
    assert found["peaks"]["bf16"] == found["matrix_flops"]
    assert found["fast_domain"] == fast_domain
    assert "2410.00273" in found["source"]
    assert found["title"]
    assert set(found) == set(SYSTEM) - DEFAULTED | {"title", "source", "peaks"}


@pytest.mark.parametrize("name", catalog.names("systems"))
def test_every_system_is_a_record_with_its_source(name: str) -> None:
    found = jr.system(name)
    assert float(found.matrix_flops) > 0.0
    assert float(found.hbm_bandwidth) > 0.0
    written = catalog.describe("systems", name)
    assert written["source"]
    assert written["title"]
    for number_format, rate in catalog.entry("systems", name, EVERY)["peaks"].items():
        assert float(jr.system(name, number_format).matrix_flops) == rate


@pytest.mark.parametrize(("name", "chip"), BOOK.items())
def test_chips_of_the_book(name: str, chip: str) -> None:
    """Every figure of the book's table stands in the catalogue; what it leaves open is listed."""
    with gzip.open(CHIPS, "rt", newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["chip"] == chip]
    found = catalog.entry("systems", name, EVERY)
    link = "link_bandwidth" if row["vendor"] == "google" else "fast_bandwidth"
    cells = {
        "matrix_flops": row["bf16_flop_per_s"], "hbm_bandwidth": row["hbm_bytes_per_s"],
        "hbm_capacity": row["hbm_bytes"], link: row["link_oneway_bytes_per_s"],
        "torus_axes": row["ici_axes"], "pcie_bandwidth": row["pcie_bytes_per_s"],
        "slow_bandwidth": row["dcn_bytes_per_s_per_chip"],
    }  # fmt: skip
    more = NOT_OF_THE_BOOK.get(name, {})
    for field, cell in cells.items():
        assert found.get(field) == (float(cell) if cell else more.get(field)), field
    if row["pod_shape"]:
        assert found["pod"] == math.prod(map(int, row["pod_shape"].split("x")))
        assert found["link_latency"] == 1e-6
        assert found["host"] == float(row["chips_per_host"])
    fast = {"gb200-nvl72-book": 72.0, "h100-nvl": 2.0}
    nodes = None if row["vendor"] == "google" else 8.0
    assert found.get("fast_domain") == fast.get(name, nodes)
    peaks = {float(row[key]) for key in RATES_OF_BOOK if row[key]}
    assert set(found["peaks"].values()) == peaks
    assert ("unverified" in found["title"]) == (row["status"] == "unverified")


OTHERS = {"h100-80-sxm": "h100-nvs8"}
SOLD_FIELDS = {  # column: our field
    "bf16_flops": "matrix_flops",
    "hbm_capacity_bytes": "hbm_capacity",
    "hbm_reported_bytes": "hbm_reported",
    "hbm_bandwidth": "hbm_bandwidth",
    "nic_bw_per_dir": "slow_bandwidth",
}
LINK_FIELDS = {"fast_domain_size": "fast_domain", "fast_bw_per_dir": "fast_bandwidth"}
TORUS_FIELDS = {"fast_domain_size": "pod"}
with open(GOLDEN / "hardware" / "systems.csv", newline="") as file:
    SOLD_ROWS = {cells["name"]: cells for cells in csv.DictReader(file)}
SOLD = {row: OTHERS.get(row, row) for row in SOLD_ROWS}  # row of the sheet hardware: our entry
SOLD_PEAKS = {  # column: our number format
    "bf16_flops": "bf16", "fp8_flops": "fp8", "fp4_flops": "fp4", "int8_ops": "int8",
    "vector_fp32_flops": "fp32",
}  # fmt: skip


@pytest.mark.parametrize(("row", "name"), SOLD.items())
def test_parts_as_they_are_sold(row: str, name: str) -> None:
    """Every number of the sheet that is a field of a system stands in the catalogue."""
    cells = SOLD_ROWS[row]
    found = catalog.entry("systems", name, EVERY)
    fields = SOLD_FIELDS | (
        TORUS_FIELDS if "torus" in cells["fast_domain_topology"] else LINK_FIELDS
    )
    for column, field in fields.items():
        assert found[field] == float(cells[column]), field
    if "torus" in cells["fast_domain_topology"]:
        links = 2.0 * found["torus_axes"]
        assert links == float(cells["fast_links"])
        assert links * found["link_bandwidth"] == float(cells["fast_bw_per_dir"])
    else:
        assert found["nics"] == 1.0
    peaks = {ours: float(cells[column] or 0.0) for column, ours in SOLD_PEAKS.items()}
    assert found["peaks"] == {ours: rate for ours, rate in peaks.items() if rate}
    assert f"row {row} of" in found["source"]


def test_another_capacity_is_not_what_the_device_reports(tmp_path: Path) -> None:
    assert float(jr.system("h100-nvs8").hbm_reported) > float(jr.system("h100-nvs8").hbm_capacity)
    assert jr.system("h100-nvs8", hbm_capacity="60 GB").hbm_reported is None
    (tmp_path / "mine.toml").write_text('base = "h100-nvs8"\nhbm_capacity = "60 GB"\n')
    assert jr.system(tmp_path / "mine.toml").hbm_reported is None
    assert jr.system("h20-nvs8").hbm_reported is None


CHANGED = {  # entry: the one that it changes, and how
    "h800-nvs8": ("h100-nvs8", {"fast_bandwidth": 200e9}),
    "gb200-nvs64": ("gb200-nvl72", {"fast_domain": 64.0}),
    "gb300-nvs64": ("gb300-nvl72", {"fast_domain": 64.0}),
    "b300-nvs8": (
        "gb300-nvl72",
        {"fast_domain": 8.0, "host": 8.0, "chip_watts": 1100.0}
        | {"host_watts": 2000.0, "switch_watts": 930.0},
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_an_entry_over_another(name: str) -> None:
    base, changes = CHANGED[name]
    found, other = (catalog.entry("systems", each, EVERY) for each in (name, base))
    texts = {key: found[key] for key in ("title", "source")}
    assert found == other | changes | texts
    assert found["title"] != other["title"]


B200 = "expected one of b200-nvs4, b200-nvs8, b200-nvs64, b200-next, b200-180-sxm, b200-book."
H200 = "expected one of h200-nvs4, h200-nvs8, h200-nvs64, h200-141-sxm, h200-book."
NAMES = [  # kind, name, text
    ("systems", "b200-nvs9x", B200),
    ("systems", "h200", H200),
    ("systems", "B200-NVS8", "Did you mean 'b200-nvs8'?"),
    ("systems", "b20-nvs8", "Did you mean 'b200-nvs8'?"),
    ("systems", "b200_next", "Did you mean 'b200-next'?"),
    ("models", "gpt3_1T", "Did you mean 'gpt3-1t'?"),
    ("models", "zebra", f"expected one of {', '.join(catalog.names('models')[:12])}, ..."),
]


@pytest.mark.parametrize(("kind", "name", "remedy"), NAMES)
def test_unknown_names(kind: str, name: str, remedy: str) -> None:
    with pytest.raises(InputError) as caught:
        catalog.entry(kind, name, FIELDS[kind])
    mark = "." if remedy.startswith("Did") else ";"
    assert str(caught.value) == f"{name}: no such {kind[:-1]}{mark} {remedy}"


@pytest.mark.parametrize("name", ["gpt3", "mine.toml"])
def test_unknown_kind(name: str) -> None:
    with pytest.raises(InputError, match=r"^modles: no such part .* Did you mean 'models'\?$"):
        catalog.entry("modles", name, MODEL)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty working directory, so that errors show the bare name of a file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(here: Path, kind: str, text: str) -> dict[str, Any]:
    (here / "mine.toml").write_text(text, "utf-8")
    return catalog.entry(kind, "mine.toml", FIELDS[kind])


SHAPE = "layers = 2\nhidden = 4\nfeedforward = 16\nheads = 2\nsequence = '8 tokens'\n"


def test_a_file_of_its_own(here: Path) -> None:
    found = read(here, "models", SHAPE)
    assert tuple(found.values()) == (2.0, 4.0, 16.0, 2.0, 8.0, "mine", "mine.toml")
    assert tuple(found) == (*MODEL, "title", "source")
    (here / "deep").mkdir()
    (here / "deep" / "bare").write_text("\ufeff" + SHAPE + "title = 'T'\nsource = 'S'", "utf-8")
    found = catalog.entry("models", "deep/bare", MODEL)
    assert (found["title"], found["source"]) == ("T", "S")
    assert catalog.entry("models", Path("mine.toml"), MODEL)["hidden"] == 4.0


def test_a_file_over_a_base(here: Path) -> None:
    base = catalog.entry("systems", "b200-nvs8", SYSTEM)
    text = "base = 'b200-nvs8'\nhbm_capacity = '288 GB'\nlaunch_latency = 0\n"
    found = read(here, "systems", text)
    changed: dict[str, Any] = {"hbm_capacity": 288e9, "launch_latency": 0.0}
    changed |= {"title": "NVIDIA B200 as studied, fast domain of 8, changed by mine.toml"}
    assert found == base | changed | {"source": f"mine.toml, over b200-nvs8: {base['source']}"}
    assert catalog.describe("systems", "mine.toml")["hbm_capacity"] == "288 GB"
    found = read(here, "systems", "base = 'b200-nvs8'\n[peaks]\nfp8 = '1 PFLOP/s'\n")
    assert found["peaks"] == base["peaks"] | {"fp8": 1e15}


def test_another_matrix_rate_drops_the_peaks_of_the_base(here: Path) -> None:
    text = "base = 'b200-nvs8'\nmatrix_flops = '5 PFLOP/s'\n"
    found = read(here, "systems", text)
    assert (found["matrix_flops"], found["peaks"]) == (5e15, {})
    assert read(here, "systems", text + "peaks = { bf16 = 5e15 }")["peaks"] == {"bf16": 5e15}


OVER = "base = 'b200-nvs8'\n"
BANDWIDTH = "expected B/s under any prefix, such as '2 TB/s'."
SHAPES = "layers, hidden, feedforward, heads, sequence, title, source, note, base"
RATES = "expected a table of rates by number format, such as { bf16 = '312 TFLOP/s' }."
NATIVE = "expected a positive rate, or no entry where the format is not native"
BASE = "the name of an entry of the catalogue"
REMEDY = "expected a value, or a published entry to change, such as base = 'gpt3'."
WRONG = [  # kind, text of the file, what is said after "mine.toml: "
    ("models", SHAPE + "hedden = 1", "hedden: no such field of Model. Did you mean 'hidden'?"),
    ("models", SHAPE + "zebra = 1", f"zebra: no such field of Model; expected one of {SHAPES}."),
    ("models", "layers = 2\nhidden = 4", f"feedforward, heads, sequence: missing; {REMEDY}"),
    ("systems", OVER + "hbm_bandwidth = [1]",
     f"hbm_bandwidth: not a finite number, given [1]; {BANDWIDTH}"),
    ("systems", OVER + "title = 3", "title: not a string, given 3; expected a string."),
    ("systems", OVER + "peaks = 3", f"peaks: not a table, given 3; {RATES}"),
    ("systems", OVER + "[peaks]\nfp9 = 1",
     "peaks: fp9: no such number format. Did you mean 'fp8'?"),
    ("systems", OVER + "[peaks]\nfp8 = 0", f"peaks.fp8: out of range, given 0; {NATIVE}."),
    ("systems", "base = 8", f"base: not {BASE}, given 8; expected {BASE}."),
    ("systems", "base = 'b200'", f"base: b200: no such system; {B200}"),
    ("systems", "base = ",
     "not TOML: Invalid value (at end of document); expected a TOML file of one system."),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "text", "said"), WRONG)
def test_wrong_files(here: Path, kind: str, text: str, said: str) -> None:
    assert refused(read, here, kind, text) == f"mine.toml: {said}"


def test_files_that_cannot_be_read(here: Path) -> None:
    (here / "folder.toml").mkdir()
    (here / "latin.toml").write_bytes(b"title = '\xe9'")
    said = {
        "none.toml": "no such file",
        "folder.toml": "a directory",
        "latin.toml": "not UTF-8 text at byte 9",
    }
    for name, problem in said.items():
        assert (
            refused(catalog.describe, "models", name)
            == f"{name}: {problem}; expected a TOML file of one model."
        )


KEYS = st.sampled_from([*SYSTEM, "base", "peaks", "title", "zebra"])
SETTINGS = ("model", "system", "system.nics", "model.layers", "plan.tensor", "gpus", "split")
HUGE = ["9" * 400, "-" + "9" * 400, "9" * 5000, "0x" + "f" * 5000, "1e400", f"'{'9' * 5000}'"]
VALUES = st.one_of(
    st.sampled_from(["'b200-nvs8'", "'4 GB'", "{ fp8 = 1 }", "[1]", "1979-05-27", "''"]),
    st.sampled_from([*HUGE, "true", "[]", "{}", "{ a = { b = [[]] } }", "nan", "-inf", "'nan B'"]),
    st.integers().map(str),
    st.floats().map(str),
)


def said_of(read: Callable[[], Any]) -> str:
    """Return what is said of something wrong, nothing where it is read."""
    try:
        read()
    except InputError as error:
        return str(error)
    return ""


@settings(suppress_health_check=[HealthCheck.too_slow])  # on a busy machine
@given(st.dictionaries(KEYS, VALUES))
def test_any_file_is_an_entry_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, table: dict[str, str]
) -> None:
    path = tmp_path_factory.mktemp("any") / "any.toml"
    path.write_text("".join(f"{key} = {value}\n" for key, value in table.items()), "utf-8")
    for read in (
        lambda: catalog.entry("systems", path, SYSTEM),
        lambda: jr.system(path),
        lambda: jr.system(path, "fp8"),
    ):
        said = said_of(read)
        assert not said or said.startswith(f"{path}: ")
        assert len(said.splitlines()) <= 1
        assert len(said) < 600


THINGS = st.one_of(
    st.sampled_from([10**400, -(10**400), 10**5000, [10**400], math.nan, math.inf, b"1", 1j, ...]),
    st.sampled_from([*HUGE, "", " ", "true", "nan", "1e400 B", "8"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
)


@settings(max_examples=50)
@given(THINGS)
def test_any_setting_is_a_value_or_one_line(thing: Any) -> None:
    """As a name, a format, a field of a record, and as settings of each kind."""
    plan = {f"plan.{name}": 1 for name in ("data", "tensor", "pipeline", "microbatch")}
    asked = {"model": "gpt3", "system": "h200-nvs4", **plan}
    for read in (
        lambda: jr.system(thing),
        lambda: jr.system("h200-nvs4", thing),
        lambda: jr.system("h200-nvs4", hbm_capacity=thing),
        lambda: jr.model("gpt3", layers=thing),
        *(lambda path=path: resolve(jr.published, asked | {path: thing})[:2] for path in SETTINGS),
    ):
        said = said_of(read)
        assert len(said.splitlines()) <= 1
        assert len(said) < 600


def test_no_heavy_import() -> None:
    code = "import sys, jaxroof.catalog as c; c.names('systems'); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"jax", "numpy", "xarray"} & set(run.stdout.split())
