"""The grounds of a map: where nothing fits, where no plan is allowed, and why."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.patheffects import withStroke

from jaxroof.analyses.result_metadata import need_of, unit_of
from jaxroof.errors import listing
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import style
from jaxroof.views.plots.map_axes import borders, fraction
from jaxroof.views.plots.systems import Mark, notes

LETTERS = 78  # of a line of the legend
NO_PLAN = 2  # the reason that no plan is legal


def name_grounds(axes: Axes, part: xr.Dataset, unfit: np.ndarray, dims: tuple[str, str]) -> None:
    """Hatch and name where no plan is allowed, and name where none fits (``unfit`` [y, x])."""
    barred = _over(refused(part), part, dims) & unfit
    if barred.any():
        _hatch_barred(axes, part, barred, dims)
        _name_ground(axes, part, barred, dims, _broken(part, barred, dims))
    if (unfit & ~barred).any():
        words = _missing(part, unfit & ~barred, dims)
        _name_ground(axes, part, unfit & ~barred, dims, words)


def map_legend(
    made: Figure, data: xr.Dataset, value: str, marks: Sequence[Mark], lines: str = ""
) -> None:
    """Say what the hatchings, the stars beside names and the lines are, where they are there."""
    empty = ~np.isfinite(choose.feasible_values(data, data[value]))
    barred = refused(data) & empty
    there = ((empty & ~barred, style.UNFIT, "nothing fits"), (barred, style.BARRED, "not allowed"))
    grounds = [Patch(label=words, **look) for where, look, words in there if bool(where.any())]
    edge = [withStroke(linewidth=3.0, foreground="#777777")]
    white = Line2D([], [], color="white", label=style.wrapped(lines, LETTERS), path_effects=edge)
    handles = [*grounds, *mark_handles(marks), *([white] if lines else [])]
    if handles:
        columns = 1 if len(handles) > len(grounds) else 2
        made.legend(handles=handles, loc="outside lower center", ncols=columns)


def mark_handles(marks: Sequence[Mark]) -> list[Line2D]:
    """Return the entries of a legend that say what of real systems is where they are marked."""
    look: dict[str, Any] = {"marker": "o", "color": "white", "mec": "black", "linestyle": "none"}
    return [Line2D([], [], label=style.wrapped(words, LETTERS), **look) for words in notes(marks)]


def refused(data: xr.Dataset) -> xr.DataArray:
    """Return where no plan is allowed, whatever memory there is."""
    if "reason" in data:
        return data.reason == NO_PLAN
    allowed = xr.DataArray(True)
    for name in verdicts(data):
        allowed = allowed & data[name].astype(bool)
    return ~allowed


def verdicts(data: xr.Dataset) -> list[str]:
    """Return the rules that the data have a verdict of, but for memory."""
    own = ("feasible", f"{need_of(data)}_fits")
    return [
        str(name)
        for name, column in data.data_vars.items()
        if column.dtype == bool and name not in own
    ]


def _over(values: xr.DataArray, part: xr.Dataset, dims: tuple[str, str]) -> np.ndarray:
    """Return a verdict over both axes of a map [y, x]."""
    whole = xr.DataArray(np.zeros([part.sizes[dim] for dim in dims], bool), dims=dims)
    found: np.ndarray = (
        (values.drop_vars(list(values.coords)) | whole).transpose(*dims[::-1]).values
    )
    return found


def _hatch_barred(axes: Axes, part: xr.Dataset, barred: np.ndarray, dims: tuple[str, str]) -> None:
    """Hatch the cells of which no plan is allowed otherwise than those where nothing fits."""
    x, y = borders(part, dims[0]), borders(part, dims[1])
    for i, j in np.argwhere(barred):
        corner, sides = (x[j], y[i]), (x[j + 1] - x[j], y[i + 1] - y[i])
        axes.add_patch(Rectangle(corner, *sides, zorder=0.5, **style.BARRED))


def _missing(part: xr.Dataset, unfit: np.ndarray, dims: tuple[str, str]) -> str:
    """Return what the leanest plan would need where nothing fits."""
    name = f"{need_of(part)}_least"
    if name not in part:
        return "nothing fits"
    none = xr.DataArray(unfit, dims=(dims[1], dims[0]))
    needs = float(part[name].where(none).min())
    at_least = f": needs {choose.amount(needs, unit_of(part, name))}"
    return "nothing fits" + (at_least if np.isfinite(needs) else "")


def _broken(part: xr.Dataset, barred: np.ndarray, dims: tuple[str, str]) -> str:
    """Return which rule forbids every plan, by its numbers or by its sentence."""
    for name in verdicts(part):
        broken = ~_over(part[name].astype(bool), part, dims)
        if not (broken & barred).any():
            continue
        head, _, thing = name.partition("_divides_")
        of = choose.field(part, thing) if thing else None
        if head in dims and of is not None and not of.ndim:
            along = (broken & barred).any(axis=1 - dims[::-1].index(head))
            held = [f"{part[head].values[i]:,.0f}" for i in np.flatnonzero(along)]
            does = "does" if len(held) == 1 else "do"
            return f"not allowed: {listing(held)} {does} not divide {float(of):,.0f} {thing}"
        rule = str(part[name].attrs.get("long_name", name.replace("_", " ")))
        return f'not allowed: breaks the rule\n"{rule}"'
    if "gpus" in dims:
        along = barred.all(axis=1 - dims[::-1].index("gpus"))
        held = [f"{part.gpus.values[i]:,.0f}" for i in np.flatnonzero(along)]
        if held:
            return f"not allowed: no plan divides {listing(held)} accelerators"
    return "not allowed: no legal plan"


def _name_ground(
    axes: Axes, part: xr.Dataset, where: np.ndarray, dims: tuple[str, str], words: str
) -> None:
    """Write words in the middle of a hatched part, upright where it is narrow."""
    cells = np.argwhere(where)
    row, column = cells[np.abs(cells - cells.mean(axis=0)).sum(axis=1).argmin()].tolist()
    rows, tall = _run(where[row], column), _run(where[:, column], row)
    x, y = borders(part, dims[0]), borders(part, dims[1])
    left, right = fraction(axes, "x", x[list(rows)])
    low, high = fraction(axes, "y", y[list(tall)])
    turned = 90 if right - left < 0.35 and high - low > 0.5 else 0
    middle = (float(np.clip((left + right) / 2, 0.03, 0.97)), float((low + high) / 2))
    style.note(axes, *middle, words, rotation=turned, transform=axes.transAxes)


def _run(where: np.ndarray, place: int) -> tuple[int, int]:
    """Return where the cells around one that are all so begin and end.

    >>> _run(np.array([True, False, True, True]), 2)
    (2, 4)
    """
    outside = np.flatnonzero(~where)
    start = int(max(outside[outside < place], default=-1)) + 1
    return start, int(min(outside[outside > place], default=len(where)))
