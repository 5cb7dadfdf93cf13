"""Labelled results: arrays in, xarray out, with units, meanings and what repeats the run."""

import dataclasses
import enum
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import __version__
from jaxroof.engine.axes import Axis
from jaxroof.records import field_at, is_quantity, leaves

Columns = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def described(*records: Any) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of every number that the records declare, by name."""
    return {
        field.name: field.metadata
        for record in records
        if dataclasses.is_dataclass(record)
        for field in dataclasses.fields(record)
        if is_quantity(field)
    }


def attributes(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the CF attributes of a quantity."""
    return {"units": metadata["unit"], "long_name": metadata["doc"].rstrip(".")}


def dataset(
    columns: Columns,
    axes: Sequence[Axis],
    inputs: Any,
    meanings: Mapping[str, Mapping[str, Any]],
    attrs: Mapping[str, str],
) -> xr.Dataset:
    """Return columns (dimensions, values) as a Dataset with a coordinate for every axis.

    Whole-number columns carry -1 where there is nothing, floats NaN.
    """
    variables = {}
    for name, (dims, values) in columns.items():
        variable = xr.Variable(dims, values, attributes(meanings[name]) if name in meanings else {})
        if values.dtype.kind == "i":
            variable.encoding["_FillValue"] = -1
        variables[name] = variable
    return xr.Dataset(variables, _coordinates(axes, inputs), dict(attrs))


def _coordinates(axes: Sequence[Axis], inputs: Any) -> dict[str, xr.Variable]:
    found = {}
    for axis in axes:
        together = len(axis.columns) > 1
        if together:
            found[axis.name] = xr.Variable((axis.name,), np.arange(len(axis)))
        for path, values in axis.columns.items():
            leaf = path.rpartition(".")[2]
            name = (
                (leaf if leaf != axis.name else path.replace(".", "_")) if together else axis.name
            )
            meaning = field_at(inputs, path).metadata
            numbers = values.astype(np.int64) if meaning["whole"] else values
            about = {**attributes(meaning), "path": path}
            found[name] = xr.Variable((axis.name,), numbers, about)
    return found


def provenance(estimator: Any, inputs: Any, recipe: Any, **more: Any) -> dict[str, str]:
    """Return the attributes that let anyone repeat a run: inputs, recipe, versions."""
    numbers = {path: np.asarray(v).tolist() for path, _, v in leaves(inputs) if np.ndim(v) == 0}
    choices = vars(recipe) if dataclasses.is_dataclass(recipe) else recipe
    return {
        "Conventions": "CF-1.11",
        "estimator": estimator.name or estimator.step.__name__,
        "inputs": json.dumps(numbers),
        "recipe": json.dumps(choices, default=_plain),
        "versions": json.dumps(versions()),
        **{name: v if isinstance(v, str) else json.dumps(v) for name, v in more.items()},
    }


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    found = {n: importlib.metadata.version(n) for n in ("jax", "jaxlib", "numpy", "xarray")}
    return {"jaxroof": __version__, "python": platform.python_version(), **found}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else str(value)
