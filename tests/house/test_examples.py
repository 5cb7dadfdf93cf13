"""The examples of the docs run as the docs say."""

import doctest

import numpy as np
import pytest
from places import ROOT

import jaxroof as jr

EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path):
    data = jr.run(path, trust=True)
    assert data.sizes
    assert all(data[name].attrs["units"] for name in data.data_vars)


def test_ring_takes_what_its_formula_says():
    data = jr.run(EXAMPLES[0], trust=True)
    point = data.sel(ranks=8).isel(message=-1)
    expected = 14 * 5e-6 + 14 / 8 * 10e9 / 400e9
    np.testing.assert_allclose(float(point.time), expected, rtol=1e-12)
    assert data.bus_bandwidth.max() < 400e9


def ran(page: str) -> dict:
    """Return the names that the blocks of Python of a page leave behind, run in turn."""
    blocks = (ROOT / page).read_text(encoding="utf-8").split("```python\n")[1:]
    scope: dict = {}
    for block in blocks:
        exec(compile(block.split("```")[0], page, "exec"), scope)
    return scope


def test_the_python_of_the_readme_runs():
    scope = ran("README.md")
    assert scope["best"].sizes["rank"] == 3
    assert np.all(np.diff(scope["faster"].step_time) <= 0.0)  # more bandwidth never slows a step


def test_the_sweep_file_of_the_readme_runs(tmp_path):
    text = (ROOT / "README.md").read_text(encoding="utf-8").split("```toml\n")[1].split("```")[0]
    (tmp_path / "sizes.toml").write_text(text, encoding="utf-8")
    data = jr.run(tmp_path / "sizes.toml")
    assert [*data.dims] == ["gpus"]
    assert data.feasible.any()


@pytest.mark.slow  # programs of a study and of the limits of scaling are compiled; README daily
def test_the_page_on_python_runs_as_printed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = ran("docs/python.md")
    asked = jr.search("training", **scope["question"], where="tensor<=8,off=0")
    assert float(scope["same"].step_time) == float(asked.step_time)
    assert bool(scope["step"].feasible)
    assert scope["best"].sizes == {"rank": 10}
    assert float(scope["slope"].hbm_bandwidth) < 0
    assert jr.read(tmp_path / "maps.nc").sizes == {
        "gpus": 4, "hbm_bandwidth": 33, "hbm_capacity": 16,
    }  # fmt: skip


def test_the_page_on_extending_runs_as_printed(monkeypatch):
    """Every block runs in turn; those of the example stand in its file, word for word."""
    example = (EXAMPLES[0].parent / "two_level.py").read_text(encoding="utf-8")
    monkeypatch.syspath_prepend(str(EXAMPLES[0].parent))
    page = (EXAMPLES[0].parents[1] / "extending.md").read_text(encoding="utf-8")
    *alone, own = page.split("## An estimator")
    blocks = [part.split("```")[0] for part in "".join(alone).split("```python\n")[1:]]
    *printed, asked = [part.split("```")[0] for part in own.split("```python\n")[1:]]
    assert all(block.rstrip() in example for block in printed)
    assert len(printed) == 5
    scope: dict = {"__name__": "extending"}
    for block in [*blocks, asked]:
        exec(compile(block, "extending.md", "exec"), scope)
    for name in ("study_all_to_all", "gate_ledger"):
        runner = doctest.DocTestRunner()
        for case in doctest.DocTestFinder().find(scope[name], name, module=False, globs=scope):
            assert runner.run(case).failed == 0


def test_the_example_prints_and_draws(jaxroof):
    path = EXAMPLES[0].parent / "two_level.toml"
    said = jaxroof(f"run {path}")
    assert said.code == 0, said.err
    assert "Fastest: 4.001 ms, in 8 out 1 pieces 8 at ranks 8, staging 256 MB" in said.words
    assert "No plan fits at 4 of 36 points; the smallest needs 1.953 MB." in said.words
    assert jaxroof(f"plot {path} -o rings.png").code in (0, None)


def test_rows_are_answered_as_the_search_finds(jaxroof):
    """The rows of the README: the best plan takes what the search says, less memory does not do."""
    said = jaxroof(f"evaluate published {EXAMPLES[0].parent / 'rows.csv'}")
    first, *_, last = (line for line in said.out.splitlines() if "gpt3-1t" in line)
    assert said.code == 0
    assert "true    39.98 s  102.5 sequence/s" in first
    assert last.startswith(" less memory")
    assert "false" in last
