"""The axes of a map: which field each shows, in units that a person reads."""

import math
from collections.abc import Sequence

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style

FIRST = ("hbm_capacity", "matrix_flops", "fast_bandwidth", "slow_bandwidth", "hbm_bandwidth")

DECADE = 10.0  # ratio of the ends of an axis from which on it is logarithmic
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
    ([8.0, 9.0, 10.0], [7.0, 10.0, 15.0, 20.0, 30.0])
    """
    ticks = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(least, most)
    found = [float(f"{tick:.9g}") for tick in ticks]
    if most > 2.0 * least > 0.0:
        decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
        for steps in ((1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
            found = [float(f"{step}e{power}") for power in decades for step in steps]
            if sum(least <= tick <= most for tick in found) >= FEW:
                break
    return [tick for tick in found if least <= tick <= most]


def frame(axes: Axes, part: xr.Dataset, dims: tuple[str, str]) -> None:
    """Set the axes of a map over two fields."""
    (x, across), (y, up) = readable(part, dims[0]), readable(part, dims[1])
    limits = {"xlim": borders(part, dims[0])[[0, -1]], "ylim": borders(part, dims[1])[[0, -1]]}
    axes.set(xlabel=across, ylabel=up, **limits)
    for axis, numbers in ((axes.xaxis, x), (axes.yaxis, y)):
        if _geometric(numbers):
            style.powers_of_two(axis, float(numbers.min()), float(numbers.max()), labels=9)
        if len(numbers) <= FEW:
            axis.set_ticks(numbers, [f"{number:,.5g}" for number in numbers])
    axes.set(**limits)
    for dim, along in zip(dims, "xy", strict=True):
        others = [n for n in choose.linked_coordinates(part, dim) if n != primary(part, dim)]
        if others:
            _tied(axes, part, dim, others, along)


def _geometric(values: np.ndarray) -> bool:
    """Return whether an axis spans a decade, or is spaced in equal ratios rather than steps."""
    if len(values) < 3 or values.min() <= 0 or values.max() / values.min() < 4:
        return False
    if values.max() / values.min() >= DECADE:
        return True
    return bool(np.ptp(np.diff(np.log(values))) < np.ptp(np.diff(values)) / np.ptp(values) * 0.5)


def _tied(axes: Axes, part: xr.Dataset, dim: str, others: Sequence[str], along: str) -> None:
    """Write what moves together with an axis: in brackets in a short list, else in its label."""
    place, said = readable(part, dim)[0], axes.get_xlabel() if along == "x" else axes.get_ylabel()
    words = " and ".join(words_of(name) for name in others)
    if len(place) > FEW or len(others) > 1:
        axes.set(**{f"{along}label": f"{said}\n({words} moves with it)"})
        return
    scale, unit = style.human(part[others[0]].values, str(part[others[0]].attrs.get("units", "1")))
    beside = part[others[0]].values / scale
    told = [f"{p:,.5g}\n({b:,.5g})" for p, b in zip(place, beside, strict=True)]
    (axes.set_xticks if along == "x" else axes.set_yticks)(place, told)
    axes.set(**{f"{along}label": f"{said} ({style.with_unit(words, unit)} in brackets)"})
