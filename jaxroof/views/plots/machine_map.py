"""Maps over two fields of a machine: what the best plan reaches, and where nothing fits."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from jaxroof.analyses.result_metadata import (
    headlines,
    label_of,
)
from jaxroof.errors import refusal
from jaxroof.units import percent
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style, systems
from jaxroof.views.plots.label_boxes import Box, extent, shares, touch
from jaxroof.views.plots.map_axes import (
    FEW,
    borders,
    listed,
    primary,
    rank,
    readable,
    round_ticks,
)
from jaxroof.views.plots.map_finding import map_finding
from jaxroof.views.plots.map_grounds import map_legend, name_grounds
from jaxroof.views.plots.map_regions import around, border_words, plan_borders, white_words
from jaxroof.views.text.tokens import tokens_sentence

LEVELS = 20  # of the filled contour
DAYS = "training_days"  # rather than the time of a step, where both are there
NARROW = 1.03  # ratio of results below which the map says that all are alike
DECADE = 10.0  # ratio of the ends of an axis from which on it is logarithmic
WIDE = 2.0  # ratio of results from which on the levels are in equal ratios
DOT = 7.0  # points from the middle of a mark to its edge
CELLS = 24  # of a map of lists, each of which has its number
LINED = 0.5  # inches of what the legend says of the borders of plans
BAR = 40  # letters of a line beside the colours
BOLD = 1.1  # how much wider bold letters are


@style.drawn
def machine_map(
    data: xr.Dataset,
    value: str | None = None,
    at: Mapping[str, Any] | None = None,
    plans: bool = True,
) -> Figure:
    """Return a filled contour of a result over two machine axes, real systems marked.

    Over a short list of values it is a cell for each.

    ``value`` names the result, days of training or the estimator's headline unless said otherwise.
    ``at`` chooses points of further dimensions ({"gpus": 8192}); one that is left makes panels.
    Where nothing fits is hatched, with the least that it takes. ``plans`` draws where the
    best plan changes.
    Raises: InputError where the data lack the value, or two axes of numbers.
    """
    picture = "machine_map"
    kept = choose.best_plans(choose.pick(data, at, f"{picture}: at"))
    value = value or mapped(kept)
    choose.check_has(kept, picture, (value,))
    x, y, across = axes_of(kept, picture)
    kept = kept.sortby([primary(kept, dim) for dim in (x, y)])
    parts = choose.panels(kept, (across,) if across else ())
    held = choose.feasible_values(kept, kept[value])
    least, most = float(held.min()), float(held.max())
    columns = min(2, len(parts))
    rows = -(-len(parts) // columns)
    finding = map_finding(kept, value, (x, y, across))
    title = choose.title(data, "What a machine's fields buy")
    lines = border_words(kept) if plans else ""
    high = style.HIGH if rows == 1 else 1.0 + 3.6 * rows
    made = style.figure(title, finding, high + LINED * bool(lines))
    cells = made.subplots(rows, columns, squeeze=False).ravel()
    drawn, told, split = None, [], []
    for axes, (name, part) in zip(cells, parts, strict=False):
        axes.set_title(name)
        filled = _map(axes, part, part[value], (x, y), (least, most))
        drawn = filled or drawn
        told.append(systems.marks(part, x, y))
        split.append(filled is not None and plans)
    for spare in cells[len(parts) :]:
        spare.remove()
    if drawn is not None:
        words = _bar_words(kept, value)
        if most / least < NARROW:
            words += f"\nall within {percent(most / least - 1.0, 1)}"
        bar = made.colorbar(drawn, ax=list(cells[: len(parts)]), label=words, fraction=0.05)
        bar.set_ticks(round_ticks(least, most))
        bar.ax.minorticks_off()
        bar.ax.yaxis.set_major_formatter(lambda number, _: f"{number:,.4g}")
    every = [mark for marks in told for mark in marks]
    map_legend(made, kept, value, every, lines if any(split) else "")
    made.draw_without_rendering()  # names are placed where they are free when all has its size
    for axes, (_, part), marks, named in zip(cells, parts, told, split, strict=False):
        boxes = mark_systems(axes, part, (x, y), marks)
        if named:
            plan_borders(axes, part, (x, y), boxes)
    return made


def _bar_words(data: xr.Dataset, value: str) -> str:
    """Return what the colours are, with the tokens that days are of."""
    unit = str(data[value].attrs.get("units", "1")).strip("1")
    if value != DAYS:
        return style.with_unit(label_of(data, value), unit)
    return label_of(data, value) + tokens_sentence(data).removeprefix(
        "Days are of a training"
    ).rstrip(".")


def mapped(data: xr.Dataset) -> str:
    """Return the result that a map shows: days of training, or what is printed before others."""
    return DAYS if DAYS in data else next(iter(headlines(data)), "")


def axes_of(data: xr.Dataset, picture: str) -> tuple[str, str, str]:
    """Return the dimensions of the x and the y axis, and the one that makes panels, if any."""
    numbers = [
        str(dim)
        for dim in data.sizes
        if dim not in (*choose.named_dimensions(data), "gpus")
        and choose.linked_coordinates(data, dim)
        if all(data[name].dtype.kind in "if" for name in choose.linked_coordinates(data, dim))
    ]
    rest = [str(dim) for dim in data.sizes if dim not in numbers]
    if len(numbers) == 1 and "gpus" in rest:
        numbers, rest = [*numbers, "gpus"], [dim for dim in rest if dim != "gpus"]
    if len(numbers) != 2:
        has = f"the data have {choose.dimension_words(data)}"
        raise refusal(
            picture, f"needs two axes of numbers; {has}. Choose with at={{dimension: value}}."
        )
    if len(rest) > 1:
        raise refusal(picture, f"too many dimensions: {', '.join(rest)}; choose with at=.")
    numbers.sort(key=lambda dim: rank(primary(data, dim)))
    return numbers[0], numbers[1], rest[0] if rest else ""


def _map(
    axes: Axes,
    part: xr.Dataset,
    value: xr.DataArray,
    dims: tuple[str, str],
    limits: tuple[float, float],
) -> Any:
    """Fill one map and set its axes; return what a colour bar belongs to, None if all is empty."""
    (x, _), (y, _) = readable(part, dims[0]), readable(part, dims[1])
    held = choose.feasible_values(part, value).transpose(dims[1], dims[0]).values
    frame(axes, part, ~np.isfinite(held), dims)
    if not np.isfinite(held).any() or min(held.shape) < 2:
        return None
    least, most = limits
    if most / least < NARROW:  # else a difference of nothing would take all colours
        most = least * (2.0 * NARROW - 1.0)
    space = np.geomspace if most / least > WIDE else np.linspace
    levels = space(least, most, LEVELS + 1)
    shown = np.ma.masked_invalid(held)
    if not any(listed(part, dim) for dim in dims):
        return axes.contourf(x, y, shown, levels=levels, cmap="viridis_r", zorder=1)
    norm = BoundaryNorm(levels, 256)  # a few listed values have nothing between them
    across, up = borders(part, dims[0]), borders(part, dims[1])
    if held.size <= CELLS:
        for i, j in np.argwhere(np.isfinite(held)):
            white_words(axes, x[j], y[i], f"{held[i, j]:.4g}")
    return axes.pcolormesh(across, up, shown, norm=norm, cmap="viridis_r", zorder=1)


def frame(axes: Axes, part: xr.Dataset, unfit: np.ndarray, dims: tuple[str, str]) -> None:
    """Set the axes of a map over two fields, hatched where nothing fits (``unfit`` [y, x])."""
    (x, across), (y, up) = readable(part, dims[0]), readable(part, dims[1])
    limits = {"xlim": borders(part, dims[0])[[0, -1]], "ylim": borders(part, dims[1])[[0, -1]]}
    axes.set(xlabel=across, ylabel=up, **limits)
    for axis, numbers in ((axes.xaxis, x), (axes.yaxis, y)):
        if _geometric(numbers):
            style.powers_of_two(axis, float(numbers.min()), float(numbers.max()), labels=9)
        if len(numbers) <= FEW:
            axis.set_ticks(numbers, [f"{number:,.5g}" for number in numbers])
    axes.set(**limits)
    _tied_axes(axes, part, dims)
    axes.add_patch(style.unfit_ground(axes))
    name_grounds(axes, part, unfit, dims)


def _geometric(values: np.ndarray) -> bool:
    """Return whether an axis spans a decade, or is spaced in equal ratios rather than steps."""
    if len(values) < 3 or values.min() <= 0 or values.max() / values.min() < 4:
        return False
    if values.max() / values.min() >= DECADE:
        return True
    return bool(np.ptp(np.diff(np.log(values))) < np.ptp(np.diff(values)) / np.ptp(values) * 0.5)


def _tied_axes(axes: Axes, part: xr.Dataset, dims: tuple[str, str]) -> None:
    """Write what moves together with the x axis above it; name what moves with the y axis."""
    for dim, side in zip(dims, "xy", strict=True):
        shown = primary(part, dim)
        others = [name for name in choose.linked_coordinates(part, dim) if name != shown]
        if not others:
            continue
        if side == "y":
            words = " and ".join(words_of(name) for name in others)
            place, _ = readable(part, dim)
            if len(place) <= FEW and len(others) == 1:
                beside = part[others[0]].values
                told = [f"{p:,.5g}\n({b:,.5g})" for p, b in zip(place, beside, strict=True)]
                axes.set_yticks(place, told)
                axes.set_ylabel(f"{axes.get_ylabel()} ({words} in brackets)")
                continue
            axes.set_ylabel(f"{axes.get_ylabel()}\n({words} moves with it)")
            continue
        place, _ = readable(part, dim)
        unit = str(part[others[0]].attrs.get("units", "1"))
        scale, unit = style.human(part[others[0]].values, unit)
        chosen = _apart(place, 0.09 * float(np.ptp(place)))
        labels = [f"{part[others[0]].values[i] / scale:.3g}" for i in chosen]
        twin = axes.secondary_xaxis("top")
        twin.set_xticks([float(place[i]) for i in chosen], labels)
        twin.set_xlabel(style.with_unit(f"{words_of(others[0])} that goes with it", unit))


def _apart(places: np.ndarray, least: float) -> list[int]:
    """Return points of an axis that lie so far apart that their labels do not touch."""
    chosen: list[int] = []
    for i in np.argsort(places).tolist():
        if not chosen or places[i] - places[chosen[-1]] >= least:
            chosen.append(i)
    return chosen


def mark_systems(
    axes: Axes, part: xr.Dataset, dims: tuple[str, str], marks: Sequence[systems.Mark]
) -> list[Box]:
    """Mark systems on the map, a star where all of one was computed; return the boxes they take."""
    across, up = (
        float((readable(part, dim)[0] / part[primary(part, dim)].values)[-1]) for dim in dims
    )
    drawn = [((mark.place[0] * across, mark.place[1] * up), mark) for mark in marks]
    taken = [around(axes, *point, shares(axes, DOT, DOT)) for point, _ in drawn]
    for point, mark in drawn:
        shape, size = ("*", 14) if mark.whole else ("o", 8)
        axes.plot(*point, shape, color="white", mec="black", ms=size, clip_on=False, zorder=5)
        taken.append(_beside(axes, point, mark, taken))
    return taken


def _beside(
    axes: Axes, point: tuple[float, float], mark: systems.Mark, taken: Sequence[Box]
) -> Box:
    """Write the name of a mark on a side where there is room for it; return its box."""
    size = style.TEXT
    wide, high = extent(axes, mark.words, size * BOLD)
    free = []
    for side, raised in itertools.product((1, -1), (7, -9, 16, -18, 28, -30)):
        across, up = shares(axes, 9.0 * side, float(raised))
        left, low, _, _ = around(axes, *point, (0.0, 0.0))
        start = left + across - (wide if side < 0 else 0.0)
        box = (start, low + up - high / 2, start + wide, low + up + high / 2)
        inside = min(box) >= 0 and max(box) <= 1
        touched = sum(touch(box, other) for other in taken)
        free.append((touched + 2 * (not inside), (side, raised), box))
    _, (side, raised), box = min(free, key=lambda each: each[0])
    white_words(
        axes, *point, mark.words, xytext=(9 * side, raised), ha="left" if side > 0 else "right",
        fontsize=size, weight="bold" if mark.whole else "normal", zorder=6,
    )  # fmt: skip
    return box
