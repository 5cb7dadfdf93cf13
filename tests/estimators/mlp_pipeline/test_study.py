"""The D x H x P study of an MLP: what its sweeps find and its tables say."""

import numpy as np
import pytest
import xarray as xr
from places import ROOT
from rich.console import Console

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.views.plots import select as choose
from jaxroof.views.text import every_plan as splits
from notebooks.mlp_steps import comparison, correlation

SWEEPS = ROOT / "sweeps"
BEST = [(4, 4, 1, 1, 55313.02), (8, 2, 1, 1, 55154.66), (2, 8, 1, 1, 53323.82)]  # sheet, section 12
FIELDS = ("data", "tensor", "pipeline", "microbatches")


@pytest.fixture(scope="module")
def study():
    """Return every plan of the published study."""
    return jr.run(SWEEPS / "mlp_dhp.toml")


def told(data):
    page = Console(width=120)
    with page.capture() as taken:
        page.print(splits.plan_table(data))
    return taken.get(), " ".join(splits.plan_sentences(data))


def test_the_study_finds_the_published_best_three(study):
    order = splits.fitting(study)[:3]
    rows = np.stack([study[name].values[order] for name in FIELDS], axis=-1).tolist()
    assert [tuple(row) for row in rows] == [row[:4] for row in BEST]
    assert study.throughput.values[order].round(2).tolist() == [row[4] for row in BEST]
    assert study.sizes["configuration"] == 52


def test_the_study_is_told_in_a_table_and_two_sentences(study):
    table, said = told(study)
    first = table.splitlines()[4].split()
    assert first == ["1", "4", "4", "1", "1", "148.1", "ms", "55310", "sample/s"]
    assert len(table.strip().splitlines()) == 13
    assert "memory" not in table  # the profile has none
    assert "Best: dp 4 tp 4 pp 1 microbatches 1, 148.1 ms a step, 55310 sample/s" in said
    assert "the next, dp 8 tp 2 pp 1 microbatches 1, takes 0.287 % longer" in said
    assert said.endswith("52 plans tried: 52 legal, all of which fit.")


def test_simulated_steps_are_those_published_and_correlate_with_the_measured():
    data = comparison()
    assert data.sizes["row"] == 54
    assert float(np.abs(data.simulated - data.published).max()) <= 0.5001e-5
    theirs = (data.global_batch / data.published).values
    found = correlation(data.measured_throughput.values, theirs)
    assert [round(value, 4) for value in found] == [0.9311, 0.9288]
    ours = correlation(data.measured_throughput.values, data.simulated_throughput.values)
    assert np.allclose(ours, found, atol=2e-4)


def test_an_axis_is_cut_where_one_of_its_fields_has_a_value():
    along = {"gpus": ("configuration", [4, 8, 8]), "reason": ("configuration", [0, 1, 0])}
    data = xr.Dataset(along, {"configuration": [0, 1, 2]})
    data.reason.attrs["flag_meanings"] = "fits memory"
    assert choose.pick(data, {"gpus": "8"}, "--at").configuration.values.tolist() == [1, 2]
    assert choose.pick(data, {"reason": "memory"}, "--at").configuration.values.tolist() == [1]
    with pytest.raises(InputError, match="9: no such gpus in the data; expected one of 4, 8"):
        choose.pick(data, {"gpus": 9}, "--at")
