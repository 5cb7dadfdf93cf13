"""Network interfaces of a node that its accelerators share: per accelerator on every road."""

from pathlib import Path
from typing import Any

import pandas
import pytest

import jaxroof as jr
from jaxroof.catalog import describe, names
from jaxroof.cli.main import main

QUESTION: dict[str, Any] = {
    "model": "llama3-8b", "system": "h100-nvs8", "gpus": 64, "global_batch": 64,
    "tp": 4, "dp": 16, "mb": 1,
}  # fmt: skip


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of servers of eight that share two interfaces, in the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "shared.toml"
    path.write_text('base = "h100-nvs8"\nnics_per_node = 2\n')
    return path


@pytest.mark.parametrize("name", [n for n in names("systems") if "nics" in describe("systems", n)])
def test_a_node_is_a_host_or_a_fast_domain(name: str) -> None:
    own = jr.system(name)
    node = own.fast_domain if own.host is None else own.host
    assert float(jr.system(name, nics_per_node=2).nics) == 2.0 / float(node)


@pytest.mark.parametrize(
    ("name", "node"), [("gb200-nvl72", 4), ("gb300-nvs64", 4), ("b300-nvs8", 8)]
)
def test_a_rack_is_many_nodes(name: str, node: int) -> None:
    assert float(jr.system(name, nics_per_node=node).nics) == 1.0


def test_every_road_divides_by_the_node(shared: Path) -> None:
    """Two interfaces on eight accelerators are a quarter each, by file, setting and row."""
    quarter = float(jr.evaluate("training", {**QUESTION, "system.nics": 0.25}).step_time)
    whole = float(jr.evaluate("training", QUESTION).step_time)
    asked = {**QUESTION, "system.nics_per_node": "2"}
    assert float(jr.evaluate("training", asked).step_time) == quarter > 1.1 * whole
    by_file = jr.evaluate("training", {**QUESTION, "system": str(shared)})
    assert float(by_file.step_time) == quarter
    rows = pandas.DataFrame([{**QUESTION, "system.nics_per_node": 2}])
    assert float(jr.evaluate_rows("training", rows).step_time[0]) == quarter
    rows = pandas.DataFrame([QUESTION])
    told = jr.evaluate_rows("training", rows, {"system.nics_per_node": 2})
    assert float(told.step_time[0]) == quarter


def test_the_domain_is_set_before_its_interfaces_are_divided(shared: Path) -> None:
    assert float(jr.system(str(shared), fast_domain=16).nics) == 0.125
    assert float(jr.system("h100-nvs8", nics_per_node=4, fast_domain=16).nics) == 0.25
    Path("over.toml").write_text('base = "shared.toml"\nnics = 1\n')
    assert float(jr.system("over.toml").nics) == 1.0 == float(jr.system(str(shared), nics=1).nics)


def test_two_that_contradict_are_refused(shared: Path) -> None:
    both = 'base = "h100-nvs8"\nnics_per_node = 2\nnics = '
    Path("same.toml").write_text(both + "0.25\n")
    assert float(jr.system("same.toml").nics) == 0.25
    Path("both.toml").write_text(both + "1\n")
    said = "both.toml: nics_per_node: 0.25 per accelerator, on nodes of 8, and nics says 1"
    with pytest.raises(jr.InputError, match=said):
        jr.system("both.toml")
    with pytest.raises(jr.InputError, match=r"and system.nics says 1; expected one of them"):
        jr.evaluate("training", {**QUESTION, "system.nics": 1, "system.nics_per_node": 2})


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(jr.InputError, match=r"of how many accelerators. expected host or fast_d"):
        jr.system("tpu-v4", nics_per_node=2)
    with pytest.raises(jr.InputError, match=r"not on an axis; expected system.nics, of one acc"):
        jr.evaluate("training", QUESTION, axes={"system.nics_per_node": [2, 4]})
    with pytest.raises(jr.InputError, match="nics_per_node: expected a finite number above 0"):
        jr.system("h100-nvs8", nics_per_node=0)


def test_show_says_of_what(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, words in (
        ("shared.toml", ("2 on the accelerators of a node together", "0.25 per accelerator")),
        ("h100-nvs8", ("1 per accelerator",)),
    ):
        with pytest.raises(SystemExit):
            main(["show", name])
        said = capsys.readouterr().out
        assert all(one in said for one in words)
