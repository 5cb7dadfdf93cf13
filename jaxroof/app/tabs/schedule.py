"""The tab of pipeline schedules: times side by side, and a timeline of every visit."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import panel as pn
import xarray as xr
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Range1d

from jaxroof.analyses.one_plan import schedule, trace
from jaxroof.app.figures import columns, framed, plot
from jaxroof.app.html import alert, legend, paragraph, said_in, text
from jaxroof.app.question import check_stages
from jaxroof.app.state import SCHEDULES
from jaxroof.app.tabs import Shown, View
from jaxroof.app.tabs.memory import with_plan
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.errors import InputError, refusal
from jaxroof.units import percent, seconds
from jaxroof.views.answers import answer
from jaxroof.views.plots.colours import ink
from jaxroof.views.plots.trace import LOOKS
from jaxroof.views.trace_blocks import WORDS, Block, rows, span

BLOCKS = 6000  # that a timeline shows
VISITS = 60_000  # that are computed at all
CAPTION = "The best plan under every schedule"
NEAR = """
const near = cb_obj.end - cb_obj.start <= numbers.tags[0];
written.visible = near;
blocks.line_alpha = near ? 1 : 0;
"""
NUMBERS = ("x", "y", "text", "ink")
AXIS, DIGIT, EDGES = 90, 7, 4  # pixels of the axis, of a digit, and around a number
COLUMNS = ("left", "right", "bottom", "top", "colour", "kind", "words")


class Timeline(NamedTuple):
    """What devices do in one step, as much as is shown, and the seconds of the whole step."""

    name: str  # of the schedule
    blocks: list[tuple[int, Block]]  # with their row, by their start
    rows: int
    step: float
    shown: float  # [s] until which blocks are shown


def _planned(found: SearchProblem, data: xr.Dataset) -> Any:
    """Return the inputs with the best plan, after checking that it has stages, not too many."""
    check_stages(found)
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


def schedules(found: SearchProblem, data: xr.Dataset) -> xr.Dataset:
    """Return the best plan under every pipeline schedule."""
    inputs = _planned(found, data)
    return schedule(inputs, found.recipe, estimator=found.estimator, schedules=SCHEDULES)


def timeline(found: SearchProblem, data: xr.Dataset, name: str) -> Timeline:
    """Return every visit of the best plan under a schedule, as many as are shown.

    No name stands for the schedule that the plan has.
    """
    inputs = _planned(found, data)
    every = {f.name: getattr(inputs, f.name) for f in dataclasses.fields(inputs)}
    name = name or own_schedule(data)
    given = {key: value for key, value in every.items() if value is not None}
    events = trace(found.estimator.name, {**given, **vars(found.recipe), "schedule": name})
    held, end = rows(events), span(events)
    blocks = [(place, block) for place, row in enumerate(held) for block in row.blocks]
    blocks.sort(key=lambda one: one[1].start)
    shown = end if len(blocks) <= BLOCKS else blocks[BLOCKS][1].start
    return Timeline(name, blocks[:BLOCKS], len(held), end, shown)


def own_schedule(data: xr.Dataset) -> str:
    """Return the schedule that the best plan has: 1F1B is interleaved where ranks have chunks."""
    chosen = json.loads(data.attrs.get("recipe", "{}")).get("schedule", "1f1b").replace("_", "-")
    return "interleaved" if int(data.interleave.values[0]) > 1 else str(chosen)


# ---- The tab ------------------------------------------------------------------------------------


def schedule_view() -> View:
    """Return the tab of pipeline schedules."""
    made, draw = _timeline()
    said, below, frame = text(), text(), framed(made, "timeline")
    body = pn.Column(said, below, frame, sizing_mode="stretch_width")

    def later(shown: Shown) -> Iterator[tuple[str, Timeline | str] | str]:
        words = ""
        try:
            words = said_in(answer(schedules(shown.found, shown.data)), CAPTION)
            yield words, timeline(shown.found, shown.data, shown.state.schedule)
        except InputError as error:
            yield words or alert(str(error)), str(error) if words else ""

    def show(shown: Shown, found: tuple[str, Timeline | str]) -> None:
        said.object, visits = found
        frame.visible = isinstance(visits, Timeline)
        if isinstance(visits, str):
            below.object = alert(visits)
            return
        looks = dict.fromkeys(_look(block) for _, block in visits.blocks)
        below.object = legend(looks) + paragraph(_note(visits), "note")
        draw(visits, shown.wide)

    return View(body, show, later=later)


def _timeline() -> tuple[Any, Callable[[Timeline, float], None]]:
    """Return the figure of a timeline, and the function that draws one, so wide in pixels."""
    source = ColumnDataSource(columns(COLUMNS, []))
    numbers = ColumnDataSource(columns(NUMBERS, []))
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

    def draw(found: Timeline, wide: float) -> None:
        drawn_blocks = [
            (b.start, b.end, row - 0.45, row + 0.45, _look(b)[1], _look(b)[0], _words(b))
            for row, b in found.blocks
        ]
        held = [(row, b) for row, b in found.blocks if b.stage >= 0]
        middles = [
            (0.5 * (b.start + b.end), row, str(b.microbatch), ink(_look(b)[1])) for row, b in held
        ]
        source.data, numbers.data = columns(COLUMNS, drawn_blocks), columns(NUMBERS, middles)
        numbers.tags = [_near([block for _, block in held], wide)]
        drawn.glyph.line_alpha = float(found.shown <= numbers.tags[0])
        written.visible = found.shown <= numbers.tags[0]
        made.x_range.start, made.x_range.end = 0.0, found.shown
        made.x_range.reset_start, made.x_range.reset_end = 0.0, found.shown
        made.y_range.start, made.y_range.end = found.rows - 0.5, -0.5
        made.height = 110 + min(36, max(14, 420 // found.rows)) * found.rows

    return made, draw


def _look(block: Block) -> tuple[str, str]:
    """Return what a block is called, and its colour."""
    kind = block.kind if block.kind in LOOKS else "other"
    return WORDS[kind], LOOKS[kind]


def _words(block: Block) -> str:
    return f"of stage {block.stage}, microbatch {block.microbatch}" if block.stage >= 0 else ""


def _note(found: Timeline) -> str:
    part = (
        f"The first {percent(found.shown / found.step)} of a" if found.shown < found.step else "A"
    )
    step = f"step of {seconds(found.step)} under {found.name}"
    return f"{part} {step}; zoom in to see the numbers of microbatches."


def _near(held: list[Block], wide: float) -> float:
    """Return how much of a step is seen at most where blocks have room for their numbers [s]."""
    each = sorted(v.end - v.start for v in held)
    digits = max(len(str(v.microbatch)) for v in held)
    return (wide - AXIS) / (DIGIT * digits + EDGES) * each[len(each) // 4]
