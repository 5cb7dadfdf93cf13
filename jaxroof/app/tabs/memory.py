"""The tab of memory: every stage against the capacity, and what more capacity would buy."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Label, Range1d, Span

from jaxroof.app.figures import INK, columns, framed, plain_axes, plot
from jaxroof.app.html import legend, paragraph, shell_table, text
from jaxroof.app.plans import names
from jaxroof.app.question import check_stages
from jaxroof.app.tabs import Shown, View
from jaxroof.engine.details import detail
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.response import capacity_steps
from jaxroof.units import size
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import MEMORY
from jaxroof.views.text.explain import steps_table
from jaxroof.views.text.fit import answer_sentence, groups, mark_sentence, stages_table
from jaxroof.views.text.margin import margin_of

GB = 1e9
SPAN = 8.0  # the stairs are shown from 1 / SPAN to SPAN times today's capacity
STAIRS = "The steps of the stairs around today's capacity"
STAGES = "The memory of every pipeline stage [GB]"


def with_plan(found: SearchProblem, row: xr.Dataset) -> Any:
    """Return the inputs with one of the plans."""
    assert found.estimator.plan is not None
    fields = {f: np.float64(row[f]) for f in found.estimator.plan_fields if f in row}
    return dataclasses.replace(found.inputs, plan=found.estimator.plan(**fields))


def by_stage(found: SearchProblem, data: xr.Dataset, place: int = 0) -> xr.Dataset:
    """Return the memory of every pipeline stage of one of the plans, as ``fit`` has it."""
    check_stages(found)
    inputs = with_plan(found, data.isel(plan=place))
    memory = detail(found.estimator, "memory", inputs, found.recipe)
    memory["capacity"].attrs["usable"] = float(found.inputs.system.hbm_usable)
    return memory


def stairs(found: SearchProblem) -> xr.Dataset:
    """Return the best step time at every capacity, least capacity first."""
    data = capacity_steps(found.estimator, found.inputs, found.recipe, where=found.where)
    return data.sortby("value")


# ---- The tab ------------------------------------------------------------------------------------


def memory_view() -> View:
    """Return the tab of memory by stage and of the stairs of capacity."""
    (stages, show_stages), (steps, show_stairs) = _stages(), _stairs()
    said, between, below = text(), text(), text()
    of_stairs = framed(steps, "capacity")
    of_stairs.visible = False  # until there are any
    parts = [said, framed(stages, "memory_by_stage"), between, of_stairs, below]

    def show(_: Shown, found: xr.Dataset) -> None:
        if "step" in found.sizes:
            show_later(found)
            return
        entries, one = legend(show_stages(found).items()), found.sizes["stage"] == 1
        rows = "" if one else shell_table(stages_table(found), STAGES)
        words = paragraph(answer_sentence(found)) + rows + paragraph(mark_sentence(found), "note")
        said.object = words + entries

    def show_later(found: xr.Dataset) -> None:
        between.object = "<h3>What more memory would buy</h3>"
        show_stairs(found)
        of_stairs.visible = True
        below.object = shell_table(steps_table(found), STAIRS)

    def later(shown: Shown) -> Iterator[xr.Dataset]:
        yield stairs(shown.found)

    def compute(shown: Shown) -> xr.Dataset:
        return by_stage(shown.found, shown.data)

    return View(pn.Column(*parts, sizing_mode="stretch_width"), show, compute, later)


def _stages() -> tuple[Any, Callable[[xr.Dataset], Mapping[str, str]]]:
    """Return the figure of memory by stage, and the function that draws it: it tells colours."""
    told = ("stage", "bottom", "top", "colour", "group", "words")
    source = ColumnDataSource({name: [] for name in told})
    made = plot(340, x_axis_label="pipeline stage", y_axis_label="memory of one GPU [GB]",
                x_range=Range1d(-0.7, 0.7), y_range=Range1d(0, 1))  # fmt: skip
    look = {"x": "stage", "bottom": "bottom", "top": "top", "color": "colour", "width": 0.8}
    drawn = made.vbar(**look, source=source)
    tips = [("stage", "@stage"), ("", "@group: @words")]
    made.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    limit = Span(location=0, dimension="width", line_color=INK, line_dash="dashed", line_width=2)
    doubtful = BoxAnnotation(fill_color=INK, fill_alpha=0.08, visible=False)
    words = Label(x=5, y=0, x_units="screen", text="", text_font_size="12px", text_color=INK,
                  y_offset=3)  # fmt: skip
    for annotation in (doubtful, limit, words):
        made.add_layout(annotation)
    made.xaxis.ticker.desired_num_ticks = 12
    made.xaxis.ticker.min_interval = 1

    def show(found: xr.Dataset) -> Mapping[str, str]:
        capacity, margin, rows = float(found.capacity), margin_of(found, "device"), []
        low = np.zeros(found.sizes["stage"])
        for name, values in groups(found).items():
            for stage, value in enumerate(values.tolist()):
                top = (low[stage] + value) / GB
                rows.append((stage, low[stage] / GB, top, MEMORY[name], name, size(value, "B")))
            low = low + values
        source.data = columns(told, rows)
        limit.location = words.y = capacity / GB
        words.text = f"what a step may fill: {size(capacity, 'B')}"
        doubtful.visible = margin.error > 0.0
        doubtful.bottom, doubtful.top = margin.doubtful(capacity / GB)
        words.text += f"; {margin.band}" * doubtful.visible
        made.y_range.end = 1.15 * max(float(low.max()), capacity) / GB
        made.x_range.start, made.x_range.end = -0.7, len(low) - 0.3
        return MEMORY

    return made, show


def _stairs() -> tuple[Any, Callable[[xr.Dataset], None]]:
    """Return the figure of step time against capacity, and the function that draws it."""
    line, today = (ColumnDataSource({"x": [], "time": [], "plan": []}) for _ in range(2))
    made = plot(300, x_axis_label="HBM capacity [GB]", y_axis_label="best step time [s]",
                x_axis_type="log", y_axis_type="log", x_range=Range1d(1, 2),
                y_range=Range1d(1, 2))  # fmt: skip
    made.step(x="x", y="time", source=line, mode="after", color=style.BLUE, line_width=2)
    dots = made.scatter("x", "time", source=line, size=6, color=style.BLUE)
    here = made.scatter("x", "time", source=today, size=13, color=style.VERMILION)
    tips = [("from", "@x{0.0} GB"), ("step", "@time{0.000} s"), ("plan", "@plan")]
    made.add_tools(HoverTool(renderers=[dots, here], tooltips=tips))

    def show(steps: xr.Dataset) -> None:
        from_, now = steps["value"].values / GB, steps.place.values == 0
        capacity = float((steps["value"] - steps.change)[0]) / GB
        low, high = capacity / SPAN, SPAN * capacity
        begun = int(np.sum(from_[1:] <= low))
        place = np.arange(begun, max(int(np.sum(from_ <= high)), begun + 1))
        times, words = steps.step_time.values, names(steps, "step")

        def drawn(x: Any, which: Any) -> dict[str, Any]:
            return {"x": x, "time": times[which], "plan": [words[i] for i in which]}

        line.data = drawn([*from_[place], high], [*place, place[-1]])
        today.data = drawn([capacity] * now.sum(), np.flatnonzero(now))
        made.x_range.start, made.x_range.end = max(low, 0.9 * from_[begun]), high
        made.y_range.start, made.y_range.end = times[place].min() / 1.1, times[place].max() * 1.1
        plain_axes(made)

    return made, show
