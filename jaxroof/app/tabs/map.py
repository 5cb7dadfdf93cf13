"""The tab of the map: the best plan over two fields, real machines marked; a click takes one."""

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import panel as pn
import xarray as xr
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

from jaxroof.app.controls import fields_for_map, numbers_of
from jaxroof.app.figures import INK, NUMBER, columns, framed, plot
from jaxroof.app.html import paragraph, text
from jaxroof.app.plans import names
from jaxroof.app.question import DOMAINS, SIZES, SPAN, Number, numbers, of_machine, words_of
from jaxroof.app.question import shown as shown_value
from jaxroof.app.tabs import Shown, View
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, unknown
from jaxroof.units import percent, seconds, size
from jaxroof.views.plots import style
from jaxroof.views.plots.map_axes import round_ticks
from jaxroof.views.real_systems import NEAR, Place, apart, family, real_systems
from jaxroof.views.text.plan import used_fields

POINTS = (25, 19)  # across and up
MANY = 100_000  # plans of a point from which on a map comes in pieces, a coarse one first
COARSE, FINE = (5, 3), (9, 7)  # points of these maps
PIECE = 3  # points of a piece
RESULTS = ("step_time", "mfu", "memory")
SIZES_SHOWN = 4  # powers of two on either side of the middle of an axis of sizes
EQUAL = 1e-9  # of the logarithm: values nearer than that are one
MARK = ("x", "y", "label", "text", "every", "only")
TIPS = [("step", "@seconds"), ("plan", "@plan"), ("MFU", "@mfu"), ("HBM", "@memory")]
CELLS = ("left", "right", "bottom", "top", "time", "seconds", "plan", "mfu", "memory", "x", "y")
LINE, ABOVE, DOT = 0.05, 0.04, 0.02  # shares of a map: a line; from a mark to its name; half a mark
CHARACTER, AXIS = 7.4, 130.0  # pixels of a character of a name; of the axis and the colour bar
UNFIT = "#E4E4E4"  # where nothing fits
LABELLED = 0.04  # share of the map from which on a region is named
FEW = 9  # values of an axis that are all written
NOTE = "Click a point to take its machine. Lines divide the regions of the best plans."
DOTS = (
    "A dot marks two numbers of a real machine and no others: all the rest stays that of the "
    "question, so that the colour under a dot is not that machine's step time."
)
Paths = tuple[str, str]  # of the fields across and up


class Map(NamedTuple):
    """The best plan at every point over two numbers: results over ``up`` and ``across`` [SI]."""

    paths: Paths
    data: xr.Dataset  # NaN where nothing fits
    plan: np.ndarray  # number of the best plan in ``plans``, -1 where nothing fits
    plans: list[str]
    here: Place  # the machine of the state
    machines: dict[Place, list[str]]  # real ones within the map

    @property
    def axes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the values across and up, ascending."""
        return self.data.across.values, self.data.up.values


# ---- The answer ---------------------------------------------------------------------------------


def machine_maps(shown: Shown) -> Iterator[Map | str]:
    """Yield the best plans at points around the question, over two of its numbers.

    Where each point has many plans, pieces of a map are computed one by one, so that nobody need
    wait for the rest of what is not asked any more: a coarse map comes first, and words between.
    """
    state, found = shown.state, shown.found
    paths, known = (state.across, state.up), fields_for_map(state)
    for field, path in zip(("across", "up"), paths, strict=True):
        if path not in known:
            raise unknown(field, path, "field of a map", known)
    if paths[0] == paths[1]:
        raise InputError(f"up: {words_of(paths[1])} on both axes; expected another field")
    told, usual = numbers(found), numbers_of(state)
    here = told[paths[0]][0], told[paths[1]][0]
    axes = [
        axis(path, told[path], usual.get(path), points)
        for path, points in zip(paths, POINTS, strict=True)
    ]
    if int(shown.data.plans_legal) <= MANY:
        yield _map(shown, paths, here, _searched(found, paths, axes))
        return
    for points in (COARSE, FINE):
        some = [_thinned(*each) for each in zip(axes, points, here, strict=True)]
        rows = yield from _in_pieces(found, paths, some)
        yield _map(shown, paths, here, rows)


def axis(path: str, told: tuple[float, Any], usual: Number | None, points: int) -> np.ndarray:
    """Return the values of one axis, today's among them: in equal ratios, or whole numbers.

    The middle is the catalogue's value, while today's is within the axis.
    """
    value, about = told
    middle = usual.value if usual else value
    if path in SIZES:
        power = SIZES_SHOWN * round(np.log2(value) / SIZES_SHOWN)
        powers = 2.0 ** np.arange(max(0, power - SIZES_SHOWN), power + SIZES_SHOWN + 1.0)
        return np.unique([*(v for v in powers if v <= SIZES[path]), value])
    if path == "system.fast_domain":
        return np.unique([*(float(d) for d in DOMAINS if d <= 8 * max(middle, value)), value])
    span = SPAN / 2.0
    middle = middle if middle / span <= value <= middle * span else value
    values = middle * np.geomspace(1.0 / span, span, points)
    if about["whole"]:
        values = np.maximum(np.round(values), 1.0)
    values = np.maximum(values, about.get("least") or 0.0)
    nearest = np.argmin(np.abs(np.log(values / value)))
    if abs(np.log(values[nearest] / value)) < EQUAL:
        values[nearest] = value
    return np.unique([*values, value])


def _searched(found: SearchProblem, paths: Paths, axes: Sequence[np.ndarray]) -> xr.Dataset:
    """Return the best plan at every point, and its results, all of them over ``up, across``."""
    along = dict(zip(("across", "up"), axes, strict=True))
    given = {dim: {path: along[dim].tolist()} for dim, path in zip(along, paths, strict=True)}
    data = search(
        found.estimator, found.inputs, found.recipe, axes=given, where=found.where, executor="numpy"
    )
    kept = data[[*RESULTS, *used_fields(data)]].broadcast_like(data.step_time)
    return kept.drop_vars(kept.coords).assign_coords(along).transpose("up", "across")


def _in_pieces(
    found: SearchProblem, paths: Paths, axes: Sequence[np.ndarray]
) -> Generator[str, None, xr.Dataset]:
    """Yield how far the search of a grid is, a few points at a time; return all of it."""
    across, up = axes
    whole, begun, done, rows = len(across) * len(up), time.monotonic(), 0, []
    for value in up:
        parts = []
        for start in range(0, len(across), PIECE):
            some = across[start : start + PIECE]
            parts.append(_searched(found, paths, (some, np.array([value]))))
            done += len(some)
            left = (time.monotonic() - begun) / done * (whole - done)
            yield f"Working: {done} of {whole} points of the map, about {left:.0f} s more"
        rows.append(xr.concat(parts, "across"))
    return xr.concat(rows, "up")


def _thinned(values: np.ndarray, points: int, here: float) -> np.ndarray:
    """Return at most some values of an axis, evenly apart, today's among them."""
    step = -(-len(values) // points)
    return values[int(np.argmin(np.abs(values - here))) % step :: step]


def _map(shown: Shown, paths: Paths, here: Place, data: xr.Dataset) -> Map:
    fields = used_fields(data)
    stacked = np.stack([data[name].values.ravel() for name in fields])
    rows, number = np.unique(stacked, axis=1, return_inverse=True)
    plans = {f: ("plan", row, data[f].attrs) for f, row in zip(fields, rows, strict=True)}
    plan = np.where(np.isfinite(data.step_time.values), number.reshape(data.step_time.shape), -1)
    words = names(xr.Dataset(plans, attrs=data.attrs))
    found = Map(paths, data, plan, words, here, {})
    if all(path.startswith("system.") for path in paths):
        own = str(shown.data.attrs["system"])
        bare = [path.removeprefix("system.") for path in paths]
        every = real_systems(shown.found.estimator.name, bare, found.axes).items()
        # that of the question is not among them where it stands, unchanged
        found.machines.update({p: n for p, n in every if own not in n or apart(p, here) >= NEAR})
    return found


def map_sentence(found: Map) -> str:
    """Return how much the map's fields change the step, and how many plans win somewhere."""
    times = found.data.step_time.values[found.plan >= 0]
    if not len(times):
        return "Nothing fits anywhere on this map."
    count, none = len(np.unique(found.plan[found.plan >= 0])), int(np.sum(found.plan < 0))
    plans = "one plan is best everywhere" if count == 1 else f"{count} plans are best somewhere"
    ratio = float(times.max() / times.min())
    said = f"Over this map the step changes by a factor of {ratio:.3g}, and {plans}."
    return said + (f" Nothing fits at {none} of {found.plan.size} points." if none else "")


# ---- The picture --------------------------------------------------------------------------------


class Side(NamedTuple):
    """An axis as it is shown: values and borders of cells in a unit that a person reads."""

    values: np.ndarray
    edges: np.ndarray
    scale: float  # of the unit [SI]
    label: str

    def share(self, at: Any) -> Any:
        """Return where values lie on the logarithmic axis, from 0 to 1."""
        return np.log(at / self.edges[0]) / np.log(self.edges[-1] / self.edges[0])

    def at(self, share: float) -> float:
        """Return the value at a share of the axis."""
        return float(self.edges[0] * (self.edges[-1] / self.edges[0]) ** share)


def _side(values: np.ndarray, path: str, unit: str) -> Side:
    scale, said = style.human(values, unit if unit in ("B", "B/s", "FLOP/s", "s") else "1")
    shown = values / scale
    middle = np.sqrt(shown[1:] * shown[:-1])
    ends = [shown[0] ** 2 / middle[0], shown[-1] ** 2 / middle[-1]] if len(middle) else []
    edges = [ends[0], *middle, ends[1]] if ends else [shown[0] / 1.5, shown[0] * 1.5]
    return Side(shown, np.array(edges), scale, style.with_unit(words_of(path), said))


class MapFigure:
    """The picture of a map, drawn anew without being made anew."""

    def __init__(self, clicked: Callable[[tuple[str, float], tuple[str, float]], None]) -> None:
        """Make the empty figure; ``clicked`` gets path and value of both fields."""
        self.clicked = clicked
        self.found: Map | None = None
        self.sides: list[Side] = []
        self.cells = ColumnDataSource({name: [] for name in CELLS}, name="cells")
        self.borders = ColumnDataSource({"xs": [], "ys": []})
        self.names = ColumnDataSource({"x": [], "y": [], "text": []})
        self.machines, self.here = (ColumnDataSource({n: [] for n in MARK}) for _ in range(2))
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
        look = {"text_font_size": "12px", "padding": 2, "text_align": "center"}
        made.text("x", "y", "text", source=self.names, text_baseline="middle", text_color=INK,
                  background_fill_color="white", background_fill_alpha=0.65, **look)  # fmt: skip
        marks = []
        for source, marker, wide, colour in (
            (self.machines, "circle", 10, "white"), (self.here, "star", 22, style.VERMILION),
        ):  # fmt: skip
            marks.append(made.scatter("x", "y", source=source, marker=marker, size=wide,
                                      color=colour, line_color="black"))  # fmt: skip
            made.text("label", "y", "text", source=source, y_offset=-9, text_font_style="bold",
                      text_color="white", background_fill_color="#10243e",
                      background_fill_alpha=0.85, **look)  # fmt: skip
        self.hover.renderers = [drawn]
        made.add_tools(self.hover, HoverTool(renderers=marks, tooltips="@every<br>@only"))
        bar = ColorBar(color_mapper=self.colours, title="step [s]", width=12, ticker=self.ticker,
                       title_text_font_size="13px", title_text_color=INK,
                       title_text_font_style="normal")  # fmt: skip
        made.add_layout(bar, "right")
        for one in (*made.xaxis, *made.yaxis):
            one.formatter = CustomJSTickFormatter(code=NUMBER)
        made.on_event("tap", self._tapped)
        return made

    def _tapped(self, event: Any) -> None:
        if self.found is None or event.x is None or event.y is None:
            return
        near = [
            (path, float(values[np.argmin(np.abs(np.log(side.values / max(at, 1e-30))))]))
            for path, values, side, at in zip(
                self.found.paths, self.found.axes, self.sides, (event.x, event.y), strict=True
            )
        ]
        self.clicked(near[0], near[1])

    def show(self, found: Map, units: Sequence[str], name: str, wide: float) -> None:
        """Draw a map ``wide`` pixels wide; ``name`` is that of the question's machine."""
        self.found = found
        self.sides = [_side(*each) for each in zip(found.axes, found.paths, units, strict=True)]
        made = self.picture
        spans = ((made.xaxis[0], made.x_range), (made.yaxis[0], made.y_range))
        for (drawn, span), side in zip(spans, self.sides, strict=True):
            span.start, span.end = side.edges[[0, -1]].tolist()
            drawn.axis_label = side.label
            ends = side.values[[0, -1]].tolist()
            few = len(side.values) <= FEW
            drawn.ticker = FixedTicker(ticks=side.values.tolist() if few else round_ticks(*ends))
        times = found.data.step_time.values[found.plan >= 0]
        if len(times):
            low, high = float(times.min()), float(times.max())
            self.colours.low, self.colours.high = low, max(high, 1.001 * low)
            self.ticker.ticks = round_ticks(low, high) or [low]
        self.cells.data = _cells(found, self.sides, units)
        self.borders.data = _borders(found.plan, *(side.edges for side in self.sides))
        letter = CHARACTER / (wide - AXIS)
        marks, taken = _marks(found, self.sides, name, letter)
        self.here.data, self.machines.data = columns(MARK, marks[:1]), columns(MARK, marks[1:])
        self.names.data = columns(("x", "y", "text"), _names(found, self.sides, letter, taken))
        named = [(words_of(path), f"@{key}") for path, key in zip(found.paths, "xy", strict=True)]
        self.hover.tooltips = [*named, *TIPS]


def _cells(found: Map, sides: Sequence[Side], units: Sequence[str]) -> dict[str, Any]:
    rows, across = np.indices(found.plan.shape).reshape(2, -1)
    each = [found.data[name].values.ravel().tolist() for name in RESULTS]
    (x, y), plans, edges = found.axes, found.plan.ravel().tolist(), [side.edges for side in sides]
    there = [place >= 0 for place in plans]

    def told(values: list[float], said: Callable[[float], str], none: str = "-") -> list[str]:
        return [said(v) if fits else none for v, fits in zip(values, there, strict=True)]

    return {
        "left": edges[0][across],
        "right": edges[0][across + 1],
        "bottom": edges[1][rows],
        "top": edges[1][rows + 1],
        "time": found.data.step_time.values.ravel(),
        "seconds": told(each[0], seconds, "nothing fits"),
        "plan": [found.plans[place] if place >= 0 else "-" for place in plans],
        "mfu": told(each[1], lambda v: percent(v, 1)),
        "memory": told(each[2], lambda v: size(v, "B")),
        "x": [shown_value(v, units[0]) for v in x[across].tolist()],
        "y": [shown_value(v, units[1]) for v in y[rows].tolist()],
    }


def _borders(plan: np.ndarray, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """Return the lines between cells of different plans."""
    beside = np.argwhere(np.diff(plan, axis=1) != 0).tolist()
    above = np.argwhere(np.diff(plan, axis=0) != 0).tolist()
    return {
        "xs": [*([x[j + 1], x[j + 1]] for _, j in beside), *([x[j], x[j + 1]] for _, j in above)],
        "ys": [*([y[i], y[i + 1]] for i, _ in beside), *([y[i + 1]] * 2 for i, _ in above)],
    }


# ---- Its names: places and sizes are shares of the picture --------------------------------------

Box = tuple[float, float, float]  # the middle across and up, and half the width


def _is_free(taken: Sequence[Box], x: float, y: float, half: float) -> bool:
    """Return whether a line of a name has room, on no other and within the picture."""
    inside = half <= x <= 1.0 - half
    return inside and all(abs(y - v) > LINE or abs(x - m) > half + h for m, v, h in taken)


def _marks(
    found: Map, sides: Sequence[Side], name: str, letter: float
) -> tuple[list[tuple[Any, ...]], list[Box]]:
    """Return the marks of machines, the question's first, and what they and their names take.

    ``letter`` is the width of one. A name that has no room is left out.
    """
    rows: list[tuple[Any, ...]] = []
    taken: list[Box] = []
    two = f"its {words_of(found.paths[0])} and {words_of(found.paths[1])} alone"
    own = [(found.here, name, name, "")]
    every = own + [(p, family(n), ", ".join(n), two) for p, n in found.machines.items()]
    for place, words, whole, only in every:
        x, y = (at / side.scale for at, side in zip(place, sides, strict=True))
        half = min(0.5 * letter * (len(words) + 1), 0.5)
        middle, up = float(np.clip(sides[0].share(x), half, 1.0 - half)), sides[1].share(y) + ABOVE
        free = _is_free(taken, middle, up, half)
        if free:
            taken.append((middle, up, half))
        rows.append((x, y, sides[0].at(middle) if free else np.nan, words, whole, only))
    return rows, [*taken, *((sides[0].share(x), sides[1].share(y), DOT) for x, y, *_ in rows)]


def _names(
    found: Map, sides: Sequence[Side], letter: float, taken: list[Box]
) -> list[tuple[float, float, str]]:
    """Return the names of the large regions, each as near to its middle as there is room."""
    told, (x, y) = [], sides
    for number in np.unique(found.plan).tolist():
        inside = np.argwhere(found.plan == number)
        words = found.plans[number] if number >= 0 else "nothing fits"
        half = 0.5 * letter * len(words)
        narrow = 2.0 * half > len(np.unique(inside[:, 1])) / found.plan.shape[1]
        if len(inside) < LABELLED * found.plan.size or narrow:
            continue
        far = np.abs((inside - np.median(inside, axis=0)) / found.plan.shape).sum(axis=1)
        spots = ((float(x.values[j]), float(y.values[i])) for i, j in inside[np.argsort(far)])
        free = (at for at in spots if _is_free(taken, x.share(at[0]), y.share(at[1]), half))
        if at := next(free, None):
            taken.append((x.share(at[0]), y.share(at[1]), half))
            told.append((*at, words))
    return told


# ---- The tab ------------------------------------------------------------------------------------


def map_view(clicked: Callable[..., None]) -> View:
    """Return the tab of the map; ``clicked`` gets path and value of both fields of a place."""
    said, drawn = text(), MapFigure(clicked)
    body = pn.Column(said, framed(drawn.picture, "map"), sizing_mode="stretch_width")

    def show(shown: Shown, found: Map) -> None:
        notes = [NOTE, *[DOTS] * bool(found.machines)]
        words = [paragraph(map_sentence(found)), *(paragraph(note, "note") for note in notes)]
        said.object = "".join(words)
        changed = any(of_machine(path) for path, _ in shown.state.changes)
        known: Mapping[str, Any] = numbers(shown.found)
        units = [str(known[path][1]["unit"]) for path in found.paths]
        drawn.show(found, units, shown.state.system_words + ", changed" * changed, shown.wide)

    return View(body, show, later=machine_maps)
