"""The tab of memory: every stage against the capacity, and what more capacity would buy."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import panel as pn
from bokeh.models import BoxAnnotation, ColumnDataSource, HoverTool, Label, Range1d, Span

from jaxroof.app.answers import memory
from jaxroof.app.panes.figures import INK, framed, plain_axes, plot
from jaxroof.app.panes.text import legend, paragraph, table, text
from jaxroof.app.panes.view import Shown, View
from jaxroof.units import seconds, size
from jaxroof.views.plots import style
from jaxroof.views.plots.colours import colours_of

GB = 1e9
SPAN = 8.0  # the stairs are shown from 1 / SPAN to SPAN times today's capacity
HEADS = (
    ("plan", "The best plan from there on"),
    ("HBM from", "Least capacity with which the plan fits"),
    ("step", "Seconds of one optimizer step"),
)


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

    def show(_: Shown, found: memory.StageMemory) -> None:
        said.object = paragraph(memory.memory_sentence(found)) + legend(show_stages(found))

    def show_later(shown: Shown, steps: list[memory.Stair]) -> None:
        words = paragraph(memory.stairs_sentence(steps))
        between.object = f"<h3>What more memory would buy</h3>{words}"
        show_stairs(steps, shown.found.capacity)
        of_stairs.visible = True
        rows = [
            (s.plan + "  (today)" * s.today, size(s.capacity, "B"), seconds(s.step_time))
            for s in near(steps)
        ]
        below.object = table(HEADS, rows, "The steps of the stairs around today's capacity", 1)

    def compute(shown: Shown) -> memory.StageMemory:
        return memory.by_stage(shown.found, shown.data)

    def later(shown: Shown) -> Iterator[list[memory.Stair]]:
        yield memory.stairs(shown.found)

    return View(body, compute, show, later, show_later)


def near(steps: list[memory.Stair], reach: int = 4) -> list[memory.Stair]:
    """Return the steps around today's."""
    today = next((place for place, step in enumerate(steps) if step.today), 0)
    return steps[max(0, today - reach) : today + reach + 1]


def _stages() -> tuple[Any, Callable[[memory.StageMemory], list[tuple[str, str]]]]:
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

    def show(found: memory.StageMemory) -> list[tuple[str, str]]:
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


def _stairs() -> tuple[Any, Callable[[list[memory.Stair], float], None]]:
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

    def show(steps: list[memory.Stair], capacity: float) -> None:
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


def _columns(steps: list[memory.Stair]) -> dict[str, list[object]]:
    return {
        "capacity": [step.capacity / GB for step in steps],
        "time": [step.step_time for step in steps],
        "plan": [step.plan for step in steps],
    }
