"""The tab of the map: the best plan over two fields, real machines marked; a click takes one."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import panel as pn
from bokeh.models import (
    ColorBar,
    ColumnDataSource,
    CustomJSTickFormatter,
    FixedTicker,
    HoverTool,
    LogColorMapper,
    Range1d,
)
from bokeh.palettes import Viridis256

from jaxroof.app.changes import numbers_of
from jaxroof.app.components import Form
from jaxroof.app.fields import of_machine, words_of
from jaxroof.app.fields import shown as shown_value
from jaxroof.app.figures import INK, NUMBER, framed, plot, round_numbers
from jaxroof.app.form import map_groups
from jaxroof.app.html import paragraph, text
from jaxroof.app.tabs import machine_map as answer
from jaxroof.app.tabs.view import Shown, View
from jaxroof.units import percent, seconds, size
from jaxroof.views.plots import style

# of a machine: its place, where its label stands if it does, the label, all names, its side, and
# what of it the place has
MARK = ("x", "y", "label_x", "text", "every", "align", "only")
TIPS = [("step", "@seconds"), ("plan", "@plan"), ("MFU", "@mfu"), ("HBM", "@memory")]
CELLS = ("left", "right", "bottom", "top", "time", "seconds", "plan", "mfu", "memory", "x", "y")
LINE = 0.05  # share of the height of a map that a line of a name takes
HIGH = 0.1  # share of the height of a map that a mark with its name takes
CHARACTER, AXIS = 7.4, 130.0  # pixels of a character of a name; of the axis and the colour bar
UNFIT = "#E4E4E4"  # where nothing fits
LABELLED = 0.04  # share of the map from which on a region is named
FEW = 9  # values of an axis that are all written
NOTE = "Click a point to take its machine. Lines divide the regions of the best plans."
DOTS = (
    "A dot marks two numbers of a real machine and no others: all the rest stays that of the "
    "question, so that the colour under a dot is not that machine's step time."
)


class MapFigure:
    """The picture of a map, drawn anew without being made anew."""

    def __init__(self, clicked: Callable[[tuple[str, float], tuple[str, float]], None]) -> None:
        """Make the empty figure; ``clicked`` gets path and value of both fields."""
        self.clicked = clicked
        self.found: answer.Map | None = None
        self.scales = (1.0, 1.0)
        self.cells = ColumnDataSource({name: [] for name in CELLS}, name="cells")
        self.borders = ColumnDataSource({"xs": [], "ys": []})
        self.names = ColumnDataSource({"x": [], "y": [], "text": []})
        self.machines = ColumnDataSource({name: [] for name in MARK})
        self.here = ColumnDataSource({name: [] for name in MARK})
        self.hover = HoverTool(tooltips=TIPS)
        self.colours = LogColorMapper(palette=Viridis256[::-1], low=1.0, high=2.0, nan_color=UNFIT)
        self.ticker = FixedTicker(ticks=[1.0])
        self.picture = self._made()

    def _made(self) -> Any:
        made = plot(470, x_axis_type="log", y_axis_type="log", x_range=Range1d(1, 2),
                    y_range=Range1d(1, 2), tools="tap")  # fmt: skip
        made.grid.grid_line_color = None
        drawn = made.quad(
            left="left", right="right", bottom="bottom", top="top", source=self.cells,
            fill_color={"field": "time", "transform": self.colours}, line_color=None,
            nonselection_fill_alpha=1.0, nonselection_line_color=None,
        )  # fmt: skip
        made.multi_line("xs", "ys", source=self.borders, color="white", line_width=1.4)
        made.text("x", "y", "text", source=self.names, text_font_size="12px", padding=2,
                  text_align="center", text_baseline="middle", text_color=INK,
                  background_fill_color="white", background_fill_alpha=0.65)  # fmt: skip
        marks = []
        for source, marker, wide, colour in (
            (self.machines, "circle", 10, "white"), (self.here, "star", 22, style.VERMILION),
        ):  # fmt: skip
            marks.append(made.scatter("x", "y", source=source, marker=marker, size=wide,
                                      color=colour, line_color="black"))  # fmt: skip
            made.text("label_x", "y", "text", source=source, text_font_size="12px", y_offset=-9,
                      text_align="align", text_font_style="bold", text_color="white", padding=2,
                      background_fill_color="#10243e", background_fill_alpha=0.85)  # fmt: skip
        self.hover.renderers = [drawn]
        made.add_tools(self.hover, HoverTool(renderers=marks, tooltips="@every<br>@only"))
        bar = ColorBar(color_mapper=self.colours, title="step [s]", width=12, ticker=self.ticker,
                            title_text_font_size="13px", title_text_color=INK,
                            title_text_font_style="normal")  # fmt: skip
        made.add_layout(bar, "right")
        for axis in (*made.xaxis, *made.yaxis):
            axis.formatter = CustomJSTickFormatter(code=NUMBER)
        made.on_event("tap", self._tapped)
        return made

    def _tapped(self, event: Any) -> None:
        if self.found is None or event.x is None or event.y is None:
            return
        x = _nearest(self.found.x, event.x * self.scales[0])
        y = _nearest(self.found.y, event.y * self.scales[1])
        self.clicked((self.found.across, x), (self.found.up, y))

    def show(self, found: answer.Map, name: str, wide: float) -> None:
        """Draw a map ``wide`` pixels wide; ``name`` is that of the question's machine."""
        self.found = found
        axes = [_readable(v, u) for v, u in zip((found.x, found.y), found.units, strict=True)]
        self.scales = axes[0][0], axes[1][0]
        x, y = found.x / self.scales[0], found.y / self.scales[1]
        edges = _edges(x), _edges(y)
        made = self.picture
        for axis, span, ends, values, path, (_, unit) in (
            (made.xaxis[0], made.x_range, edges[0], x, found.across, axes[0]),
            (made.yaxis[0], made.y_range, edges[1], y, found.up, axes[1]),
        ):
            span.start, span.end = float(ends[0]), float(ends[-1])
            axis.axis_label = style.with_unit(words_of(path), unit)
            axis.ticker = FixedTicker(ticks=_ticks(values))
        times = found.step_time[np.isfinite(found.step_time)]
        if len(times):
            low, high = float(times.min()), float(times.max())
            self.colours.low, self.colours.high = low, max(high, 1.001 * low)
            self.ticker.ticks = round_numbers(low, high) or [low]
        self.cells.data = _cells(found, edges)
        self.borders.data = _borders(found.plan, edges)
        letter = CHARACTER / (wide - AXIS)
        self.names.data = _names(found, x, y, letter)
        marks = [(name, *found.here, name), *found.machines]
        placed = _marks(found, marks, self.scales, letter)
        self.here.data = {key: column[:1] for key, column in placed.items()}
        self.machines.data = {key: column[1:] for key, column in placed.items()}
        named = [(words_of(found.across), "@x"), (words_of(found.up), "@y")]
        self.hover.tooltips = [*named, *TIPS]


def _nearest(values: np.ndarray, at: float) -> float:
    return float(values[np.argmin(np.abs(np.log(values / max(at, 1e-30))))])


def _readable(values: np.ndarray, unit: str) -> tuple[float, str]:
    return style.human(values, unit if unit in ("B", "B/s", "FLOP/s", "s") else "1")


def _edges(values: np.ndarray) -> np.ndarray:
    """Return the borders of cells around values, midway on a logarithmic axis."""
    if len(values) == 1:
        return np.array([values[0] / 1.5, values[0] * 1.5])
    middle = np.sqrt(values[1:] * values[:-1])
    return np.concatenate([[values[0] ** 2 / middle[0]], middle, [values[-1] ** 2 / middle[-1]]])


def _ticks(values: np.ndarray) -> list[float]:
    """Return the values themselves where they are few, else round numbers between them."""
    few = len(values) <= FEW
    return values.tolist() if few else round_numbers(float(values[0]), float(values[-1]))


def _cells(found: answer.Map, edges: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    rows, columns = np.indices(found.step_time.shape).reshape(2, -1)
    times, plans = found.step_time.ravel(), found.plan.ravel()
    return {
        "left": edges[0][columns],
        "right": edges[0][columns + 1],
        "bottom": edges[1][rows],
        "top": edges[1][rows + 1],
        "time": times,
        "seconds": [seconds(t) if np.isfinite(t) else "nothing fits" for t in times.tolist()],
        "plan": [found.plans[k] if k >= 0 else "-" for k in plans.tolist()],
        "mfu": [percent(v, 1) if np.isfinite(v) else "-" for v in found.mfu.ravel().tolist()],
        "memory": [size(v, "B") if np.isfinite(v) else "-" for v in found.memory.ravel().tolist()],
        "x": [shown_value(v, found.units[0]) for v in found.x[columns].tolist()],
        "y": [shown_value(v, found.units[1]) for v in found.y[rows].tolist()],
    }


def _borders(plan: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Return the lines between cells of different plans."""
    x, y = edges
    xs, ys = [], []
    for i, j in np.argwhere(np.diff(plan, axis=1) != 0).tolist():
        xs.append([x[j + 1], x[j + 1]])
        ys.append([y[i], y[i + 1]])
    for i, j in np.argwhere(np.diff(plan, axis=0) != 0).tolist():
        xs.append([x[j], x[j + 1]])
        ys.append([y[i + 1], y[i + 1]])
    return {"xs": xs, "ys": ys}


def _marks(
    found: answer.Map,
    marks: Sequence[tuple[str, float, float, str]],
    scales: tuple[float, float],
    letter: float,
) -> dict[str, list[Any]]:
    """Return where machines are marked; a name that would lie on an earlier one is left out.

    ``letter`` is the share of the width that a letter takes.
    """
    told: dict[str, list[Any]] = {name: [] for name in MARK}
    taken: list[tuple[float, float, float]] = []
    two = f"its {words_of(found.across)} and {words_of(found.up)} alone"
    for place, (name, x, y, every) in enumerate(marks):
        across, up = _share(found.x, x), _share(found.y, y)
        half = 0.5 * letter * (len(name) + 1)
        align = "left" if across < half else "right" if across > 1.0 - half else "center"
        middle = across + {"left": half, "right": -half, "center": 0.0}[align]
        free = all(abs(up - v) > LINE or abs(middle - m) > half + h for m, v, h in taken)
        if free:
            taken.append((middle, up, half))
        at = x / scales[0]
        only = two if place else ""  # the first is the question's own
        row = (at, y / scales[1], at if free else np.nan, name, every, align, only)
        for key, value in zip(MARK, row, strict=True):
            told[key].append(value)
    return told


def _share(values: np.ndarray, at: float) -> float:
    """Return where a value lies on a logarithmic axis, from 0 to 1."""
    low, high = _edges(values)[[0, -1]]
    return float(np.log(at / low) / np.log(high / low))


def _names(found: answer.Map, x: np.ndarray, y: np.ndarray, letter: float) -> dict[str, Any]:
    """Return the names of the large regions, each near its middle, away from machines and edges."""
    told: dict[str, list[Any]] = {"x": [], "y": [], "text": []}
    shape = np.array(found.plan.shape)
    marks = [found.here, *(place[1:3] for place in found.machines)]
    taken = np.array([_cell(found, place) for place in marks]) / shape
    for number in np.unique(found.plan):
        inside = np.argwhere(found.plan == number)
        words = found.plans[number] if number >= 0 else "nothing fits"
        long = letter * len(words)
        if (
            len(inside) < LABELLED * found.plan.size
            or long > len(np.unique(inside[:, 1])) / shape[1]
        ):
            continue
        far = np.abs((inside - np.median(inside, axis=0)) / shape).sum(axis=1)
        apart = np.abs(inside[:, None] / shape - taken)
        hidden = ((apart[..., 0] < HIGH) & (apart[..., 1] < long)).any(axis=1)
        middle = (inside[:, 1] + 0.5) / shape[1]
        cut = (middle < 0.5 * long) | (middle > 1.0 - 0.5 * long)
        i, j = inside[np.argmin(far + hidden + 2 * cut)]
        for name, value in (("x", float(x[j])), ("y", float(y[i])), ("text", words)):
            told[name].append(value)
    return told


def _cell(found: answer.Map, place: tuple[float, float]) -> tuple[int, int]:
    """Return the row and the column of the cell at a place."""
    across, up = (np.log(v / p) for v, p in zip((found.x, found.y), place, strict=True))
    return int(np.argmin(np.abs(up))), int(np.argmin(np.abs(across)))


def map_view(told: Callable[[str, Any], None], clicked: Callable[..., None]) -> View:
    """Return the tab of the map; ``told`` is the form's listener, ``clicked`` that of a click."""
    form, said, drawn = Form(told, always=True), text(), MapFigure(clicked)
    form.sizing_mode = "stretch_width"
    body = pn.Column(form, said, framed(drawn.picture, "map"), sizing_mode="stretch_width")

    def show(shown: Shown, _: Any) -> None:
        form.groups = map_groups(shown.state)
        form.values = {"across": shown.state.across, "up": shown.state.up}

    def later(shown: Shown) -> Iterator[answer.Map | str]:
        state = shown.state
        usual = {path: number.value for path, number in numbers_of(state).items()}
        return answer.machine_maps(shown.found, shown.data, state.across, state.up, usual)

    def show_later(shown: Shown, found: answer.Map) -> None:
        said.object = paragraph(answer.map_sentence(found)) + "".join(
            paragraph(note, "note") for note in [NOTE, *[DOTS] * bool(found.machines)]
        )
        changed = any(of_machine(path) for path, _ in shown.state.changes)
        drawn.show(found, shown.state.system_words + ", changed" * changed, shown.wide)

    return View(body, lambda _: None, show, later, show_later, early=False)
