"""Pictures that say what they show: names of plans, tokens of days, words inside their frames."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.text import Text

import jaxroof as jr
from jaxroof.views import plots

GB = 1e9
SWEEPS = Path(jr.__file__).parents[1] / "sweeps"


def words(figure: Figure) -> list[str]:
    """Return every text of a picture, lines joined."""
    return [" ".join(t.get_text().split()) for t in figure.findobj(Text) if t.get_text().strip()]


@pytest.fixture(scope="module")
def grid() -> xr.Dataset:
    """Return the best plans of today's training over two fields of a machine."""
    found: xr.Dataset = jr.search(
        "training",
        model="llama3-8b",
        system="h100-nvs8",
        gpus=8,
        global_batch=8,
        where="off=0,mb=1,cp=1",
        axes={
            "system.hbm_capacity": list(np.linspace(30 * GB, 120 * GB, 6)),
            "system.slow_bandwidth": list(np.geomspace(2e9, 400e9, 6)),
        },
    )
    return found


def test_a_map_of_todays_training_names_its_plans_and_the_tokens_of_its_days(
    grid: xr.Dataset,
) -> None:
    said = words(plots.machine_map(grid))
    best = grid.isel(system_hbm_capacity=-1) if "system_hbm_capacity" in grid.dims else grid
    degree = int(best.isel(dict.fromkeys(best.dims, -1)).data)
    assert any(one.startswith(f"dp {degree}") or f" dp {degree}" in one for one in said), said
    assert "days of training on 15 T tokens" in said
    (lines,) = [one for one in said if one.startswith("white lines: another plan is best beyond")]
    assert "dp data" in lines


UNLIKE = ["h100-nvs8:8:fp8", "gb200-nvl72:8:mxfp8", "a100-80-sxm:16"]


@pytest.mark.parametrize("count", [2, 3])
def test_words_of_a_comparison_lie_inside_its_frame(count: int) -> None:
    data = jr.compare(
        model="llama3-8b", global_batch=64, where="tp<=2,pp=1,off=0", system=UNLIKE[:count]
    )
    figure = plots.comparison(data)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    frame = axes.get_window_extent()
    for text in axes.texts:
        box = text.get_window_extent()
        assert frame.x0 <= box.x0, text.get_text()
        assert box.x1 <= frame.x1, text.get_text()
        assert box.y1 <= frame.y1, text.get_text()
    names = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(names))
    assert "8 x h100-nvs8, fp8" in words(figure)


def test_memory_of_schedules_is_written_on_its_own_side_of_the_capacity() -> None:
    data = jr.schedule(model="llama3-70b", system="h100-nvs8", global_batch=16, tp=8, pp=8)
    figure = plots.draw(data)
    figure.draw_without_rendering()
    axes = figure.axes[1]
    limit = float(data.memory_limit) / GB
    for text in axes.texts:
        box = text.get_window_extent().transformed(axes.transData.inverted())
        assert (box.x1 < limit) == (float(text.get_text().split()[0]) < limit), text.get_text()


def test_a_map_of_given_plans_has_its_numbers_in_its_cells() -> None:
    data = jr.run(SWEEPS / "gpt3_one_plan.toml")
    said = words(plots.draw(data))
    days = data.training_days.where(data.feasible).values
    assert all(f"{day:.4g}" in said for day in days[np.isfinite(days)])
    assert "4 (16)" in said  # tensor ranks, and the data ranks that go with them
    assert "tensor (data in brackets)" in said
    assert not any("white lines" in one for one in said)


def test_splits_are_told_in_words() -> None:
    data = jr.run(SWEEPS / "mlp_memory.toml")
    finding = words(plots.memory_throughput(data))
    assert any(
        re.match(r"Fastest: 8 stages, 64 microbatches, 10,223 samples/s", o) for o in finding
    )
    assert not any(re.search(r"\d x \d x \d", one) for one in finding)


def test_a_frontier_claims_what_holds_in_every_panel() -> None:
    systems = ["h100-sxm5", "h100-sxm5-1gb"]
    reach = xr.DataArray([[1e31, 2e24], [1e34, 1e24]], dims=("panel", "system"))
    data = xr.Dataset(
        {
            "relative_utilisation": (("panel", "system", "training_flops"), np.ones((2, 2, 3))),
            "threshold_80": reach,
        },
        {"system": systems, "training_flops": [1e23, 1e29, 1e35], "panel": [1, 2]},
    )
    said = words(plots.frontier(data))
    finding = "h100-sxm5 keeps 80 % of its rate up to 1e31 FLOP at least, h100-sxm5-1gb up to 2e24"
    assert any(one.startswith(finding) for one in said), said


def test_what_binds_says_where_the_base_machine_is() -> None:
    data = jr.elasticities(
        "published",
        model="gpt3",
        system="b200-nvs8",
        gpus=64,
        global_batch=64,
        axes={
            "system.hbm_bandwidth": list(np.geomspace(0.2e12, 16e12, 4)),
            "system.slow_bandwidth": list(np.geomspace(2e9, 400e9, 4)),
        },
    )
    (finding,) = [one for one in words(plots.draw(data, "binds")) if "of the map" in one]
    assert re.search(r", the (B200|base machine) included", finding), finding
