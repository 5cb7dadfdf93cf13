"""Labelled results: arrays in, xarray out, with units, meanings and what repeats the run."""

import dataclasses
import enum
import importlib.metadata
import itertools
import json
import platform
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import __version__
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.programs import groups
from jaxroof.records import field_at, is_quantity, leaves

# what people call a quantity, and what it stands for
NAMED = ("symbol", "words", "label", "part_of", "resource")
Columns = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def field_metadata(*records: Any) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of every number that the records declare, by name."""
    return {
        field.name: field.metadata
        for record in records
        if dataclasses.is_dataclass(record)
        for field in dataclasses.fields(record)
        if is_quantity(field)
    }


def attributes(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CF attributes of a quantity."""
    about = {"units": metadata["unit"], "long_name": metadata["doc"].rstrip(".")}
    about |= {key: metadata[key] for key in NAMED if metadata.get(key)}
    if metadata.get("better") == "higher":
        about["better"] = "higher"
    if metadata.get("headline"):
        about["headline"] = "true"
    if metadata.get("default") == 1:
        about["default"] = "1"  # a degree that a plan need not have
    if "flags" in metadata:
        flags = metadata["flags"]
        about |= {"flag_values": list(range(len(flags))), "flag_meanings": " ".join(flags)}
    return about


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
        if values.dtype == np.int64:
            variable.encoding["_FillValue"] = -1
        variables[name] = variable
    return xr.Dataset(variables, _coordinates(axes, inputs), dict(attrs))


def _coordinates(axes: Sequence[Axis], inputs: Any) -> dict[str, xr.Variable]:
    found = {}
    for axis in axes:
        together = len(axis.paths) > 1
        if together:
            found[axis.name] = xr.Variable((axis.name,), np.arange(len(axis)))
        for path in axis.paths:
            name = _coordinate(axis, path)
            if path in axis.labels:
                labels = np.array(axis.labels[path], dtype=np.str_)
                found[name] = xr.Variable((axis.name,), labels, {"path": path})
                continue
            meaning, values = field_at(inputs, path).metadata, axis.columns[path]
            numbers = values.astype(np.int64) if meaning["whole"] else values
            about = {**attributes(meaning), "path": path}
            found[name] = xr.Variable((axis.name,), numbers, about)
    return found


def _coordinate(axis: Axis, path: str) -> str:
    """Return the name of the coordinate that says what a path is along an axis."""
    leaf = path.rpartition(".")[2]
    if len(axis.paths) == 1:
        return axis.name
    return leaf if leaf != axis.name else path.replace(".", "_")


MISSING = {"f": np.nan, "i": -1}  # by the kind of dtype


def stack_choices(axes: Sequence[Axis], found: Sequence[Columns]) -> Columns:
    """Return the columns of one evaluation for each program of a grid as columns of them all.

    Programs come as from ``programs``. A column has every dimension of any of its programs, in the
    order of the axes, other dimensions behind, as long as the longest: NaN or -1 in the others.
    """
    choosing = [axis for axis in axes if axis.choices]
    if not choosing:
        return found[0]
    places = list(itertools.product(*map(groups, choosing)))
    apart = [axis.name for axis in choosing if not axis.columns or len(groups(axis)) > 1]
    sizes = {axis.name: len(axis) for axis in axes}
    whole: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name in found[0]:
        parts = [xr.Variable(*columns[name]) for columns in found]
        dims = dict.fromkeys(str(d) for part in parts for d in part.dims)
        there = {d: max(part.sizes.get(d, 1) for part in parts) for d in dims}
        shape = {d: n for d, n in sizes.items() if d in there or d in apart}
        shape |= {d: n for d, n in there.items() if d not in sizes}
        dtype = np.result_type(*(part.dtype for part in parts))
        values = np.full(tuple(shape.values()), MISSING.get(dtype.kind, 0), dtype)
        for part, some in zip(parts, places, strict=True):
            at = {d: np.arange(n if d in sizes else part.sizes.get(d, n)) for d, n in shape.items()}
            at |= {a.name: p for a, p in zip(choosing, some, strict=True) if a.name in shape}
            wide = part.set_dims({d: len(p) for d, p in at.items()}).transpose(*shape)
            values[np.ix_(*at.values())] = wide.values
        whole[name] = (tuple(shape), values)
    return whole


def provenance(
    estimator: Any, inputs: Any, recipe: Any, axes: Sequence[Axis] = (), **more: Any
) -> dict[str, str]:
    """Return the attributes that let anyone repeat a run: inputs, recipe, versions.

    What an axis names, a whole record or a choice, is left out: its labels say it.
    """
    varied = {p for a in axes for p in a.values if p in a.labels or p not in a.paths}
    numbers = {p: float(v) for p, _, v in leaves(inputs) if np.ndim(v) == 0 and p not in varied}
    choices = vars(recipe) if dataclasses.is_dataclass(recipe) else recipe or {}
    choices = {name: member for name, member in choices.items() if name not in varied}
    return {
        "Conventions": "CF-1.11",
        "estimator": estimator.name or estimator.step.__name__,
        "inputs": json.dumps(numbers),
        "recipe": json.dumps(choices, default=_plain),
        "roles": json.dumps(roles(estimator, inputs, recipe, axes)),
        "versions": json.dumps(versions()),
        **{name: v if isinstance(v, str) else json.dumps(v) for name, v in more.items()},
    }


def roles(estimator: Any, inputs: Any, recipe: Any, axes: Sequence[Axis] = ()) -> dict[str, Any]:
    """Return what the names of an estimator's records stand for, for whoever prints its results.

    ``split`` and ``placement`` are the fields of the plan in the order that they are printed in,
    ``unused`` those that a choice of the recipe does not have: of the recipe itself under ``""``,
    else by the name of an axis and its label. ``resources`` are numbers of the inputs by path: what
    of the machine each stands for, and the sign of a time's answer to it (0: it multiplies others).
    """
    unused: dict[str, Any] = {"": estimator.unused_fields(recipe)}
    for axis in (axis for axis in axes if axis.choices and axis.labels):
        path = next(iter({*axis.labels} & {*axis.choices}), next(iter(axis.labels)))
        for label, *members in zip(axis.labels[path], *axis.choices.values(), strict=True):
            chosen = dict(zip(axis.choices, members, strict=True))
            fields = estimator.unused_fields(dataclasses.replace(recipe, **chosen))
            unused.setdefault(_coordinate(axis, path), {})[label] = fields
    return {
        "split": [name for name in estimator.plan_fields if name not in estimator.placement],
        "placement": list(estimator.placement),
        "unused": unused,
        "objective": estimator.objective,
        "need": estimator.need,
        "machine": estimator.machine,
        "resources": {
            path: [field.metadata["resource"], sign_of(field.metadata["unit"])]
            for path, field, _ in leaves(inputs)
            if field.metadata.get("resource")
        },
    }


def sign_of(unit: str) -> int:
    """Return whether a time grows (1) or falls (-1) with what has a unit; 0 where that is open.

    >>> sign_of("B/s"), sign_of("s"), sign_of("B")
    (-1, 1, 0)
    """
    return -1 if unit.endswith("/s") else int(unit == "s")


def versions() -> dict[str, str]:
    """Return the versions of what a result depends on."""
    found = {n: importlib.metadata.version(n) for n in ("jax", "jaxlib", "numpy", "xarray")}
    return {"jaxroof": __version__, "python": platform.python_version(), **found}


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, enum.Enum) else str(value)
