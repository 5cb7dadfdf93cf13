"""Traces as pictures: stages by time, what each of them does, and where it idles."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from jaxroof.errors import refusal
from jaxroof.io.traces import (
    COLUMNS,
    NONE,
    VISITS,
    is_trace,
    labelled_parts,
    side_by_side,
)
from jaxroof.units import percent, seconds, show
from jaxroof.views.plots import colours, style
from jaxroof.views.plots import select as choose
from jaxroof.views.trace_blocks import (
    WORDS,
    Block,
    Row,
    rows,
    shares,
    span,
)

PICTURE = "timeline"
LOOKS = colours.EVENTS
PALER = 0.5  # share of white in the colours of a device's later stages
ROW, LOW, TALL = 0.45, 0.36, 12  # inches of a row, of a row of many, rows that are not many
HIGH = 0.84  # of a row
ACROSS = 0.82 * style.DOTS  # pixels of the time axis, of an inch of the picture
DIGIT = 0.64  # width of a digit over its size
THIN = 2.0  # pixels: collectives of a visit that are narrower are drawn together at its end
EDGED = 5.0  # pixels: blocks that are wider are set apart by a line
ALIKE = 5e-4  # relative difference of steps that take as long
MOST_NUMBERS = 4000
MOST_ROWS = 64


class Shape(NamedTuple):
    """A rectangle: from left to right in a row."""

    left: float
    right: float
    row: float
    colour: str
    edged: bool


@style.drawn
def timeline(
    data: xr.Dataset | Mapping[str, xr.Dataset] | Iterable[xr.Dataset],
    start: float | None = None,
    end: float | None = None,
) -> Figure:
    """Return what every stage does over time; several traces one below the other.

    ``start`` and ``end`` [s] cut the picture to a part of the step.

    The operations of a visit are one block with the number of its microbatch; devices that do the
    same at the same time share a row. Idle is what is left of devices times step time.
    Raises: InputError for data that are no trace, have more rows than can be read, or for a part of
    the step that is empty.
    """
    whole = data if isinstance(data, xr.Dataset) else side_by_side(data)
    if not is_trace(whole):
        choose.check_has(whole, PICTURE, COLUMNS, ("event",))
    traces = {name: part for name, part in labelled_parts(whole).items() if span(part) > 0.0}
    if not traces:
        raise refusal(PICTURE, "no event of the data takes any time")
    drawn = {name: rows(part) for name, part in traces.items()}
    most = max(map(len, drawn.values()))
    if most > MOST_ROWS:
        raise refusal(PICTURE, f"shows {MOST_ROWS} different devices at most; the data have {most}")
    longest = max(map(span, traces.values()))
    left, right = _window(start, end, longest)
    scale, unit = style.human(np.array([right]), "s")
    row = ROW if sum(map(len, drawn.values())) <= TALL else LOW
    heights = [0.55 + row * len(some) for some in drawn.values()]
    head = "Schedules side by side" if len(traces) > 1 else "One step, device by device"
    made = style.figure(choose.title(whole, head), _finding(traces), 1.9 + sum(heights))
    cells = made.subplots(len(drawn), 1, sharex=True, squeeze=False, height_ratios=heights).ravel()
    notes: dict[str, None] = {}
    for axes, (name, part) in zip(cells, traces.items(), strict=True):
        pixels = ACROSS * style.WIDE / ((right - left) / scale)  # of a unit of time
        axes.set_xlim(left / scale, right / scale)
        notes |= dict.fromkeys(_panel(axes, drawn[name], span(part) / scale, scale, pixels))
        if len(traces) > 1:
            axes.set_title(f"{name}: {_words(part)}", loc="left")
    words = "; ".join([style.with_unit("time", unit), *notes])
    cells[-1].set_xlabel(textwrap.fill(words, 80))
    kinds = {kind for trace in traces.values() for kind in shares(trace)}
    looks = [Patch(color=look, label=WORDS[k]) for k, look in LOOKS.items() if k in kinds]
    style.legend(made, columns=5, extra=looks, frameon=False)
    return made


def _window(start: float | None, end: float | None, longest: float) -> tuple[float, float]:
    """Return the part of the step that is drawn [s].

    Raises: InputError for a part that is empty or outside of the step.
    """
    left, right = 0.0 if start is None else start, longest if end is None else end
    if not 0.0 <= left < longest:
        step = f"the step takes {seconds(longest)}"
        raise refusal("--from", f"{step}; expected 0 or more, and less than that, given {left:g}")
    if not left < right:
        raise refusal("--to", f"expected more than --from ({left:g} s), given {right:g}")
    return left, min(right, longest)


def _finding(traces: Mapping[str, xr.Dataset]) -> str:
    """Return the shortest step and how much of it is idle, and how much longer the others are."""
    order = sorted(traces, key=lambda name: span(traces[name]))
    best = order[0]
    if len(order) == 1:
        return f"A step takes {_words(traces[best])}"
    longer = {n: span(traces[n]) / span(traces[best]) - 1.0 for n in order[1:]}
    more = [
        f"{n} takes {percent(share, 1)} longer" if share >= ALIKE else f"{n} takes as long"
        for n, share in longer.items()
    ]
    return f"Shortest: {best}, {_words(traces[best])}; {', '.join(more)}"


def _words(trace: xr.Dataset) -> str:
    """Return how long a step takes, and how much of it devices idle."""
    time = show(float(f"{span(trace):.3g}"), "s")
    return f"{time}, {percent(shares(trace)['idle'])} of it idle"


def _panel(axes: Axes, held: Sequence[Row], end: float, scale: float, pixels: float) -> list[str]:
    """Draw the rows of one trace; return what is to be said of it."""
    shapes: list[Shape] = []
    numbers: list[tuple[Shape, str]] = []
    gathered = False
    for place, row in enumerate(held):
        shapes.append(Shape(0.0, end, place, LOOKS["idle"], False))
        for block in row.blocks:
            left, right = block.start / scale, block.end / scale
            wide = pixels * (right - left) > EDGED
            shapes.append(Shape(left, right, place, _colour(block, row), wide))
            inside, thin = _inside(block, scale, pixels)
            gathered |= thin
            if block.kind in VISITS and block.microbatch != NONE:
                free = _widest(left, right, inside)
                held_by = shapes[-1]._replace(left=free[0], right=free[1])
                numbers.append((held_by, str(block.microbatch)))
            shapes += [Shape(a, b, place, _look(kind), False) for kind, a, b in inside]
        idle = f"{percent(row.idle, 1)} idle"
        beside = axes.get_yaxis_transform()
        axes.text(1.008, place, idle, transform=beside, va="center")
    _rectangles(axes, shapes)
    written, left_out = _numbers(axes, numbers, pixels)
    axes.set_ylim(len(held) - 0.5, -0.5)
    axes.set_yticks(range(len(held)), [row.label for row in held])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    told = {
        "numbers: microbatches": written,
        "some do not fit": written and left_out,
        "paler: a device's later stages": any(len(row.stages) > 1 for row in held),
        "collectives of a visit: together at its end": gathered,
    }
    return [words for words, true in told.items() if true]


def _look(kind: str) -> str:
    return LOOKS.get(kind, LOOKS["other"])


def _colour(block: Block, row: Row) -> str:
    """Return the colour of a block, paler for the later stages of a device that holds several."""
    colour = _look(block.kind)
    if block.kind not in VISITS or block.stage not in row.stages[1:]:
        return colour
    red, green, blue = (PALER + (1.0 - PALER) * part for part in to_rgb(colour))
    return to_hex((red, green, blue))


def _inside(
    block: Block, scale: float, pixels: float
) -> tuple[list[tuple[str, float, float]], bool]:
    """Return the collectives of a visit where they are, or together at its end if too thin."""
    parts = [(kind, start / scale, end / scale) for kind, start, end in block.inside]
    if all(pixels * (end - start) >= THIN for _, start, end in parts):
        return parts, False
    right, found = block.end / scale, []
    for name in dict.fromkeys(kind for kind, _, _ in parts):
        wide = sum(end - start for kind, start, end in parts if kind == name)
        found.append((name, right - wide, right))
        right -= wide
    return found, True


def _widest(
    left: float, right: float, inside: Sequence[tuple[str, float, float]]
) -> tuple[float, float]:
    """Return the longest part of a visit that no collective takes."""
    taken = sorted((start, end) for _, start, end in inside)
    starts = [left, *(end for _, end in taken)]
    ends = [*(start for start, _ in taken), right]
    return max(zip(starts, ends, strict=True), key=lambda part: part[1] - part[0])


def _rectangles(axes: Axes, shapes: Sequence[Shape]) -> None:
    half = HIGH / 2
    corners = [
        [(a, y - half), (b, y - half), (b, y + half), (a, y + half)] for a, b, y, _, _ in shapes
    ]
    drawn = PolyCollection(
        corners,
        facecolors=[shape.colour for shape in shapes],
        edgecolors=["white" if shape.edged else "none" for shape in shapes],
        linewidths=0.5,
        snap=False,  # else some of many thin blocks would stand out
    )
    axes.add_collection(drawn, autolim=False)


def _numbers(axes: Axes, numbers: Sequence[tuple[Shape, str]], pixels: float) -> tuple[bool, bool]:
    """Write microbatches into the blocks that hold them; return if any, if not all."""
    wide = DIGIT * style.TEXT * style.DOTS / 72.0 + 0.7
    shown = [(s, w) for s, w in numbers if pixels * (s.right - s.left) >= wide * len(w)]
    low, high = axes.get_xlim()
    look: dict[str, Any] = {"ha": "center", "va": "center_baseline", "fontsize": style.TEXT}
    for shape, words in shown[:MOST_NUMBERS]:
        middle = (shape.left + shape.right) / 2
        if low <= middle <= high:
            ink = colours.ink(shape.colour)
            axes.text(middle, shape.row, words, color=ink, **look).set_in_layout(False)
    return bool(shown), len(shown) < len(numbers)
