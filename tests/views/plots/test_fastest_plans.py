"""The picture of the best plans: a bar a plan, a group a size, no words over words."""

import itertools
import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.text import Text

import jaxroof as jr
from jaxroof.analyses.result_metadata import parts_of
from jaxroof.errors import InputError
from jaxroof.views import plots
from jaxroof.views.plots.fastest_plans import MOST

SIZES = (8, 16, 32)


def search(size: int) -> xr.Dataset:
    """Return the best plans of a small model on some accelerators."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
    return jr.fastest_plans(gpus=size, where="tp<=2,off=0", top=5, **asked)


@pytest.fixture(scope="module")
def several() -> xr.Dataset:
    """Return the best plans of several numbers of accelerators, as one search prints them."""
    found = [search(size) for size in SIZES]
    parts = [f.drop_vars([n for n in f if "plan" not in f[n].dims]) for f in found]
    whole = xr.concat(parts, "plan", combine_attrs="override")
    counts = np.repeat(SIZES, [part.sizes["plan"] for part in parts])
    return whole.assign(gpus=("plan", counts))


def words(figure: object) -> list[str]:
    """Return what is written."""
    return [text.get_text() for text in figure.findobj(Text)]  # type: ignore[attr-defined]


def test_every_plan_is_a_bar_as_long_as_its_time() -> None:
    data = search(16)
    figure = plots.draw(data)
    times = figure.axes[0]
    ends = [bar.get_x() + bar.get_width() for bar in times.containers[-1]]
    assert ends == pytest.approx(data.step_time.values.tolist())
    assert len(times.containers) == len(parts_of(data, "step_time"))
    said = words(figure)
    assert any(text.startswith("The best plans of llama3-8b on 16 h100-nvs8") for text in said)
    replicas = int(data["data"][0])
    assert any(f"s a step: dp {replicas}" in text for text in said)


def test_sizes_make_groups_and_no_words_lie_over_others(several: xr.Dataset) -> None:
    figure = plots.draw(several)
    figure.draw_without_rendering()
    said = words(figure)
    assert [f"{size} accelerators" for size in SIZES] == [
        t for t in said if t[0:1].isdigit() and t.endswith(" accelerators")
    ]
    assert sum(text.startswith("#1  ") for text in said) == len(SIZES)
    assert sum(text.startswith("#") for text in said) <= MOST
    boxes = [t.get_window_extent() for t in figure.axes[0].texts if t.get_text()]
    assert not any(one.overlaps(two) for one, two in itertools.combinations(boxes, 2))


def test_a_plan_of_ones_own_stands_below() -> None:
    data = search(16)
    plan = {"data": 4, "tensor": 4}
    parts = {name: float(data[name][0]) for name in parts_of(data, "step_time")}
    own = data.assign(
        own=4.5,
        own_place=7,
        own_device=5e10,
        own_plan=json.dumps(plan),
        own_parts=json.dumps(parts),
    )
    figure = plots.draw(own)
    assert any(t.startswith("yours, #7  dp 4 tp 4") for t in words(figure))


def test_what_has_no_plans_is_refused() -> None:
    with pytest.raises(InputError, match="fastest_plans: needs"):
        plots.fastest_plans(jr.evaluate("model_size", model="llama3-8b"))
    data = search(16)
    none = data.assign(step_time=data.step_time * np.nan)
    with pytest.raises(InputError, match="fastest_plans: no plan of the data has a result"):
        plots.fastest_plans(none)
