"""The tab of pipeline schedules: times side by side, and a timeline of every visit."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import panel as pn
import xarray as xr
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Range1d

from jaxroof.analyses.one_plan import schedule, trace
from jaxroof.app.components import Form
from jaxroof.app.figures import framed, plot
from jaxroof.app.form import schedule_groups
from jaxroof.app.html import alert, legend, paragraph, said_in, text
from jaxroof.app.question import Asked
from jaxroof.app.state import SCHEDULES
from jaxroof.app.tabs.memory import with_plan
from jaxroof.app.tabs.view import Shown, View
from jaxroof.errors import InputError, refusal
from jaxroof.units import percent, seconds
from jaxroof.views.answers import answer
from jaxroof.views.plots.colours import ink
from jaxroof.views.plots.trace import LOOKS

BLOCKS = 6000  # that a timeline shows
VISITS = 60_000  # that are computed at all
WORDS = {  # of the kinds of visits that need more than their name
    "weight": "weight gradient",
    "all-reduce": "all-reduce of gradients",
    "all-gather": "all-gather of weights",
    "optimizer": "update of parameters",
}
COLOURS = {kind: (WORDS.get(kind, kind), colour) for kind, colour in LOOKS.items()}
OTHER = COLOURS["other"]
CAPTION = "The best plan under every schedule"
NEAR = """
const near = cb_obj.end - cb_obj.start <= numbers.tags[0];
written.visible = near;
blocks.line_alpha = near ? 1 : 0;
"""
NUMBERS = ("x", "y", "text", "ink")
AXIS, DIGIT, EDGES = 90, 7, 4  # pixels of the axis, of a digit, and around a number
COLUMNS = ("left", "right", "bottom", "top", "colour", "kind", "words")


class Visit(NamedTuple):
    """One block of a timeline."""

    device: int  # counted from 0, as stages are
    kind: str
    microbatch: int
    stage: int
    start: float  # [s]
    end: float


class Timeline(NamedTuple):
    """The visits of one step, as many as are shown, and the seconds of the whole step."""

    name: str  # of the schedule
    visits: list[Visit]
    devices: int
    step: float
    shown: float  # [s] until which visits are shown


def _planned(found: Asked, data: xr.Dataset) -> Any:
    """Return the inputs with the best plan, after checking that it has stages, not too many.

    Raises: InputError where there is nothing to draw.
    """
    row = data.isel(plan=0)
    stages = int(row.pipeline)
    if stages < 2:
        raise refusal("schedule", "the best plan has no pipeline; try a rule such as pp>=2")
    replicas = int(row.data) * int(row.microbatch)
    visits = 2 * stages * int(row.interleave) * int(found.inputs.global_batch) // replicas
    if visits > VISITS:
        said = f"{visits:,} visits of stages in a step; expected at most {VISITS:,}"
        raise refusal("schedule", f"{said}: fewer sequences, or more replicas")
    return with_plan(found, row)


def schedules(found: Asked, data: xr.Dataset) -> xr.Dataset:
    """Return the best plan under every pipeline schedule.

    Raises: InputError where the plan has no pipeline, or no schedule allows it.
    """
    inputs = _planned(found, data)
    return schedule(inputs, found.recipe, estimator=found.estimator, schedules=SCHEDULES)


def timeline(found: Asked, data: xr.Dataset, name: str) -> Timeline:
    """Return every visit of the best plan under a schedule, as many as are shown.

    No name stands for the schedule that the plan has.

    Raises: InputError where the plan has no pipeline, or the schedule does not allow it.
    """
    inputs = _planned(found, data)
    every = {f.name: getattr(inputs, f.name) for f in dataclasses.fields(inputs)}
    name = name or own_schedule(data)
    given = {key: value for key, value in every.items() if value is not None}
    events = trace(found.estimator.name, {**given, **vars(found.recipe), "schedule": name})
    start, last = events.start.values, events.start.values + events.duration.values
    order = np.argsort(start, kind="stable")[:BLOCKS]
    columns = [events[n].values[order] for n in ("device", "kind", "microbatch", "stage")]
    columns += [start[order], last[order]]
    visits = [Visit(int(d) - 1, str(k), int(m), int(s), float(a), float(b))
              for d, k, m, s, a, b in zip(*columns, strict=True)]  # fmt: skip
    end = float(last.max())
    shown = end if len(start) <= BLOCKS else float(start[order[-1]])
    return Timeline(name, visits, int(events.device.values.max()), end, shown)


def own_schedule(data: xr.Dataset) -> str:
    """Return the schedule that the best plan has: 1F1B is interleaved where ranks have chunks."""
    chosen = json.loads(data.attrs.get("recipe", "{}")).get("schedule", "1f1b").replace("_", "-")
    return "interleaved" if int(data.interleave.values[0]) > 1 else str(chosen)


# ---- The tab ------------------------------------------------------------------------------------


def schedule_view(told: Callable[[str, Any], None]) -> View:
    """Return the tab of pipeline schedules; ``told`` is the listener of its form."""
    made, draw = _timeline()
    form, said, below = Form(told, always=True, groups=schedule_groups()), text(), text()
    form.sizing_mode, frame = "stretch_width", framed(made, "timeline")
    body = pn.Column(said, form, below, frame, sizing_mode="stretch_width")

    def show(shown: Shown, _: Any) -> None:
        form.values = {"schedule": shown.state.schedule}

    def later(shown: Shown) -> Iterator[tuple[str, Timeline | str] | str]:
        words = ""
        try:
            words = said_in(answer(schedules(shown.found, shown.data)), CAPTION)
            yield words, timeline(shown.found, shown.data, shown.state.schedule)
        except InputError as error:
            yield words or alert(str(error)), str(error) if words else ""

    def show_later(shown: Shown, found: tuple[str, Timeline | str]) -> None:
        said.object, visits = found
        frame.visible, form.visible = isinstance(visits, Timeline), visits != ""
        if isinstance(visits, str):
            below.object = alert(visits)
            return
        below.object = legend(_legend(visits)) + paragraph(_note(visits), "note")
        draw(visits, shown.wide)

    return View(body, lambda _: None, show, later, show_later, early=False)


def _timeline() -> tuple[Any, Callable[[Timeline, float], None]]:
    """Return the figure of a timeline, and the function that draws one, so wide in pixels."""
    source = ColumnDataSource({name: [] for name in COLUMNS})
    numbers = ColumnDataSource({name: [] for name in NUMBERS})
    made = plot(300, x_axis_label="time [s]", y_axis_label="device of the pipeline",
                x_range=Range1d(0, 1), y_range=Range1d(1, 0),
                tools="xbox_zoom,xpan,reset", active_drag="xbox_zoom",
                toolbar_location="above")  # fmt: skip
    drawn = made.quad(left="left", right="right", bottom="bottom", top="top", source=source,
                      fill_color="colour", line_color="white", line_width=0.3)  # fmt: skip
    written = made.text("x", "y", "text", source=numbers, text_font_size="11px",
                        text_align="center", text_baseline="middle", text_color="ink")  # fmt: skip
    near = CustomJS(args={"numbers": numbers, "written": written, "blocks": drawn.glyph}, code=NEAR)
    made.x_range.js_on_change("start", near)
    made.x_range.js_on_change("end", near)
    tips = [("", "@kind @words"), ("from", "@left{0.000} s"), ("to", "@right{0.000} s")]
    made.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
    made.yaxis.ticker.min_interval = 1
    made.ygrid.grid_line_color = None

    def draw(visits: Timeline, wide: float) -> None:
        source.data, numbers.data = _columns(visits), _numbers(visits)
        numbers.tags = [_near(visits, wide)]
        drawn.glyph.line_alpha = float(visits.shown <= numbers.tags[0])
        written.visible = visits.shown <= numbers.tags[0]
        made.x_range.start, made.x_range.end = 0.0, visits.shown
        made.x_range.reset_start, made.x_range.reset_end = 0.0, visits.shown
        made.y_range.start, made.y_range.end = visits.devices - 0.5, -0.5
        made.height = 110 + min(36, max(14, 420 // visits.devices)) * visits.devices

    return made, draw


def _note(found: Timeline) -> str:
    said = f"A step of {seconds(found.step)} under {found.name}"
    if found.shown < found.step:
        part = percent(found.shown / found.step)
        said = f"The first {part} of a step of {seconds(found.step)} under {found.name}"
    return f"{said}; zoom in to see the numbers of microbatches."


def _numbers(found: Timeline) -> dict[str, list[Any]]:
    """Return the numbers of microbatches, in the middle of their blocks."""
    each = [v for v in found.visits if v.stage >= 0]
    return {
        "x": [0.5 * (v.start + v.end) for v in each],
        "y": [v.device for v in each],
        "text": [str(v.microbatch) for v in each],
        "ink": [ink(COLOURS.get(v.kind, OTHER)[1]) for v in each],
    }


def _near(found: Timeline, wide: float) -> float:
    """Return how much of a step is seen at most where blocks have room for their numbers [s]."""
    each = sorted(v.end - v.start for v in found.visits if v.stage >= 0)
    digits = max(len(str(v.microbatch)) for v in found.visits)
    return (wide - AXIS) / (DIGIT * digits + EDGES) * each[len(each) // 4]


def _legend(found: Timeline) -> list[tuple[str, str]]:
    return list(dict.fromkeys(COLOURS.get(visit.kind, OTHER) for visit in found.visits))


def _columns(found: Timeline) -> dict[str, list[Any]]:
    visits = found.visits
    return {
        "left": [v.start for v in visits],
        "right": [v.end for v in visits],
        "bottom": [v.device - 0.45 for v in visits],
        "top": [v.device + 0.45 for v in visits],
        "colour": [COLOURS.get(v.kind, OTHER)[1] for v in visits],
        "kind": [COLOURS.get(v.kind, (v.kind, ""))[0] for v in visits],
        "words": [
            f"of stage {v.stage}, microbatch {v.microbatch}" if v.stage >= 0 else "" for v in visits
        ],
    }
