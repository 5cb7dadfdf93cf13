"""The regions of a map: how far each best plan reaches, and its name in it."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patheffects import withStroke

from jaxroof.views.plots.fields import fraction, readable

NAME = 0.12  # of the width of a picture, which the name of a plan takes
REGION = 0.05  # share of a map that a plan's region must have to be named
EDGE = "#333333"  # around white words


def plan_borders(
    axes: Axes, part: xr.Dataset, dims: tuple[str, str], marks: list[list[float]]
) -> None:
    """Draw thin lines where the best plan changes, and name the plans of large regions."""
    (right, _), (up, _) = readable(part, dims[0]), readable(part, dims[1])
    whole = [part[n].broadcast_like(part.step_time) for n in ("tensor", "pipeline")]
    tensor, pipeline = (field.transpose(dims[1], dims[0]).values for field in whole)
    plan = tensor.astype(np.int64) * 2**20 + pipeline.astype(np.int64)
    column, row = _between(right), _between(up)
    lines = []
    for i, j in zip(*np.nonzero(np.diff(plan, axis=1)), strict=True):
        lines.append([(column[j + 1], row[i]), (column[j + 1], row[i + 1])])
    for i, j in zip(*np.nonzero(np.diff(plan, axis=0)), strict=True):
        lines.append([(column[j], row[i + 1]), (column[j + 1], row[i + 1])])
    axes.add_collection(
        LineCollection(lines, colors="white", linewidths=0.7, alpha=0.7, zorder=2), autolim=False
    )
    away = _away(axes, right, up, marks)
    spec = axes.get_subplotspec()
    width = NAME * (spec.get_gridspec().ncols if spec is not None else 1)
    for each in np.unique(plan[tensor > 0]):
        inside = np.argwhere(plan == each)
        if len(inside) >= REGION * plan.size:
            far = np.abs(inside - np.median(inside, axis=0)).sum(axis=1)
            i, j = inside[(far + plan.size * ~away[tuple(inside.T)]).argmin()]
            ends = right[inside[inside[:, 0] == i][[0, -1], 1]]
            if np.ptp(fraction(axes, "x", ends)) < width:
                continue
            words = f"tp {each >> 20} pp {each & (2**20 - 1)}"
            white_words(axes, float(right[j]), float(up[i]), words, fontsize=8)


def _away(axes: Axes, right: np.ndarray, up: np.ndarray, marks: list[list[float]]) -> np.ndarray:
    """Return the points of a map at which words cover no mark, nor run over its edge."""
    x, y = fraction(axes, "x", right)[None, :], fraction(axes, "y", up)[:, None]
    clear = (x > 0.06) & (x < 0.94) & (y > 0.02) & (y < 0.98)
    for mark in marks:
        left, low = (
            float(fraction(axes, s, np.array([v]))[0]) for s, v in zip("xy", mark, strict=True)
        )
        clear = clear & ((np.abs(x - left) > 0.15) | (np.abs(y - low) > 0.06))
    return clear


def _between(values: np.ndarray) -> np.ndarray:
    middle = (values[1:] + values[:-1]) / 2
    return np.concatenate([values[:1], middle, values[-1:]])


def white_words(axes: Axes, x: float, y: float, words: str, **more: Any) -> None:
    """Write words in white with a dark edge, so that they read on any colour."""
    look: dict[str, Any] = {"ha": "center", "va": "center", "color": "white", "zorder": 4, **more}
    offset = look.pop("xytext", (0, 0))
    axes.annotate(
        words,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        path_effects=[withStroke(linewidth=2, foreground=EDGE)],
        **look,
    )
