"""Labelled results: arrays become an xarray Dataset with units, descriptions and provenance."""

import dataclasses
import enum
import functools
import importlib.metadata
import itertools
import json
import platform
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import __version__
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.chunks import groups
from jaxroof.records import field_at, is_quantity, last_name, leaves
from jaxroof.settings import choice_text

# metadata that describes a quantity, copied to its attributes
NAMED = ("symbol", "words", "label", "part_of", "resource", "error")
Columns = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def field_metadata(*records: Any) -> dict[str, Mapping[str, Any]]:
    """Return the metadata of every quantity that the records declare, by field name."""
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
        about["default"] = "1"  # a degree of 1 may be left out of a plan
    elif metadata.get("default") == 0 and (metadata.get("whole") or metadata.get("symbol")):
        about["default"] = "0"
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

    Missing values are -1 in whole-number columns and NaN in float columns.
    """
    variables = {}
    for name, (dims, values) in columns.items():
        variable = xr.Variable(dims, values, attributes(meanings[name]) if name in meanings else {})
        if values.dtype == np.int64:
            variable.encoding["_FillValue"] = -1
        variables[name] = variable
    return xr.Dataset(variables, _coordinates(axes, inputs, variables), dict(attrs))


def _coordinates(
    axes: Sequence[Axis], inputs: Any, taken: Collection[str]
) -> dict[str, xr.Variable]:
    """Return the coordinates of axes, which have other names than the results in ``taken``."""
    found: dict[str, xr.Variable] = {}
    for axis in axes:
        together = len(axis.paths) > 1
        if together:
            found[axis.name] = xr.Variable((axis.name,), np.arange(len(axis)))
        for path in axis.paths:
            name = _coordinate(axis, path)
            if name in taken or name in found:
                name = path.replace(".", "_") if "." in path else f"input_{path}"
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
    """Return the name of the coordinate that holds the values of a path along an axis."""
    leaf = last_name(path).replace(".", "_")
    if len(axis.paths) == 1:
        return axis.name
    return leaf if leaf != axis.name else path.replace(".", "_")


MISSING: dict[str, Any] = {"f": np.nan, "i": -1, "U": ""}  # missing value by dtype kind


def stack_choices(axes: Sequence[Axis], found: Sequence[Columns]) -> Columns:
    """Join the columns of each program of a grid into columns over the whole grid.

    ``found`` is in the order of ``programs``. A column has every dimension that it has in any
    program: first the axes in their order, then other dimensions, each as long as in the program
    where it is longest. Places that a program does not fill are NaN or -1.
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
    """Return the attributes that make a run repeatable: inputs, recipe and versions.

    Records and choices that an axis varies are left out, because the axis labels name them.
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
    """Return the roles of an estimator's fields, for printing its results.

    ``split`` and ``placement`` are the fields of the plan in printing order. ``unused`` are the
    plan fields that a recipe does not use: under ``""`` those of ``recipe`` itself, and under the
    name of an axis those of each of its labels. ``resources`` gives, by input path, the machine
    resource that a number describes and the sign of a time's response to it (see ``sign_of``).
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
        "resources": _resources(inputs),
        **({"labelled": True} if estimator.labelled else {}),
    }


def _resources(inputs: Any) -> dict[str, list[Any]]:
    """Return the resource that each number describes, with its sign; in a tuple, by its place.

    Where a tuple of records has a resource for each place, no other number stands for those.
    """
    found: dict[str, list[Any]] = {}
    placed: dict[str, list[Any]] = {}
    taken: set[str] = set()
    for path, field, _ in leaves(inputs):
        name, sign = str(field.metadata.get("resource") or ""), sign_of(field.metadata["unit"])
        head, _, place = path.rpartition(".")[0].rpartition(".")
        about = field_at(inputs, head).metadata if place.isdigit() else {}
        if name in about.get("resources", {}):
            of_each = about["resources"][name]
            placed[path], taken = [of_each[int(place)], sign], taken | {name, *of_each}
        elif name:
            found[path] = [name, sign]
    return {path: one for path, one in found.items() if one[0] not in taken} | placed


def sign_of(unit: str) -> int:
    """Return the sign of a time's response to a quantity of this unit; 0 where it is unknown."""
    return -1 if unit.endswith("/s") else int(unit == "s")


def versions() -> dict[str, str]:
    """Return the versions of the packages that a result depends on."""
    found = {name: _installed(name) for name in ("jax", "jaxlib", "numpy", "xarray")}
    return {"jaxroof": __version__, "python": platform.python_version(), **found}


_installed = functools.cache(importlib.metadata.version)  # once a process: it reads a file


def _plain(value: Any) -> Any:
    return choice_text(value) if isinstance(value, enum.Enum | frozenset) else str(value)
