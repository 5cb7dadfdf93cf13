"""Results along a further dimension, as an estimator declares them: by operation, stage, event."""

import dataclasses
import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    spread,
    unique_names,
)
from jaxroof.engine.grid.chunks import EACH, programs
from jaxroof.engine.grid.dataset import (
    MISSING,
    Columns,
    dataset,
    field_metadata,
    provenance,
    stack_choices,
)
from jaxroof.engine.grid.evaluate import place_best
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.size import check_products
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Column, Detail, Estimator, Rows
from jaxroof.missing import naming_all
from jaxroof.records import leaves
from jaxroof.structure import map_numbers


def detail(
    estimator: Estimator,
    name: str,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    **options: Any,
) -> xr.Dataset:
    """Return a detail of an estimator, of one plan or over axes, each a dimension.

    Arguments: ``inputs`` may be a checked question; ``axes`` are as in ``tabulate``; ``options``
    are those of the detail.
    """
    asked = detail_of(estimator, name)
    _, inputs, recipe, read = ask(estimator, inputs, recipe, axes=axes)
    check_products(read, estimator.products)
    named = unique_names(read, field_metadata(*asked.report))
    every = [_apart(axis) for axis in named] if asked.one_by_one else named
    if not every:
        _check_scalars(inputs)
    parts, grids = [], []
    for one, grid in programs(every, recipe):
        wide = spread(inputs, grid)
        if asked.one_by_one and every:
            wide, grid = map_numbers(lambda leaf: np.reshape(leaf, ()), wide), ()
        placed, rows = _rows(estimator, asked, wide, one, options)
        parts.append(rows)
        grids.append(grid)
    inputs = inputs if every else placed
    whole = [_columns(*some) for some in zip(_aligned(parts), grids, strict=True)]
    labels = {n: some for n, some in whole[0].items() if some[0] == (n,)}  # along a dimension
    columns = {**stack_choices(every, whole), **labels}
    attrs = provenance(estimator, inputs, recipe, named, question=name, **parts[0].attrs)
    data = dataset(columns, named, inputs, field_metadata(*asked.report), attrs)
    said = {n: column for part in parts for n, column in part.columns.items()}
    for variable, column in said.items():
        if column.about is not None:
            data.variables[variable].attrs = dict(column.about)
        if column.label or not column.dims:
            data.variables[variable].encoding = {}
    return data.set_coords([n for n, column in said.items() if column.label])


def detail_of(estimator: Estimator, name: str) -> Detail:
    """Return a detail by name."""
    known = estimator.details()
    if name not in known:
        raise unknown("", name, f"detail of {estimator.name or 'the estimator'}", known)
    return known[name]


def options_of(estimator: Estimator, name: str) -> list[str]:
    """Return the names of a detail's own options."""
    every = inspect.signature(detail_of(estimator, name).rows).parameters.values()
    return [option.name for option in every if option.kind is option.KEYWORD_ONLY]


def rows_of(
    estimator: Estimator, name: str, inputs: Any, recipe: Any = None, **options: Any
) -> tuple[Any, Rows]:
    """Return the inputs with their placement, and a detail of one plan."""
    _check_scalars(inputs)
    return _rows(estimator, detail_of(estimator, name), inputs, recipe, options)


def _rows(
    estimator: Estimator, asked: Detail, inputs: Any, recipe: Any, options: Mapping[str, Any]
) -> tuple[Any, Rows]:
    recipe = estimator.recipe_of(inputs, recipe)
    if asked.check is not None:
        asked.check(inputs, recipe)
    recipe = estimator.sized_recipe(inputs, recipe)
    with naming_all(estimator, inputs, recipe):
        inputs = place_best(estimator, inputs, recipe)
        return inputs, asked.rows(inputs, recipe, **options)


def _check_scalars(inputs: Any) -> None:
    for path, _, value in leaves(inputs):
        if np.ndim(value):
            raise refusal(path, f"expected one number, given {np.size(value)} of them")


def _apart(axis: Axis) -> Axis:
    """Return an axis each of whose points is a program of its own."""
    each = {EACH: np.arange(len(axis))} if axis.columns else {}
    return dataclasses.replace(axis, choices={**axis.choices, **each})


def _columns(columns: Mapping[str, Column], axes: Sequence[Axis]) -> Columns:
    """Return columns with the dimensions of the axes that move them, then their own."""
    found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, column in columns.items():
        values = np.asarray(column.values)
        lead = list(zip(axes, values.shape[: values.ndim - len(column.dims)], strict=False))
        still = tuple(d for d, (axis, size) in enumerate(lead) if size != len(axis))
        moved = tuple(axis.name for d, (axis, _) in enumerate(lead) if d not in still)
        found[name] = ((*moved, *column.dims), values.squeeze(still))
    return found


def _aligned(parts: Sequence[Rows]) -> list[dict[str, Column]]:
    """Return the columns of some programs with the same places along every named dimension."""
    columns = [dict(part.columns) for part in parts]
    for dim in [name for name, column in columns[0].items() if column.dims == (name,)]:
        labels = [np.asarray(part[dim].values).tolist() for part in columns]
        if all(some == labels[0] for some in labels):
            continue
        every = list(dict.fromkeys(itertools.chain(*labels)))
        for part, some in zip(columns, labels, strict=True):
            places = [every.index(label) for label in some]
            for name, column in part.items():
                if dim in column.dims:
                    part[name] = column._replace(values=_at(column, dim, places, len(every)))
            part[dim] = part[dim]._replace(values=np.array(every))
    return columns


def _at(column: Column, dim: str, places: list[int], size: int) -> np.ndarray:
    """Return values at their places of a longer dimension, missing elsewhere."""
    values = np.moveaxis(np.asarray(column.values), column.dims.index(dim) - len(column.dims), 0)
    found = np.full((size, *values.shape[1:]), MISSING.get(values.dtype.kind, 0), values.dtype)
    found[places] = values
    return np.moveaxis(found, 0, column.dims.index(dim) - len(column.dims))
