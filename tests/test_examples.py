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
