"""The tab of pipeline schedules: times side by side, and a timeline of every visit."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import panel as pn
from bokeh.models import ColumnDataSource, CustomJS, HoverTool, Range1d

from jaxroof.app.answers import schedule
from jaxroof.app.form import schedule_groups
from jaxroof.app.panes.components import Form
from jaxroof.app.panes.figures import framed, plot
from jaxroof.app.panes.text import alert, legend, paragraph, table, text
from jaxroof.app.panes.view import Shown, View
from jaxroof.errors import InputError
from jaxroof.units import percent, seconds, size
from jaxroof.views.plots.colours import ink
from jaxroof.views.plots.trace import LOOKS

WORDS = {  # of the kinds of visits that need more than their name
    "weight": "weight gradient",
    "all-reduce": "all-reduce of gradients",
    "all-gather": "all-gather of weights",
    "optimizer": "update of parameters",
}
COLOURS = {kind: (WORDS.get(kind, kind), colour) for kind, colour in LOOKS.items()}
OTHER = COLOURS["other"]
HEADS = (
    ("schedule", "Who runs which microbatch when"),
    ("step", "Seconds of one optimizer step"),
    ("idle", "Share of the step, mean of the devices"),
    ("HBM", "Memory of the fullest device"),
    ("fits", "Whether that is there"),
)
NEAR = """
const near = cb_obj.end - cb_obj.start <= numbers.tags[0];
written.visible = near;
blocks.line_alpha = near ? 1 : 0;
"""
NUMBERS = ("x", "y", "text", "ink")
AXIS, DIGIT, EDGES = 90, 7, 4  # pixels of the axis, of a digit, and around a number
COLUMNS = ("left", "right", "bottom", "top", "colour", "kind", "words")
Answer = tuple[schedule.Schedules, schedule.Timeline | str]


class NotDrawn(NamedTuple):
    """Why a plan has no schedules to show."""

    why: str


def schedule_view(told: Callable[[str, Any], None]) -> View:
    """Return the tab of pipeline schedules; ``told`` is the listener of its form."""
    made, draw = _timeline()
    form, said, below = Form(told, always=True, groups=schedule_groups()), text(), text()
    form.sizing_mode, frame = "stretch_width", framed(made, "timeline")
    body = pn.Column(said, form, below, frame, sizing_mode="stretch_width")

    def show(shown: Shown, _: Any) -> None:
        form.values = {"schedule": shown.state.schedule}

    def later(shown: Shown) -> Iterator[Answer | NotDrawn]:
        try:
            rows = schedule.schedules(shown.found, shown.data)
        except InputError as error:
            yield NotDrawn(str(error))
            return
        try:
            yield rows, schedule.timeline(shown.found, shown.data, shown.state.schedule)
        except InputError as error:
            yield rows, str(error)

    def show_later(shown: Shown, found: Answer | NotDrawn) -> None:
        frame.visible = form.visible = not isinstance(found, NotDrawn)
        if isinstance(found, NotDrawn):
            said.object, below.object = alert(found.why), ""
            return
        (rows, note), visits = found
        cells = [_cells(row) for row in rows]
        caption = "The best plan under every schedule"
        words = paragraph(schedule.schedule_sentence(rows)) + (paragraph(note) if note else "")
        why = [paragraph(f"Refused: {row.reason}.", "note") for row in rows if row.reason]
        said.object = words + table(HEADS, cells, caption, 1) + "".join(why)
        if isinstance(visits, str):
            below.object, frame.visible = alert(visits), False
            return
        below.object = legend(_legend(visits)) + paragraph(_note(visits), "note")
        draw(visits, shown.wide)

    return View(body, lambda _: None, show, later, show_later, early=False)


def _timeline() -> tuple[Any, Callable[[schedule.Timeline, float], None]]:
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

    def draw(visits: schedule.Timeline, wide: float) -> None:
        source.data, numbers.data = _columns(visits), _numbers(visits)
        numbers.tags = [_near(visits, wide)]
        drawn.glyph.line_alpha = float(visits.shown <= numbers.tags[0])
        written.visible = visits.shown <= numbers.tags[0]
        made.x_range.start, made.x_range.end = 0.0, visits.shown
        made.x_range.reset_start, made.x_range.reset_end = 0.0, visits.shown
        made.y_range.start, made.y_range.end = visits.devices - 0.5, -0.5
        made.height = 110 + min(36, max(14, 420 // visits.devices)) * visits.devices

    return made, draw


def _cells(row: schedule.Row) -> tuple[str, ...]:
    if row.reason:
        return row.name, "refused", "-", "-", "-"
    fits = "yes" if row.fits else "no"
    return row.name, seconds(row.step_time), percent(row.bubble, 1), size(row.memory, "B"), fits


def _note(found: schedule.Timeline) -> str:
    said = f"A step of {seconds(found.step)} under {found.name}"
    if found.shown < found.step:
        part = percent(found.shown / found.step)
        said = f"The first {part} of a step of {seconds(found.step)} under {found.name}"
    return f"{said}; zoom in to see the numbers of microbatches."


def _numbers(found: schedule.Timeline) -> dict[str, list[Any]]:
    """Return the numbers of microbatches, in the middle of their blocks."""
    each = [v for v in found.visits if v.stage >= 0]
    return {
        "x": [0.5 * (v.start + v.end) for v in each],
        "y": [v.device for v in each],
        "text": [str(v.microbatch) for v in each],
        "ink": [ink(COLOURS.get(v.kind, OTHER)[1]) for v in each],
    }


def _near(found: schedule.Timeline, wide: float) -> float:
    """Return how much of a step is seen at most where blocks have room for their numbers [s]."""
    each = sorted(v.end - v.start for v in found.visits if v.stage >= 0)
    digits = max(len(str(v.microbatch)) for v in found.visits)
    return (wide - AXIS) / (DIGIT * digits + EDGES) * each[len(each) // 4]


def _legend(found: schedule.Timeline) -> list[tuple[str, str]]:
    return list(dict.fromkeys(COLOURS.get(visit.kind, OTHER) for visit in found.visits))


def _columns(found: schedule.Timeline) -> dict[str, list[Any]]:
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
