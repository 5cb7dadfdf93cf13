"""Figures of the page: one style, one palette, and buttons that save them."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import panel as pn
import xarray as xr
from bokeh.models import (
    ColumnDataSource,
    CustomJSTickFormatter,
    FactorRange,
    FixedTicker,
    HoverTool,
    Range1d,
    Segment,
)
from bokeh.plotting import figure

from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.units import percent
from jaxroof.views.plots import style
from jaxroof.views.plots.map_axes import round_ticks

WHOLE = "step_time"
LEAST = 1e-4  # share of a step below which a part is not drawn
INK, LIGHT = "#1b1f24", "#DDDDDD"
ROOM = 1.03  # of an axis over what is drawn
BAR = 34  # pixels of a horizontal bar with its gap
NUMBER = "return tick >= 1 ? tick.toLocaleString('en') : String(Number(tick.toPrecision(3)))"
SAVE = """
const layer = Bokeh.index.find_one(picture).export(kind, true);
layer.to_blob().then((blob) => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name + "." + kind;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
"""


def plot(height: int, **more: Any) -> Any:
    """Return an empty figure in the style of the page."""
    look: dict[str, Any] = {
        "height": height,
        "sizing_mode": "stretch_width",
        "tools": "",
        "toolbar_location": None,
        "background_fill_color": "#ffffff",
        "border_fill_color": "#ffffff",
        "outline_line_color": None,
    }
    made = figure(**{**look, **more})
    for axis in (*made.xaxis, *made.yaxis):
        axis.axis_label_text_font_size = "13px"
        axis.axis_label_text_font_style = "normal"
        axis.major_label_text_font_size = "12px"
        axis.axis_label_text_color = axis.major_label_text_color = INK
        axis.minor_tick_line_color = None
    made.grid.grid_line_color = LIGHT
    made.toolbar.logo = None
    return made


def plain_axes(made: Any) -> None:
    """Put round numbers at the ticks of both logarithmic axes of a figure."""
    for axis, span in ((made.xaxis[0], made.x_range), (made.yaxis[0], made.y_range)):
        axis.ticker = FixedTicker(ticks=round_ticks(span.start, span.end))
        axis.formatter = plain_number()


def plain_number() -> Any:
    """Return what writes the numbers of an axis in full."""
    return CustomJSTickFormatter(code=NUMBER)


def framed(picture: Any, name: str) -> pn.Column:
    """Return a figure with the buttons that save it as it is shown."""
    buttons = []
    for kind in ("png", "svg"):
        button = pn.widgets.Button(name=f"Save as {kind.upper()}", stylesheets=[BUTTON], margin=3)
        button.js_on_click(args={"picture": picture, "kind": kind, "name": name}, code=SAVE)
        buttons.append(button)
    shown = pn.pane.Bokeh(picture, sizing_mode="stretch_width", margin=0)
    return pn.Column(shown, pn.Row(*buttons, margin=0), sizing_mode="stretch_width", margin=(5, 0))


BUTTON = """
.bk-btn.bk-btn-default, a.bk-btn { font-size: .85rem; color: #0a4f88;
  background-color: #fff !important;  border: 1px solid #0a5c9e !important; }
.bk-btn.bk-btn-default:hover { background-color: #e8edf2 !important; }
.bk-btn:focus-visible { outline: 3px solid #f0a500; }
"""


class Part(NamedTuple):
    """One part of a stacked bar: whose bar, what it is, from where to where, and its share."""

    bar: str
    part: str
    start: float
    end: float
    share: float


def time_parts(data: xr.Dataset) -> list[str]:
    """Return the results that the step time is the sum of."""
    return parts_of(data, WHOLE) or [WHOLE]


def step_parts(data: xr.Dataset, bars: Sequence[str]) -> list[Part]:
    """Return the parts of the step of every plan, in the order in which they are stacked [s]."""
    parts = {words_of(data, name): data[name].values.tolist() for name in time_parts(data)}
    found = []
    for place, (bar, whole) in enumerate(zip(bars, data[WHOLE].values.tolist(), strict=True)):
        start = 0.0
        for label, values in parts.items():
            end = start + max(values[place], 0.0)
            if end - start > LEAST * whole:
                found.append(Part(bar, label, start, end, values[place] / whole))
            start = end
    return found


class Bars:
    """Step times as stacked bars that are drawn anew without being made anew."""

    def __init__(self) -> None:
        """Make the empty figure."""
        self.source = ColumnDataSource({name: [] for name in COLUMNS}, name="bars")
        self.bounds = ColumnDataSource({"bar": [], "low": [], "high": []})
        self.picture = plot(120, x_range=Range1d(0, 1), y_range=FactorRange(),
                            x_axis_label="step time [s]")  # fmt: skip
        drawn = self.picture.hbar(
            y="bar", left="left", right="right", color="colour", height=0.66, source=self.source
        )
        tips = [("", "@bar"), ("", "@part: @seconds s, @share")]
        self.picture.add_tools(HoverTool(renderers=[drawn], tooltips=tips))
        line = Segment(x0="low", x1="high", y0="bar", y1="bar", line_color=INK, line_width=2)
        self.picture.add_glyph(self.bounds, line)
        for end in ("low", "high"):
            self.picture.scatter(end, "bar", source=self.bounds, marker="dash", angle=1.5708,
                                 size=10, color=INK)  # fmt: skip
        self.picture.ygrid.grid_line_color = None
        self.picture.min_border_right = 20

    def show(
        self,
        data: xr.Dataset,
        bars: Sequence[str],
        bounds: Iterable[tuple[str, float, float]] = (),
    ) -> list[tuple[str, str]]:
        """Draw the parts of the step of every plan, and intervals; return the legend."""
        parts, ends, factors = step_parts(data, bars), list(bounds), list(bars)[::-1]
        known = style.parts(data, WHOLE).items()
        colours = {words_of(data, name): colour for name, (_, colour) in known}
        if list(self.picture.y_range.factors) != factors:
            self.picture.y_range.factors = factors
            self.picture.height = 70 + BAR * len(factors)
        rows = [
            (p.bar, p.part, p.start, p.end, colours[p.part], f"{p.end - p.start:.4g}",
             percent(p.share, 1))
            for p in parts
        ]  # fmt: skip
        self.source.data = columns(COLUMNS, rows)
        self.bounds.data = columns(("bar", "low", "high"), ends)
        self.picture.x_range.end = ROOM * max([one.end for one in parts] + [e[2] for e in ends])
        drawn = {one.part for one in parts}
        return [entry for entry in colours.items() if entry[0] in drawn]


COLUMNS = ("bar", "part", "left", "right", "colour", "seconds", "share")


def columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, list[Any]]:
    """Return rows as the columns of a picture's source.

    >>> columns(("a", "b"), [(1, 2), (3, 4)]), columns(("a",), [])
    ({'a': [1, 3], 'b': [2, 4]}, {'a': []})
    """
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}
