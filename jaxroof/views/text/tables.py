"""Results as texts, and tables of grids."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import xarray as xr
from rich.console import JustifyMethod

from jaxroof.analyses.result_metadata import (
    about,
    headlines,
    need_of,
    timed_of,
    unit_of,
)
from jaxroof.units import amount, size
from jaxroof.views.text.interval import LOW, short_interval
from jaxroof.views.text.layout import PlainTable, Shown, evenly
from jaxroof.views.text.plan import (
    placement_head,
    placement_title,
    placement_words,
    plan_fields,
    plan_words,
)


def grid_table(data: xr.Dataset, most: int = 10) -> PlainTable | None:
    """Return the headline (or the first result) over a grid of one or two axes, thinned."""
    best = data.isel(rank=0) if "rank" in data.sizes else data
    dims = list(best.sizes)
    name = next(iter([*headlines(best), *map(str, best.data_vars)]), "")
    if not 1 <= len(dims) <= 2 or name not in best:
        return None
    value = best[name]
    title = f"{value.attrs.get('long_name', name)} [{value.attrs.get('units', '1')}]"
    brackets = "plans_legal" not in best and "feasible" in best and not bool(best.feasible.all())
    limits = [4 * most] if len(dims) == 1 else [2 * most, most]
    places = [thinned(best.sizes[dim], limit) for dim, limit in zip(dims, limits, strict=True)]
    title += ("; in brackets: not feasible" if brackets else "") + _thinned_words(best, places)
    if len(dims) == 1:
        return _one_axis(best, dims[0], value, places[0], title)
    return crossed(best, dims, title, lambda at: _cell(best, value, at), (2 * most, most))


def crossed(
    data: xr.Dataset,
    dims: Sequence[Any],
    title: str,
    cell: Callable[[dict[Any, int]], str],
    most: tuple[int, int],
) -> PlainTable:
    """Return a table of two axes, thinned: values of one go down, of the other across."""
    down, across = dims
    rows, columns = (thinned(data.sizes[dim], n) for dim, n in zip(dims, most, strict=True))
    table = PlainTable(title)
    table.add_column(f"{down} \\ {across}", justify=_side(data, down), no_wrap=True)
    for j, optional in zip(columns, evenly(len(columns)), strict=True):
        table.add_numbers(tick(data, across, j), optional=optional)
    for i in rows:
        table.add_row(tick(data, down, i), *(cell({down: i, across: j}) for j in columns))
    return table


def _thinned_words(best: xr.Dataset, places: Sequence[Sequence[int]]) -> str:
    few = [
        f"{len(some)} of {size:,} values of {dim}"
        for some, (dim, size) in zip(places, best.sizes.items(), strict=True)
        if len(some) < size
    ]
    return f"; {' and '.join(few)}" if few else ""


def _one_axis(
    best: xr.Dataset, dim: Any, value: xr.DataArray, places: Sequence[int], title: str
) -> PlainTable:
    """Return one row per point: the result, and of a search the best plan and what it gives."""
    name, searched = str(value.name), "plans_feasible" in best
    fields, need = plan_fields(best), need_of(best)
    rows = [best.isel({dim: i}).assign(place=i) for i in places]
    placed = f"{placement_title(best)} {placement_head(best, fields)}"
    others = [other for other in headlines(best) if other != name]

    def result(other: str) -> Shown:
        return Shown(other, lambda row: f"{float(row[other]):.5g}", 2)

    def needed(row: xr.Dataset) -> str:
        return size(float(row[need]), unit_of(best, need))

    axis = [
        Shown(str(dim), lambda row: tick(best, dim, int(row.place)), 0, _side(best, dim)),
        Shown(name, lambda row: _cell(best, value, {dim: int(row.place)})),
    ]
    counted = str(about(best, "plans_feasible").get("words", "plans that fit"))
    plan = [
        *([Shown("80 % of\nruns [s]", short_interval, 1)] if LOW in best else []),
        *map(result, others),
        Shown("plan", plan_words),
        *([Shown(placed, lambda row: placement_words(row, fields), 3)] * bool(placed.split()[1:])),
        *([Shown(need, needed, 4)] if need in best.data_vars and need != name else []),
        Shown(counted, lambda row: f"{int(row.plans_feasible):,}", 5),
    ]

    def nothing(row: xr.Dataset) -> list[str]:
        if not searched or bool(row.feasible):
            return []
        cells = ["nothing fits" if column.head == "plan" else "-" for column in plan[:-1]]
        return [*(column.cell(row) for column in axis), *cells, "0"]

    return PlainTable(title).add_rows([*axis, *plan * searched], rows, nothing)


def per_run(data: xr.Dataset, name: str, value: float) -> str:
    """Return a result with its unit; a time is given per unit of its work.

    >>> data = xr.Dataset({"step_time": ((), 2.0, {"units": "s"})}, attrs={"roles": "-"})
    >>> per_run(data, "step_time", 2.0)
    '2 s a step'
    """
    run, said = timed_of(data, name), amount(value, unit_of(data, name))
    return f"{said} a {run}" if run else said


def thinned(size: int, most: int) -> list[int]:
    """Return at most ``most`` positions of an axis, including the first and the last.

    >>> thinned(9, 3)
    [0, 4, 8]
    """
    if size <= most:
        return list(range(size))
    return sorted({round(float(i)) for i in np.linspace(0, size - 1, most)})


def tick(data: xr.Dataset, dim: Any, index: int) -> str:
    """Return the label of a point of an axis: its value, or the values that vary together there."""
    if _named(data, dim):
        return str(data.coords[dim].values[index])
    together = [c for n, c in data.coords.items() if c.dims == (dim,) and n != dim]
    own = [data.coords[dim]] if dim in data.coords else []
    said = [
        _amount(c.values[index], c.attrs.get("units", "1"))
        if c.dtype.kind in "if"
        else str(c.values[index])
        for c in together or own
        if c.dtype.kind in "ifUOT"
    ]
    return " / ".join(said) if said else str(index)


def _named(data: xr.Dataset, dim: Any) -> bool:
    return dim in data.coords and data.coords[dim].dtype.kind in "UOT"


def _side(data: xr.Dataset, dim: Any) -> JustifyMethod:
    return "left" if _named(data, dim) else "right"


def _amount(value: Any, unit: str) -> str:
    if np.asarray(value).dtype.kind == "i":
        return f"{int(value)}" if unit == "1" else f"{int(value)} {unit}"
    return size(float(value), unit)


def _cell(best: xr.Dataset, value: xr.DataArray, at: dict[Any, int]) -> str:
    number = float(value.isel({d: i for d, i in at.items() if d in value.dims}))
    if np.isnan(number):
        return "-"
    held = "feasible" not in best or bool(
        best.feasible.isel({d: i for d, i in at.items() if d in best.feasible.dims})
    )
    return f"{number:.4g}" if held else f"({number:.4g})"
