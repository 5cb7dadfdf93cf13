"""The memory of every stage over axes: plans, numbers, choices, models and systems."""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.fit import memory_data
from jaxroof.analyses.fit_question import (
    FIT,
    LEVEL,
    Question,
    given_paths,
    path_of,
    recomputation,
    unchecked_question,
)
from jaxroof.engine.grid.axes import Axis, read_axes, unique_names
from jaxroof.engine.grid.dataset import versions
from jaxroof.engine.grid.spacing import Between, Spacing, listed_values
from jaxroof.errors import refusal
from jaxroof.estimators.training.report import StageMemory
from jaxroof.records import units
from jaxroof.settings import Named

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
    given = {"global_batch": global_batch, **(settings or {}), **more}
    base = {"model": model, "system": system, **given_paths(plan or {}, given)}
    tables: dict[str, Any] = {}
    for key, values in axes.items():
        path = path_of(key)
        if path in tables:
            raise refusal(f"axes.{key}", f"given twice, as {_last(path)} too; expected it once")
        if base.get(path) is not None and path not in ("model", "system", "global_batch"):
            raise refusal(f"axes.{key}", "given beside the axes too; expected it once")
        if isinstance(values, Mapping):
            raise refusal(f"axes.{key}", "fields that move together; expected one field an axis")
        tables[path] = values
    rest = base | {path: _first(path, values) for path, values in tables.items()}
    asked = unchecked_question(rest.pop("model"), rest.pop("system"), rest)
    if LEVEL in tables:
        asked, tables[LEVEL] = _levels(asked, rest, tables[LEVEL])
    if "gpus" not in asked.given:  # each plan uses its own
        asked = asked._replace(inputs=dataclasses.replace(asked.inputs, gpus=None))
    named = {_last(path) if path == LEVEL else path: values for path, values in tables.items()}
    read = read_axes(asked.inputs, named, asked.recipe, FIT.names, asked.given - tables.keys())
    _check_size(read, asked)
    return _whole(memory_data(asked, read), unique_names(read, units(StageMemory)))


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _first(path: str, values: Any) -> Any:
    if isinstance(values, Between):
        return values.ends[0]
    return values.start if isinstance(values, Spacing) else listed_values(path, values)[0]


def _levels(asked: Question, given: Mapping[str, Any], values: Any) -> tuple[Question, Named]:
    """Return the question with the modules of all levels of recomputation, and these by name."""
    if isinstance(values, Spacing | Between):
        said = "taken one by one, not in steps; expected a list of values"
        raise refusal("axes.recompute", said)
    some = listed_values("recompute", values)
    found = [recomputation({**given, LEVEL: value}) for value in some]
    modules = frozenset().union(*(some for _, some, _ in found))
    recipe = dataclasses.replace(asked.recipe, selective=modules)
    levels = Named(tuple(map(str, some)), {LEVEL: [level for level, _, _ in found]})
    return asked._replace(recipe=recipe), levels


def _check_size(axes: Sequence[Axis], asked: Question) -> None:
    assert asked.inputs.plan is not None
    stages = [axis.columns.get("plan.pipeline", np.ones(1)).max() for axis in axes]
    most = max(float(asked.inputs.plan.pipeline), *stages, 1.0)
    count = int(math.prod(float(len(axis)) for axis in axes) * most)
    if count > MOST:
        expected = f"expected at most {MOST:,}"
        raise refusal("axes", f"{count:,} points times stages, too many for memory; {expected}")


def _whole(data: xr.Dataset, axes: Sequence[Axis]) -> xr.Dataset:
    """Return the memory with every axis in every result."""
    sizes = {axis.name: len(axis) for axis in axes}
    found = {}
    for name in data.drop_vars(["largest_term", "largest"]).data_vars:
        one = data.variables[name]
        own = sizes | {dim: one.sizes[dim] for dim in ("stage",) if dim in one.dims}
        found[name] = xr.Variable([*own], one.set_dims(own).values, one.attrs)
    attrs = {"Conventions": "CF-1.11", "question": "fit_stages", "answer": "stages"}
    attrs["versions"] = json.dumps(versions())
    return xr.Dataset(found, {dim: data.coords[dim] for dim in (*sizes, "stage")}, attrs)
