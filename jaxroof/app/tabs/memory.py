"""The tab of memory: every stage against the capacity, and what more capacity would buy."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Label, Range1d, Span

from jaxroof.app.figures import INK, framed, plain_axes, plot
from jaxroof.app.html import legend, paragraph, table, text
from jaxroof.app.plans import name_of
from jaxroof.app.question import Asked
from jaxroof.app.tabs.view import Shown, View
from jaxroof.engine.sensitivity.response import capacity_steps
from jaxroof.estimators.training.details import device_memory
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.records import field_at, with_named_absences
from jaxroof.units import percent, seconds, size
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import colours_of
from jaxroof.views.text.margin import Margin, margin_of

GB = 1e9
SPAN = 8.0  # the stairs are shown from 1 / SPAN to SPAN times today's capacity
HEADS = (
    ("plan", "The best plan from there on"),
    ("HBM from", "Least capacity with which the plan fits"),
    ("step", "Seconds of one optimizer step"),
)


class StageMemory(NamedTuple):
    """The memory of every stage by group of terms [B], what a step may fill [B], and its error."""

    groups: dict[str, np.ndarray]
    capacity: float
    margin: Margin

    @property
    def total(self) -> np.ndarray:
        """Return the memory of every stage."""
        found: np.ndarray = np.sum(list(self.groups.values()), axis=0)
        return found


def with_plan(found: Asked, row: xr.Dataset) -> Any:
    """Return the inputs with one of the plans."""
    assert found.estimator.plan is not None
    fields = {f: np.float64(row[f]) for f in found.estimator.plan_fields if f in row}
    return dataclasses.replace(found.inputs, plan=found.estimator.plan(**fields))


def by_stage(found: Asked, data: xr.Dataset, place: int = 0) -> StageMemory:
    """Return the memory of every pipeline stage of one of the plans."""
    row = data.isel(plan=place)
    inputs = with_named_absences(with_plan(found, row))
    each = device_memory(inputs, found.recipe, int(row.pipeline))
    words = {n: str(field_at(TrainingReport, n).metadata["words"]) for n in each if "_" in n}
    groups = {words[name]: np.asarray(each[name]) for name in words}
    return StageMemory(groups, found.capacity, margin_of(data))


def memory_sentence(memory: StageMemory) -> str:
    """Return how full the fullest stage is, and of what."""
    full = int(np.argmax(memory.total))
    need, stages = float(memory.total[full]), len(memory.total)
    largest = max(memory.groups, key=lambda name: float(memory.groups[name][full]))
    where = "The one stage" if stages == 1 else f"Stage {full}, the fullest of {stages},"
    share = percent(float(memory.groups[largest][full]) / need)
    left = size(memory.capacity - need, "B")
    return (
        f"{where} needs {size(need, 'B')} of {size(memory.capacity, 'B')}, so {left} are left; "
        f"{largest} take {share} of it. {memory.margin.sentence(need, memory.capacity)}"
    ).rstrip()


class Stair(NamedTuple):
    """A step of the stairs: from which capacity on [B], the step time [s], and the plan."""

    capacity: float
    step_time: float
    plan: str
    today: bool


def stairs(found: Asked) -> list[Stair]:
    """Return the best step time at every capacity, least capacity first."""
    data = capacity_steps(found.estimator, found.inputs, found.recipe, where=found.where)
    data = data.sortby("value")
    rows = (data.isel(step=place) for place in range(data.sizes["step"]))
    return [Stair(float(r.value), float(r.step_time), name_of(r), int(r.place) == 0) for r in rows]


def stairs_sentence(steps: list[Stair]) -> str:
    """Return what the next step up would buy, and what the next step down would cost."""
    today = next((place for place, step in enumerate(steps) if step.today), None)
    if today is None:
        return ""
    said = []
    now = steps[today]
    if today + 1 < len(steps):
        more = steps[today + 1]
        gain = percent(1.0 - more.step_time / now.step_time, 1)
        said.append(f"With {size(more.capacity, 'B')} the step would be {gain} shorter.")
    else:
        said.append("More memory would not make the step shorter.")
    if today:
        less = steps[today - 1]
        cost = percent(less.step_time / now.step_time - 1.0, 1)
        said.append(f"Below {size(now.capacity, 'B')} it would be {cost} longer ({less.plan}).")
    return " ".join(said)


# ---- The tab ------------------------------------------------------------------------------------


def memory_view() -> View:
    """Return the tab of memory by stage and of the stairs of capacity."""
    stages, show_stages = _stages()
    stairs, show_stairs = _stairs()
    said, between, below = text(), text(), text()
    of_stairs = framed(stairs, "capacity")
    of_stairs.visible = False  # until there are any
    body = pn.Column(
        said,
        framed(stages, "memory_by_stage"),
        between,
        of_stairs,
        below,
        sizing_mode="stretch_width",
    )

    def show(_: Shown, found: StageMemory) -> None:
        said.object = paragraph(memory_sentence(found)) + legend(show_stages(found))

    def show_later(shown: Shown, steps: list[Stair]) -> None:
        words = paragraph(stairs_sentence(steps))
        between.object = f"<h3>What more memory would buy</h3>{words}"
        show_stairs(steps, shown.found.capacity)
        of_stairs.visible = True
        rows = [
            (s.plan + "  (today)" * s.today, size(s.capacity, "B"), seconds(s.step_time))
            for s in near(steps)
        ]
        below.object = table(HEADS, rows, "The steps of the stairs around today's capacity", 1)

    def compute(shown: Shown) -> StageMemory:
        return by_stage(shown.found, shown.data)

    def later(shown: Shown) -> Iterator[list[Stair]]:
        yield stairs(shown.found)

    return View(body, compute, show, later, show_later)


def near(steps: list[Stair], reach: int = 4) -> list[Stair]:
    """Return the steps around today's."""
    today = next((place for place, step in enumerate(steps) if step.today), 0)
    return steps[max(0, today - reach) : today + reach + 1]


def _stages() -> tuple[Any, Callable[[StageMemory], list[tuple[str, str]]]]:
    """Return the figure of memory by stage, and the function that draws it."""
    source = ColumnDataSource({name: [] for name in COLUMNS})
    made = plot(340, x_axis_label="pipeline stage", y_axis_label="memory of one GPU [GB]",
                x_range=Range1d(-0.7, 0.7), y_range=Range1d(0, 1))  # fmt: skip
    drawn = made.vbar(
        x="stage", bottom="bottom", top="top", color="colour", width=0.8, source=source
    )
    tips = [("stage", "@stage"), ("", "@group: @words")]
    made.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    limit = Span(location=0, dimension="width", line_color=INK, line_dash="dashed", line_width=2)
    doubtful = BoxAnnotation(fill_color=INK, fill_alpha=0.08, visible=False)
    words = Label(x=5, y=0, x_units="screen", text="", text_font_size="12px", text_color=INK,
                  y_offset=3)  # fmt: skip
    made.add_layout(doubtful)
    made.add_layout(limit)
    made.add_layout(words)
    made.xaxis.ticker.desired_num_ticks = 12
    made.xaxis.ticker.min_interval = 1

    def show(found: StageMemory) -> list[tuple[str, str]]:
        colours = colours_of(found.groups)
        columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
        start = np.zeros(len(found.total))
        for name, values in found.groups.items():
            for stage, value in enumerate(values.tolist()):
                low = float(start[stage])
                row = (stage, low / GB, (low + value) / GB, colours[name], name, size(value, "B"))
                for column, cell in zip(COLUMNS, row, strict=True):
                    columns[column].append(cell)
            start = start + values
        source.data = columns
        limit.location = words.y = found.capacity / GB
        words.text = f"what a step may fill: {size(found.capacity, 'B')}"
        doubtful.visible = found.margin.error > 0.0
        doubtful.bottom, doubtful.top = found.margin.doubtful(found.capacity / GB)
        words.text += f"; {found.margin.band}" * doubtful.visible
        made.y_range.end = 1.15 * max(float(found.total.max()), found.capacity) / GB
        made.x_range.start, made.x_range.end = -0.7, len(found.total) - 0.3
        return list(colours.items())

    return made, show


COLUMNS = ("stage", "bottom", "top", "colour", "group", "words")


def _stairs() -> tuple[Any, Callable[[list[Stair], float], None]]:
    """Return the figure of step time against capacity, and the function that draws it."""
    line = ColumnDataSource({"capacity": [], "time": [], "plan": []})
    today = ColumnDataSource({"capacity": [], "time": [], "plan": []})
    made = plot(300, x_axis_label="HBM capacity [GB]", y_axis_label="best step time [s]",
                x_axis_type="log", y_axis_type="log", x_range=Range1d(1, 2),
                y_range=Range1d(1, 2))  # fmt: skip
    made.step(x="capacity", y="time", source=line, mode="after", color=style.BLUE, line_width=2)
    dots = made.scatter("capacity", "time", source=line, size=6, color=style.BLUE)
    here = made.scatter("capacity", "time", source=today, size=13, color=style.VERMILION)
    tips = [("from", "@capacity{0.0} GB"), ("step", "@time{0.000} s"), ("plan", "@plan")]
    made.add_tools(HoverTool(renderers=[dots, here], tooltips=tips))

    def show(steps: list[Stair], capacity: float) -> None:
        low, high = capacity / SPAN, SPAN * capacity
        shown = [step for step in steps if step.capacity <= high]
        first = max(
            (s for s in shown if s.capacity <= low), key=lambda s: s.capacity, default=shown[0]
        )
        shown = [step for step in shown if step.capacity >= first.capacity]
        line.data = _columns([*shown, shown[-1]._replace(capacity=high)])
        times = [step.step_time for step in shown]
        made.x_range.start, made.x_range.end = max(low, 0.9 * first.capacity) / GB, high / GB
        made.y_range.start, made.y_range.end = min(times) / 1.1, max(times) * 1.1
        plain_axes(made)
        today.data = _columns([s._replace(capacity=capacity) for s in steps if s.today])

    return made, show


def _columns(steps: list[Stair]) -> dict[str, list[object]]:
    return {
        "capacity": [step.capacity / GB for step in steps],
        "time": [step.step_time for step in steps],
        "plan": [step.plan for step in steps],
    }
