"""Names at the ends of lines, none over another, and the families that the lines are of."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from jaxroof.views.plots import style

End = tuple[float, float, str, str]  # of a line: x, y, its name, its colour


def rank_entries(tails: Sequence[str], names: Sequence[str]) -> dict[str, Line2D]:
    """Return a legend of what the dashes are, in place of one entry a line."""
    found = {}
    for tail in tails:
        name = next(name for name in names if name.rpartition("-")[2] == tail)
        look = style.line_style(names, name) | {"color": style.BLACK}
        domain = re.fullmatch(r"nvs(\d+)", tail)
        found[f"NVLink domain of {domain[1]}" if domain else tail] = Line2D([], [], **look)
    return found


def family_ends(axes: Axes, heads: Sequence[str]) -> list[End]:
    """Return where the lines of each family end, on the mean of them, and its name."""
    found = []
    for head in heads:
        lines = [ln for ln in axes.lines if str(ln.get_label()).rpartition("-")[0] == head]
        data = [np.asarray(line.get_xydata()) for line in lines]
        last = [xy[np.isfinite(xy[:, 1])][-1] for xy in data if np.isfinite(xy[:, 1]).any()]
        if last:
            x, y = max(point[0] for point in last), np.exp(np.mean(np.log([p[1] for p in last])))
            found.append((float(x), float(y), head, str(lines[0].get_color())))
    return found


def end_labels(axes: Axes, ends: Sequence[End]) -> None:
    """Write the names of lines at their right ends (x, y, words, colour), none over another."""
    whole = axes.get_figure(root=True)
    assert whole is not None, "axes stand in a figure"
    whole.draw_without_rendering()
    step = style.LINE * style.TEXT * style.DOTS / 72  # pixels of a line of words
    placed = [(*axes.transData.transform((x, y)), words, colour) for x, y, words, colour in ends]
    placed.sort(key=lambda end: end[1])
    for (right, high, words, colour), level in zip(
        placed, apart([high for _, high, _, _ in placed], step), strict=True
    ):
        moved = (level - high) * 72 / style.DOTS
        look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "color": colour}
        if abs(moved) > 0.4 * style.TEXT:
            look["arrowprops"] = {"arrowstyle": "-", "color": colour, "linewidth": 0.7,
                                  "shrinkA": 0, "shrinkB": 3}  # fmt: skip
        start = axes.transData.inverted().transform((right, high))
        axes.annotate(words, tuple(start), xytext=(11.0, moved), annotation_clip=False, **look)


def apart(levels: Sequence[float], step: float) -> list[float]:
    """Return ascending levels moved as little as need be to lie a step apart.

    >>> apart([0.0, 1.0, 9.0], 2.0)
    [-0.5, 1.5, 9.0]
    """
    groups: list[list[float]] = []
    for level in levels:
        groups.append([level])
        while len(groups) > 1 and _ends(groups[-1], step)[0] < _ends(groups[-2], step)[1] + step:
            groups[-2:] = [groups[-2] + groups[-1]]
    return [_ends(group, step)[0] + step * i for group in groups for i in range(len(group))]


def _ends(group: Sequence[float], step: float) -> tuple[float, float]:
    """Return where the words of a group begin and end, around their mean."""
    middle, half = sum(group) / len(group), step * (len(group) - 1) / 2
    return middle - half, middle + half
