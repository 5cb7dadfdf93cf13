"""The examples of the docs run as the docs say."""

import pathlib

import numpy as np
import pytest

import jaxroof as jr

EXAMPLES = sorted((pathlib.Path(__file__).parents[1] / "docs" / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path):
    data = jr.run(path)
    assert data.sizes
    assert all(data[name].attrs["units"] for name in data.data_vars)


def test_ring_takes_what_its_formula_says():
    data = jr.run(EXAMPLES[0])
    point = data.sel(ranks=8).isel(message=-1)
    expected = 14 * 5e-6 + 14 / 8 * 10e9 / 400e9
    np.testing.assert_allclose(float(point.time), expected, rtol=1e-12)
    assert data.bus_bandwidth.max() < 400e9


def test_readme_python_runs_as_printed(tmp_path, monkeypatch):
    readme = (pathlib.Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    blocks = [part.split("```")[0] for part in readme.split("```python\n")[1:]]
    monkeypatch.chdir(tmp_path)
    scope: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), scope)
    assert scope["best"].sizes == {"rank": 10}
    assert float(scope["slope"].hbm_bandwidth) < 0
    assert jr.read(tmp_path / "maps.nc").sizes == {
        "gpus": 4, "hbm_bandwidth": 33, "hbm_capacity": 16,
    }  # fmt: skip


def test_rows_are_answered_as_the_search_finds(jaxroof):
    """The rows of the README: the best plan takes what the search says, less memory does not do."""
    said = jaxroof(f"evaluate training {EXAMPLES[0].parent / 'rows.csv'}")
    first, *_, last = (line for line in said.out.splitlines() if "gpt3-1t" in line)
    assert said.code == 0
    assert "true    39.98 s  102.5 sequence/s" in first
    assert last.startswith(" less memory")
    assert "false" in last
