"""All pictures: letters that can be read on half a slide, a message, no words over words."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.text import Text

import jaxroof as jr
from jaxroof.errors import InputError
from jaxroof.views import plots
from jaxroof.views.plots import style

SLIDE = 13.333  # inches that a slide is wide
LEAST = 9.0  # points that letters have at least where a picture takes half of it
CAPACITY = {"system.hbm_capacity": jr.linspace("20 GB", "200 GB", 8)}
PLAN = {"data": 64, "tensor": 4, "pipeline": 8, "microbatch": 1, "fast_tensor": 4}


def inputs(**more: object) -> jr.Inputs:
    """Return a small question to the published study."""
    model, system = jr.model("gpt3-1t"), jr.system("b200-nvs8")
    return jr.Inputs(model=model, system=system, global_batch=4096.0, **more)


def machines(**axes: object) -> xr.Dataset:
    """Return the best plans over some axes and the capacity."""
    return jr.search(jr.published, inputs(gpus=1024), axes={**axes, **CAPACITY})


def sizes() -> xr.Dataset:
    """Return the best plans of some cluster sizes."""
    axes = {"system": ["a100-nvs4", "h200-nvs8"], "split": ["1d", "context"], "gpus": [256, 512]}
    return jr.search(jr.published, inputs(), axes=axes)


def fit() -> xr.Dataset:
    """Return the memory of a step by stage."""
    asked = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 128}
    return jr.fit(plan={"pp": 4, "dp": 8}, **asked)


def trace() -> xr.Dataset:
    """Return the events of a small step."""
    asked = {"model": "mlp-xs", "system": "h200-nvs8", "global_batch": 256}
    plan = {"data": 1, "tensor": 1, "pipeline": 4, "microbatches": 4}
    return jr.trace("pipeline", {**asked, **{f"plan.{name}": n for name, n in plan.items()}})


def roofs() -> xr.Dataset:
    """Return a product on two machines over its sizes."""
    axes = {"system": ["tpu-v5e-book", "h100-sxm"], "batch": jr.geomspace(1, 4096, 13)}
    return jr.evaluate(
        "matmul", hidden=4096, feedforward=16384, batch=1, system="tpu-v5e-book", axes=axes
    )


def hbm() -> xr.Dataset:
    """Return the best plans over bandwidth and capacity."""
    return machines(**{"system.hbm_bandwidth": jr.geomspace("1 TB/s", "16 TB/s", 6)})


PICTURES: dict[str, Callable[[], Figure]] = {
    "lines": lambda: plots.lines(sizes()),
    "comparison": lambda: plots.draw(sizes().sel(gpus=512)),
    "plans_and_time": lambda: plots.draw(sizes().sel(split="1d", system="h200-nvs8")),
    "machine_map": lambda: plots.machine_map(hbm()),
    "map_of_sizes": lambda: plots.machine_map(machines(gpus=[512, 576, 1024])),
    "staircase": lambda: plots.draw(jr.pareto(jr.published, inputs(gpus=1024))),
    "layers": lambda: plots.draw(jr.layers(inputs(plan=jr.Plan(**PLAN)))),
    "schedules": lambda: plots.draw(jr.schedule(inputs(plan=jr.Plan(**PLAN)))),
    "memory_by_stage": lambda: plots.draw(fit()),
    "timeline": lambda: plots.timeline(trace()),
    "roofline": lambda: plots.roofline(roofs()),
    "tornado": lambda: plots.tornado(jr.response(jr.published, inputs(gpus=1024), span=1.1)),
}


@pytest.fixture(scope="module", params=list(PICTURES))
def figure(request: pytest.FixtureRequest) -> Figure:
    made = PICTURES[request.param]()
    made.draw_without_rendering()
    return made


def said(figure: Figure) -> list[Text]:
    """Return the words that are seen."""
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]


def test_letters_can_be_read_on_half_a_slide(figure: Figure) -> None:
    shrunk = SLIDE / 2 / figure.get_figwidth()
    least = min(text.get_fontsize() for text in said(figure))
    assert least * shrunk >= LEAST
    assert figure.get_dpi() == style.DOTS == 150


def test_a_message_stands_below_the_title(figure: Figure) -> None:
    title, message = figure.texts
    assert title.get_window_extent().y0 >= message.get_window_extent().y1
    assert message.get_weight() == "bold"
    assert any(letter.isdigit() for letter in message.get_text())
    wide = message.get_window_extent()
    assert wide.x1 <= figure.bbox.x1, "it fits the width"
    top = max(axes.get_tightbbox().y1 for axes in figure.axes)
    assert wide.y0 >= top - 1.0, "nothing is drawn over it"


def test_no_label_of_an_axis_lies_over_another(figure: Figure) -> None:
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
            shown = [label for place, label in ticks if low <= place <= high]
            boxes = [label.get_window_extent() for label in shown if label.get_text()]
            pairs = itertools.pairwise(boxes)
            assert not any(one.overlaps(other) for one, other in pairs), axes.get_xlabel()


def test_two_hatchings_tell_what_does_not_fit_from_what_is_not_allowed() -> None:
    data = machines(gpus=[512, 576, 1024])
    made = plots.machine_map(data)
    hatches = {patch.get_hatch() for patch in made.axes[0].patches}
    assert {style.UNFIT["hatch"], style.BARRED["hatch"]} <= hatches
    words = [text.get_text() for text in said(made)]
    assert "not allowed: no plan divides 576 accelerators" in words
    assert {"nothing fits", "not allowed"} <= {t.get_text() for t in made.legends[0].get_texts()}


def test_a_rule_is_told_by_its_numbers() -> None:
    axes = {"plan.tensor": [3, 4, 8], **CAPACITY}
    data = jr.tabulate(jr.published, inputs(plan=jr.Plan(**PLAN)), axes=axes)
    words = [text.get_text() for text in said(plots.machine_map(data))]
    assert f"not allowed: 3 does not divide {jr.model('gpt3-1t').heads:g} heads" in words


def test_a_map_says_that_all_is_alike() -> None:
    data = hbm()
    near = data.assign(training_days=100.0 + 0.0 * data.training_days + np.arange(8) / 7)
    labels = [axes.get_ylabel() for axes in plots.machine_map(near).axes]
    assert any("all within " in label for label in labels)
    assert not any("all within " in a.get_ylabel() for a in plots.machine_map(data).axes)


def test_a_part_of_a_timeline() -> None:
    data = trace()
    end = float((data.start + data.duration).max())
    (axes,) = plots.timeline(data, end / 4, end / 2).axes
    low, high = axes.get_xlim()
    assert high == pytest.approx(2 * low)
    with pytest.raises(InputError, match=r"--from: the step takes .*; expected 0 or more"):
        plots.timeline(data, 2 * end)
    with pytest.raises(InputError, match=r"--to: expected more than --from"):
        plots.timeline(data, end / 2, end / 4)
