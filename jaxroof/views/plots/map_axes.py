"""The axes of a map: which field each shows, in units that a person reads."""

import math

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

FIRST = ("hbm_capacity", "matrix_flops", "fast_bandwidth", "slow_bandwidth", "hbm_bandwidth")

FEW = 4  # an axis of at most so many values is a list: cells of one colour, named each


def edges(values: np.ndarray, *, listed: bool = False) -> np.ndarray:
    """Return the borders of the cells around ascending values: midway, and at the first and last.

    The outer cells of a short list, or of counts (``listed``), are as wide as the inner ones.

    >>> edges(np.array([80.0, 160.0, 200.0])).tolist()
    [40.0, 120.0, 180.0, 220.0]
    """
    middle = (values[1:] + values[:-1]) / 2
    first, last = values[0], values[-1]
    if len(values) > 1 and (listed or len(values) <= FEW):
        first, last = max(2 * first - middle[0], first / 2), 2 * last - middle[-1]
    return np.concatenate([[first], middle, [last]])


def counted(data: xr.Dataset, dim: str) -> bool:
    """Return whether an axis has whole numbers, so that there is nothing between two of them."""
    column = data[primary(data, dim)]
    whole = bool(np.all(column.values == np.round(column.values)))
    return whole and str(column.attrs.get("units", "1")) in choose.COUNTED


def listed(data: xr.Dataset, dim: str) -> bool:
    """Return whether an axis is a list of values, each a cell of its own."""
    return counted(data, dim) or len(data[dim]) <= FEW


def borders(data: xr.Dataset, dim: str) -> np.ndarray:
    """Return the borders of the cells of an axis, in the units that it shows."""
    return edges(readable(data, dim)[0], listed=counted(data, dim))


def primary(data: xr.Dataset, dim: str) -> str:
    """Return the coordinate that an axis shows: of those that move together, the best known."""
    return min(choose.linked_coordinates(data, dim), key=rank)


def readable(data: xr.Dataset, dim: str) -> tuple[np.ndarray, str]:
    """Return what stands on an axis in units a person reads, and its label."""
    name = primary(data, dim)
    unit = str(data[name].attrs.get("units", "1"))
    values = data[name].values
    scale, shown = style.human(values, unit)
    if unit == "B" and len(values) and 1e9 <= values.max() < 1e13:  # as memories are sold
        scale, shown = 1e9, "GB"
    return data[name].values / scale, style.with_unit(words_of(name), shown)


def rank(name: str) -> int:
    """Return how late a field is chosen to stand for those that move with it."""
    return FIRST.index(name) if name in FIRST else len(FIRST)


def round_ticks(least: float, most: float) -> list[float]:
    """Return some round numbers between two values, in equal ratios where these lie far apart.

    >>> round_ticks(7.35, 10.4), round_ticks(5.35, 36.0)
    ([7.5, 8.0, 8.5, 9.0, 9.5, 10.0], [7.0, 10.0, 15.0, 20.0, 30.0])
    """
    found = [float(tick) for tick in MaxNLocator(6).tick_values(least, most)]
    if most > 2.0 * least > 0.0:
        decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
        for steps in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
            found = [float(f"{step}e{power}") for power in decades for step in steps]
            if sum(least <= tick <= most for tick in found) >= FEW:
                break
    return [tick for tick in found if least <= tick <= most]


def fraction(axes: Axes, side: str, values: np.ndarray) -> np.ndarray:
    """Return where values lie on an axis, between 0 and 1."""
    log = (axes.get_xscale() if side == "x" else axes.get_yscale()) == "log"
    low, high = axes.get_xlim() if side == "x" else axes.get_ylim()
    ends = np.array([low, high])
    if log:
        values, ends = np.log(values), np.log(ends)
    return (values - ends[0]) / (ends[1] - ends[0])
