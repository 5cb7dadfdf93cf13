"""What a picture finds in a dataset: the best plans, its dimensions, a field wherever it stands."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import filled_paths, need_of, unit_of
from jaxroof.catalog.lookup import system
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.units import parse, show
from jaxroof.views.answers import headline
from jaxroof.views.parameter_words import words_of

FOUND = 180  # letters of a finding
NAMED = ("model", "split", "system")  # dimensions over names that come before others


def best_plans(data: xr.Dataset) -> xr.Dataset:
    """Return the best plan of every point, without dimensions of one point.

    Coordinates of such dimensions stay, as scalars.
    """
    kept = data.isel(rank=0, drop=True) if "rank" in data.sizes else data
    return kept.squeeze()


def named_dimensions(data: xr.Dataset) -> list[str]:
    """Return the dimensions over names; a zipped axis that is called so has no names."""
    known = [dim for dim in map(str, data.sizes) if dim in data.coords]
    texts = [dim for dim in known if data[dim].dtype.kind not in "if"]
    return [*(dim for dim in NAMED if dim in texts), *(dim for dim in texts if dim not in NAMED)]


def number_dimensions(data: xr.Dataset) -> list[str]:
    """Return the dimensions along which numbers move."""
    found = [str(dim) for dim in data.sizes if dim not in named_dimensions(data)]
    tied = {dim: linked_coordinates(data, dim) for dim in found}
    return [d for d in found if tied[d] and all(data[n].dtype.kind in "if" for n in tied[d])]


def ordered_dimensions(data: xr.Dataset) -> list[str]:
    """Return all dimensions, those over names first."""
    named = named_dimensions(data)
    return [*named, *(str(dim) for dim in data.sizes if dim not in named)]


def axis_words(data: xr.Dataset, dim: str) -> str:
    """Return what an axis is along, in words."""
    return "accelerators" if dim == "gpus" else words_of(linked_coordinates(data, dim)[0])


def check_has(
    data: xr.Dataset, picture: str, variables: Sequence[str] = (), dims: Sequence[str] = ()
) -> None:
    """Check that the data have what a picture draws.

    Raises: InputError that names the first dimension or variable that is missing.
    """
    for dim in dims:
        if dim not in data.sizes:
            raise refusal(
                picture, f"needs the dimension {dim!r}; the data have {dimension_words(data)}."
            )
    for name in variables:
        if name not in data:
            raise unknown(f"{picture}: needs", name, "variable in the data", map(str, data))


def check_dimensions(data: xr.Dataset, picture: str, dims: Sequence[str]) -> None:
    """Check that the data vary over nothing that a picture cannot show.

    Raises: InputError that names a dimension too many and how to choose from it.
    """
    for dim in data.sizes:
        if dim not in dims:
            raise refusal(
                picture, f"cannot show the dimension {str(dim)!r}; {_choice(data, str(dim))}"
            )


def _choice(data: xr.Dataset, dim: str) -> str:
    """Return how to choose one point of a dimension, at the command line and in Python."""
    if dim not in data.coords:
        return f"choose one point: --at {dim}=0, in Python data.isel({dim}=0)."
    first = data[dim].values[0]
    number = data[dim].dtype.kind in "if"
    shown, exact = (f"{first:g}", repr(first.item())) if number else (first, repr(str(first)))
    return f"choose one point: --at {dim}={shown}, in Python data.sel({dim}={exact})."


def dimension_words(data: xr.Dataset) -> str:
    """Return the dimensions of a dataset in words."""
    return ", ".join(map(str, data.sizes)) or "none"


def title(data: xr.Dataset, otherwise: str) -> str:
    """Return the title of the data, or what they would be called."""
    return str(data.attrs.get("title") or otherwise)


def finding(data: xr.Dataset) -> str:
    """Return the first sentence of the answer, as much of it as stands under a title."""
    first, *more = headline(data).removesuffix(".").split("; ")
    for part in more:
        if len(first) + len(part) > FOUND:
            break
        first = f"{first}; {part}"
    return first


def run_inputs(data: xr.Dataset) -> dict[str, Any]:
    """Return the numbers that a run started from, by path."""
    found = json.loads(data.attrs.get("inputs", "{}"))
    return found if isinstance(found, dict) else {}


def field(data: xr.Dataset, name: str) -> xr.DataArray | None:
    """Return a number by its name: a result, a coordinate, or what the run was given."""
    for known in (name, f"plan_{name}", f"system_{name}"):
        # a dimension's own index is a coordinate too, but an axis called `data` is no degree
        if known in data.variables and data[known].dtype.kind in "if":
            return data[known].astype(np.float64)
    for path in (name, f"plan.{name}", f"system.{name}", f"model.{name}"):
        if path in run_inputs(data):
            return xr.DataArray(float(run_inputs(data)[path]))
    return None


def capacity(data: xr.Dataset) -> xr.DataArray | None:
    """Return what a plan may need on the machine of the data, where they tell."""
    need = need_of(data)
    told = next((n for n in (f"{need}_limit", "need_limit") if n in data), None)
    if told is not None:
        return data[told]
    for one in json.loads(data.attrs.get("each", "{}")).values():  # of several sizes: the same
        if "need_limit" in one:
            return xr.DataArray(float(one["need_limit"]))
    found = [_input(data, path) for path in filled_paths(data)]
    if not found or found[0] is None:
        return None
    limit = xr.DataArray(1.0)
    for value in found:
        limit = limit if value is None else limit * value
    return limit


def _input(data: xr.Dataset, path: str) -> xr.DataArray | None:
    """Return a number of the inputs: on an axis, of a named machine, or as the run was given it."""
    head, _, leaf = path.rpartition(".")
    if head in data.coords:
        if data[head].ndim:
            return None
        try:
            return xr.DataArray(float(getattr(system(str(data[head].values)), leaf)))
        except (InputError, AttributeError):
            return None
    if leaf in data.coords and data[leaf].dtype.kind in "if":
        return data[leaf].astype(np.float64)
    return xr.DataArray(float(run_inputs(data)[path])) if path in run_inputs(data) else None


def feasible_values(data: xr.Dataset, value: xr.DataArray) -> xr.DataArray:
    """Return a result over all dimensions of the data, NaN where no plan fits."""
    kept = value.where(data["feasible"].astype(bool)) if "feasible" in data else value
    whole = xr.DataArray(np.empty(tuple(data.sizes.values())), dims=list(data.sizes))
    return kept.broadcast_like(whole).transpose(*data.sizes)


def refusal_words(point: xr.Dataset) -> str:
    """Return in words why nothing fits at one point."""
    if "reason" in point and int(point.reason) == 2:
        return "no legal plan"
    need = need_of(point)
    least = float(point[f"{need}_least"]) if f"{need}_least" in point else np.nan
    if not np.isfinite(least):
        return "does not fit"
    limit, unit = capacity(point), unit_of(point, f"{need}_least")
    of = f" of {amount(float(limit), unit)}" if limit is not None else ""
    return f"needs {amount(least, unit)}{of}"


def amount(value: float, unit: str) -> str:
    """Return an amount in three digits, under a prefix.

    >>> amount(286234567890.0, "B")
    '286 GB'
    """
    return show(float(f"{value:.3g}"), unit)


def linked_coordinates(data: xr.Dataset, dim: Hashable) -> list[str]:
    """Return the coordinates that move along a dimension, without a mere count of its points."""
    moved = [str(n) for n, c in data.coords.items() if c.dims == (dim,) and n != dim]
    numbers = [name for name in moved if data[name].dtype.kind in "if"]
    return numbers or ([str(dim)] if dim in data.coords else [])


COUNTED = ("1", "sequence", "token")  # units of numbers of which only those of the data have points


def pick(data: xr.Dataset, at: Mapping[str, Any] | None, where: str) -> xr.Dataset:
    """Return the data at given values of some dimensions; amounts take the nearest point.

    A text is read with the unit of the axis; an axis of fields that move together is counted, or
    cut to the points where one of those fields has a value.
    Raises: InputError for an unknown dimension or value.
    """
    for dim, value in (at or {}).items():
        if dim not in data.sizes and dim in data.variables and len(data[dim].dims) == 1:
            data = _where(data, dim, value, where)
            continue
        if dim not in data.sizes:
            raise unknown(where, dim, "dimension of the data", map(str, data.sizes))
        if dim not in data.coords:
            data = data.isel({dim: int(value)})
            continue
        column = data[dim]
        if column.dtype.kind not in "if":
            if str(value) not in column.values.astype(str):
                options = column.values.astype(str).tolist()
                raise unknown(where, str(value), f"{dim} in the data", options)
            data = data.isel({dim: column.values.astype(str).tolist().index(str(value))})
            continue
        unit = column.attrs.get("units", "1")
        number = parse(value, unit, f"{where} {dim}")
        if unit in COUNTED and number not in column.values:
            options = [f"{point:g}" for point in column.values.tolist()]
            raise unknown(where, str(value), f"{dim} in the data", options)
        data = data.isel({dim: int(np.abs(column.values - number).argmin())})
    return data


def _where(data: xr.Dataset, name: str, value: Any, where: str) -> xr.Dataset:
    """Return the points of an axis at which one of the fields that move along it has a value."""
    column = data[name]
    flags = np.array(str(column.attrs.get("flag_meanings", "")).split())
    values = flags[column.values] if len(flags) else column.values
    if values.dtype.kind in "if":
        number = parse(value, column.attrs.get("units", "1"), f"{where} {name}")
        here = values == number
    else:
        here = values.astype(str) == str(value)
    if not here.any():
        raise unknown(
            where, str(value), f"{name} in the data", map(str, np.unique(values).tolist())
        )
    return data.isel({column.dims[0]: np.flatnonzero(here)})


def panels(data: xr.Dataset, dims: Sequence[str]) -> list[tuple[str, xr.Dataset]]:
    """Return the data at every combination of some of their dimensions, each with its name."""
    found = [("", data)]
    for dim in (d for d in dims if d in data.sizes):
        found = [
            (", ".join(filter(None, (words, label(part, dim, i)))), part.isel({dim: i}))
            for words, part in found
            for i in range(data.sizes[dim])
        ]
    return found


def label(data: xr.Dataset, dim: str, index: int) -> str:
    """Return what stands at a point of a dimension, in words."""
    names = [str(n) for n, c in data.coords.items() if c.dims == (dim,) and c.dtype.kind in "UOT"]
    named = [name for name in names if name != dim]
    return (
        coordinate_words(data, [*named, *linked_coordinates(data, dim)], index) or f"{dim} {index}"
    )


def coordinate_words(data: xr.Dataset, names: Sequence[str], index: int) -> str:
    """Return what some coordinates of one dimension are at a point of it, in words."""
    said = []
    for name in names:
        value, unit = data[name].values[index], data[name].attrs.get("units", "1")
        if data[name].dtype.kind not in "if":
            said.append(str(value))
        elif name == "gpus":
            said.append(f"{value:,.0f} accelerators")
        elif unit in (*COUNTED, "sample") and float(value).is_integer():
            said.append(f"{words_of(name)} {value:,.0f}")
        else:
            said.append(f"{words_of(name)} {amount(float(value), unit)}")
    return ", ".join(said)
