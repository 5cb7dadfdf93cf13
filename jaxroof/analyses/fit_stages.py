"""The memory of every stage over axes: plans, numbers, choices, models and systems."""

import dataclasses
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.fit import memory_data
from jaxroof.analyses.fit_question import (
    LEVEL,
    Question,
    given_paths,
    path_of,
    unchecked_question,
)
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.dataset import versions
from jaxroof.engine.grid.spacing import Between, Spacing, listed_values, number_column
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.report import StageMemory
from jaxroof.records import leaves, units

LONE = ("global_batch", "gpus", "microbatch_group", "early_forward")
PLAN_OWN = ("plan.", "states.", "activations.", "buffers.", "model.sequence", *LONE)
RESULTS = {
    *("stage", "fullest_stage", "needed", "capacity", "missing", "legal", "fits"),
    *("allocated", *units(StageMemory)),
}
MOST = 2**22  # points times stages of an answer


def fit_stages(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    axes: Mapping[str, Any],
    plan: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the memory of every stage over axes, each a dimension, with ``stage`` the last.

    A key of ``axes`` is a field of the plan (``tp``, ``microbatch``), a number, a choice
    (``recompute``), ``model`` or ``system``; its values are a list or a spacing. The other
    arguments are those of ``fit``.

    Returns: a Dataset of the terms that ``fit`` returns, over the axes and ``stage``; over the axes
    ``legal``, ``fits``, ``fullest_stage``, ``missing`` and ``capacity``. Memory is missing where a
    plan is not legal, and 0 beyond its last stage.
    Raises: InputError as ``fit`` does, and for more points than memory holds.

    >>> about = {"model": "llama3-8b", "system": "h100-nvs8", "global_batch": 64}
    >>> data = fit_stages(**about, plan={"pp": 2}, axes={"tp": [1, 2, 3, 4]})
    >>> dict(data.sizes), data.legal.values.tolist()
    ({'tensor': 4, 'stage': 2}, [True, True, False, True])
    """
    settings = {"global_batch": global_batch, **(settings or {}), **more}
    base = {"model": model, "system": system, **given_paths(plan or {}, settings)}
    for key in axes:
        if path_of(key) in base.keys() - {"model", "system", "global_batch"}:
            raise refusal(f"axes.{key}", "given beside the axes too; expected it once")
    read = _axes(axes, _question(base, _firsts(axes)).inputs)
    looped, numbers = ([a for a in read if bool(a.columns) == known] for known in (False, True))
    firsts = {path: float(some[0]) for axis in numbers for path, some in axis.columns.items()}
    parts = []
    for place in itertools.product(*(range(len(axis)) for axis in looped)):
        axis_at = zip(looped, place, strict=True)
        chosen = {key: some[i] for axis, i in axis_at for key, some in axis.choices.items()}
        asked = _question(base, {**firsts, **chosen})
        _check_size(read, numbers, asked)
        if "gpus" not in asked.given:  # each plan uses its own
            asked = asked._replace(inputs=dataclasses.replace(asked.inputs, gpus=None))
        parts.append(memory_data(asked, numbers))
    return _joined(parts, looped, numbers, [axis.name for axis in read])


def _question(base: Mapping[str, Any], at: Mapping[str, Any]) -> Question:
    """Return the question at some values of the axes, its plan not held to the rules."""
    given = {**base, **at}
    return unchecked_question(given.pop("model"), given.pop("system"), given)


def _joined(
    parts: Sequence[xr.Dataset], looped: Sequence[Axis], numbers: Sequence[Axis], dims: list[str]
) -> xr.Dataset:
    """Return the memory over all axes, which every result has."""
    outer = {axis.name: len(axis) for axis in looped}
    inner = {axis.name: len(axis) for axis in numbers}
    found = {}
    for name in [n for n in parts[0].data_vars if n not in ("largest_term", "largest")]:
        one = parts[0].variables[name]
        own = inner | {dim: one.sizes[dim] for dim in ("stage",) if dim in one.dims}
        some = (part.variables[name] for part in parts)
        each = [v.values if v.dims == (*own,) else v.set_dims(own).values for v in some]
        values = np.stack(each).reshape([*outer.values(), *own.values()])
        order = [*dims, *(["stage"] if "stage" in own else [])]
        found[name] = xr.Variable((*outer, *own), values, one.attrs).transpose(*order)
    labels = {
        axis.name: (axis.name, np.array([str(value) for value in some]), {"path": path})
        for axis in looped
        for path, some in axis.choices.items()
    }
    coords: dict[Any, Any] = {**parts[0].coords, **labels}
    attrs = {"Conventions": "CF-1.11", "question": "fit_stages", "answer": "stages"}
    attrs["versions"] = json.dumps(versions())
    return xr.Dataset(found, {dim: coords[dim] for dim in (*dims, "stage")}, attrs)


def _firsts(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first value of every axis."""
    firsts = {}
    for key, values in axes.items():
        path = path_of(key)
        if isinstance(values, Spacing | Between) and not _is_number(path):
            said = "taken one by one, not in steps; expected a list of values"
            raise refusal(f"axes.{key}", said)
        if isinstance(values, Between):
            firsts[path] = values.ends[0]
        else:
            several = isinstance(values, Spacing)
            firsts[path] = values.start if several else listed_values(key, values)[0]
    return firsts


def _is_number(path: str) -> bool:
    """Return whether all values of an axis over a path are evaluated at once."""
    return path.startswith(PLAN_OWN) and path != LEVEL


def _axes(axes: Mapping[str, Any], inputs: TrainingInputs) -> list[Axis]:
    """Return the checked axes: numbers are columns, all else is taken one by one."""
    known = {path for path, _, _ in leaves(inputs)}
    read: list[Axis] = []
    for key, values in axes.items():
        path = path_of(key)
        name = path.rpartition(".")[2]
        name = path.replace(".", "_") if name in RESULTS else name
        if isinstance(values, Mapping):
            raise refusal(f"axes.{key}", "fields that move together; expected one field an axis")
        number = _is_number(path) and path in known
        column: Any = number_column(inputs, path, values, {}) if number else None
        if name in (axis.name for axis in read):
            raise refusal(f"axes.{key}", f"given twice, as {name} too; expected it once")
        if column is not None:
            read.append(Axis(name, {path: np.asarray(column, float)}))
            continue
        listed = listed_values(key, values)
        some = np.empty(len(listed), object)
        some[:] = listed
        read.append(Axis(name, {}, choices={path: some}))
    return read


def _check_size(axes: Sequence[Axis], numbers: Sequence[Axis], asked: Question) -> None:
    assert asked.inputs.plan is not None
    stages = [axis.columns.get("plan.pipeline", np.ones(1)).max() for axis in numbers]
    most = max(float(asked.inputs.plan.pipeline), *stages, 1.0)
    count = int(math.prod(float(len(axis)) for axis in axes) * most)
    if count > MOST:
        expected = f"expected at most {MOST:,}"
        raise refusal("axes", f"{count:,} points times stages, too many for memory; {expected}")
