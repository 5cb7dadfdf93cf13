"""The regions of a map: how far each best plan reaches, and its name in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from jaxroof.analyses.result_metadata import (
    about,
    label_of,
    roles,
    said_of,
    telling_fields,
    words_of,
)
from jaxroof.views.plots import style
from jaxroof.views.plots.label_boxes import Box, extent, touch
from jaxroof.views.plots.map_axes import borders, fraction, readable
from jaxroof.views.text.plan import is_usual, split_fields

REGION = 0.025  # share of a map that a plan's region must have to be named
SIZE = style.TEXT  # points of a name
EDGE = "#333333"  # around white words
Pair = tuple[np.ndarray, np.ndarray]  # of the x and of the y axis
Cells = tuple[Pair, Pair]  # their middles and their borders


def plan_borders(axes: Axes, part: xr.Dataset, dims: tuple[str, str], marks: Sequence[Box]) -> None:
    """Draw thin lines where the best plan changes, and name the plans of large regions.

    ``marks`` are the boxes of what is drawn already.
    """
    (right, _), (up, _) = readable(part, dims[0]), readable(part, dims[1])
    names = _named(part)
    if not names:
        return
    _, *found = xr.broadcast(part[[*dims]], part[names])
    whole = [found[0][name].transpose(dims[1], dims[0]) for name in names]
    degrees = np.stack([field.values.astype(np.int64) for field in whole], axis=-1)
    plans, inverse = np.unique(degrees.reshape(-1, len(names)), axis=0, return_inverse=True)
    plan = inverse.reshape(degrees.shape[:2])
    column, row = borders(part, dims[0]), borders(part, dims[1])
    lines = []
    for i, j in zip(*np.nonzero(np.diff(plan, axis=1)), strict=True):
        lines.append([(column[j + 1], row[i]), (column[j + 1], row[i + 1])])
    for i, j in zip(*np.nonzero(np.diff(plan, axis=0)), strict=True):
        lines.append([(column[j], row[i + 1]), (column[j + 1], row[i + 1])])
    axes.add_collection(
        LineCollection(lines, colors="white", linewidths=1.2, alpha=0.8, zorder=2), autolim=False
    )
    taken = list(marks)
    for each, own in enumerate(plans):
        mine = plan == each
        if (own >= 0).all() and mine.sum() >= REGION * plan.size:
            words = _plan_name(part, dict(zip(names, own.tolist(), strict=True)))
            _name(axes, words, mine, ((right, up), (column, row)), taken)


def border_words(data: xr.Dataset) -> str:
    """Return what the lines on a map are and what the names in it say; empty without plans."""
    fields = _named(data)
    if all(data[name].ndim == 0 for name in fields):
        return ""
    told = [name for name in fields if _usual(data, name) is None or not is_usual(data, name)]
    said = [" ".join(dict.fromkeys((words_of(data, n), label_of(data, n)))) for n in told]
    return f"white lines: another plan is best beyond; {', '.join(said)}"


def _named(data: xr.Dataset) -> list[str]:
    """Return the plan fields by which a map names its plans; none where the axes give the plan."""
    known = roles(data).get("split", ())
    given = any(name in data.coords and data[name].ndim for name in known)
    return [] if given else telling_fields(data, split_fields(data))


def _usual(data: xr.Dataset, name: str) -> float | None:
    found = about(data, name).get("default")
    return None if found is None else float(found)


def _plan_name(part: xr.Dataset, fields: Mapping[str, int]) -> str:
    """Return the fields of a plan that are not at their usual value, by their short names."""
    told = [name for name, value in fields.items() if value != _usual(part, name)]
    return " ".join(f"{words_of(part, n)} {said_of(part, n, fields[n])}" for n in told or fields)


def _name(
    axes: Axes,
    words: str,
    mine: np.ndarray,
    cells: Cells,
    taken: list[Box],
) -> None:
    """Write the name of a region where it lies in it and on nothing else, upright if need be."""
    (right, up), lines = cells
    inside = np.argwhere(mine)
    far = np.abs((inside - np.median(inside, axis=0)) / mine.shape).sum(axis=1)
    near = inside[np.argsort(far, kind="stable")]
    wide, high = extent(axes, words, SIZE)
    tall = wide * axes.bbox.width / axes.bbox.height
    narrow = high * axes.bbox.height / axes.bbox.width
    for turn, half in ((0, (wide / 2, high / 2)), (90, (narrow / 2, tall / 2))):
        for i, j in near:
            x, y = float(right[j]), float(up[i])
            box = around(axes, x, y, half)
            if _within(axes, box, mine, lines) and not any(touch(box, b) for b in taken):
                white_words(axes, x, y, words, fontsize=SIZE, rotation=turn)
                taken.append(box)
                return


def around(axes: Axes, x: float, y: float, half: tuple[float, float]) -> Box:
    """Return the box around a place, given half its sides in shares of the axes."""
    left, low = (
        float(fraction(axes, s, np.array([v]))[0]) for s, v in zip("xy", (x, y), strict=True)
    )
    return left - half[0], low - half[1], left + half[0], low + half[1]


def _within(axes: Axes, box: Box, mine: np.ndarray, lines: Pair) -> bool:
    """Return whether a box lies in the cells of a region, and in the axes."""
    if min(box) < 0 or max(box) > 1:
        return False
    column, row = (fraction(axes, side, values) for side, values in zip("xy", lines, strict=True))
    across = (column[1:] > box[0]) & (column[:-1] < box[2])
    upward = (row[1:] > box[1]) & (row[:-1] < box[3])
    return bool(mine[np.ix_(upward, across)].all())


def white_words(axes: Axes, x: float, y: float, words: str, **more: Any) -> None:
    """Write words in white with a dark edge, so that they read on any colour."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "zorder": 4, **more}
    offset = look.pop("xytext", (0, 0))
    axes.annotate(
        words,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        path_effects=[withStroke(linewidth=2.5, foreground=EDGE)],
        **look,
    ).set_in_layout(False)
