"""The memory of every stage over axes: plans, numbers, choices, models and systems."""

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fit import NAMES
from jaxroof.analyses.fit_candidates import legal
from jaxroof.analyses.fit_question import Question, path_of, unchecked_question
from jaxroof.engine.grid.dataset import attributes, versions
from jaxroof.engine.grid.spacing import Between, Spacing, listed_values, number_column
from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.records import leaves, replace_at

LONE = ("global_batch", "gpus", "microbatch_group", "early_forward")
PLAN_OWN = ("plan.", "states.", "activations.", "buffers.", "model.sequence", *LONE)
RESULTS = {
    *("stage", "fullest_stage", "needed", "capacity", "missing", "legal", "fits"),
    *(NAMES.get(field.name, field.name) for field in dataclasses.fields(StageMemory)),
}
MOST = 2**22  # points times stages of an answer


class _Axis(NamedTuple):
    """One dimension: its name, the path or choice that it sets, and its values."""

    name: str
    path: str
    values: Sequence[Any]
    number: bool  # whether it is broadcast; else its values are taken one by one


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
    base = {"model": model, "system": system, "global_batch": global_batch}
    given = {**base, **(settings or {}), **{k: v for k, v in more.items() if v is not None}}
    read = _axes(axes, _question(given, plan or {}, _firsts(axes)).inputs)
    looped = [axis for axis in read if not axis.number]
    shape = tuple(len(axis.values) for axis in read)
    found: list[tuple[tuple[Any, ...], Question, np.ndarray, StageMemory]] = []
    for place in itertools.product(*(range(len(axis.values)) for axis in looped)):
        chosen = {axis.path: axis.values[i] for axis, i in zip(looped, place, strict=True)}
        asked = _question(given, plan or {}, {**_numbers(read), **chosen})
        inputs = _spread(asked, read)
        where = dict(zip((axis.name for axis in looped), place, strict=True))
        index = tuple(where.get(axis.name, slice(None)) for axis in read)
        _check_size(shape, inputs)
        allowed = legal(inputs, asked.recipe)
        memory = memory_by_stage(planned(inputs, asked.recipe), asked.recipe)
        found.append((index, asked, allowed, memory))
    return _dataset(read, shape, found)


def _firsts(axes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first value of every axis."""
    firsts = {}
    for key, values in axes.items():
        if isinstance(values, Spacing | Between) and not path_of(key).startswith(PLAN_OWN):
            said = "taken one by one, not in steps; expected a list of values"
            raise refusal(f"axes.{key}", said)
        if isinstance(values, Spacing):
            firsts[path_of(key)] = values.start
        elif isinstance(values, Between):
            firsts[path_of(key)] = values.ends[0]
        else:
            firsts[path_of(key)] = listed_values(key, values)[0]
    return firsts


def _numbers(axes: Sequence[_Axis]) -> dict[str, Any]:
    return {axis.path: float(axis.values[0]) for axis in axes if axis.number}


def _question(given: Mapping[str, Any], plan: Mapping[str, Any], at: Mapping[str, Any]) -> Question:
    """Return the question at some values of the axes, its plan not held to the rules."""
    degrees = {path.removeprefix("plan."): at[path] for path in at if path.startswith("plan.")}
    rest = {**given, **{path: at[path] for path in at if not path.startswith("plan.")}}
    model, system = rest.pop("model"), rest.pop("system")
    kept = {name: value for name, value in plan.items() if path_of(name) not in at}
    for name in [*plan, *given]:
        if path_of(name) in at and name not in ("model", "system", "global_batch"):
            raise refusal(f"axes.{name}", "given beside the axes too; expected it once")
    return unchecked_question(model=model, plan={**kept, **degrees}, system=system, settings=rest)


def _axes(axes: Mapping[str, Any], inputs: TrainingInputs) -> list[_Axis]:
    """Return the checked axes, numbers as columns."""
    known = {path for path, _, _ in leaves(inputs)}
    read: list[_Axis] = []
    for key, values in axes.items():
        path = path_of(key)
        name = path.rpartition(".")[2]
        name = path.replace(".", "_") if name in RESULTS else name
        number = path.startswith(PLAN_OWN) and path in known
        if isinstance(values, Mapping):
            raise refusal(f"axes.{key}", "fields that move together; expected one field an axis")
        column: Any = number_column(inputs, path, values, {}) if number else None
        column = listed_values(key, values) if column is None else column
        if name in (axis.name for axis in read):
            raise refusal(f"axes.{key}", f"given twice, as {name} too; expected it once")
        read.append(_Axis(name, path, list(column), number))
    return read


def _spread(asked: Question, axes: Sequence[_Axis]) -> TrainingInputs:
    """Return inputs whose numeric axes are broadcast, with accelerators."""
    inputs = asked.inputs
    broadcast = [axis for axis in axes if axis.number]
    for place, axis in enumerate(broadcast):
        shape = [1] * len(broadcast)
        shape[place] = len(axis.values)
        inputs = replace_at(inputs, axis.path, np.array(axis.values, dtype=float).reshape(shape))
    plan: Any = inputs.plan
    used = plan.data * plan.tensor * plan.context * plan.pipeline
    gpus = inputs.gpus if "gpus" in asked.given else used
    stages = np.broadcast_to(plan.pipeline, np.broadcast_shapes(*map(np.shape, _plan(inputs))))
    plan = dataclasses.replace(plan, pipeline=stages)
    return dataclasses.replace(inputs, plan=plan, gpus=gpus)


def _plan(inputs: TrainingInputs) -> list[Any]:
    return [value for _, _, value in leaves(inputs) if value is not None]


def _check_size(shape: tuple[int, ...], inputs: TrainingInputs) -> None:
    count = int(np.prod([float(n) for n in shape])) * int(
        np.max(inputs.plan.pipeline if inputs.plan else 1)
    )
    if count > MOST:
        expected = f"expected at most {MOST:,}"
        raise refusal("axes", f"{count:,} points times stages, too many for memory; {expected}")


# ---- The Dataset --------------------------------------------------------------------------------


def _dataset(axes: Sequence[_Axis], shape: tuple[int, ...], found: Sequence[Any]) -> xr.Dataset:
    dims = [axis.name for axis in axes]
    stages = max(np.shape(memory.device)[-1] for _, _, _, memory in found)
    terms = {field.name: np.zeros((*shape, stages)) for field in dataclasses.fields(StageMemory)}
    allowed, capacity = np.zeros(shape, dtype=bool), np.zeros(shape)
    for index, asked, ok, memory in found:
        allowed[index], capacity[index] = ok, asked.capacity
        count = np.shape(memory.device)[-1]
        for name, whole in terms.items():
            whole[index][..., :count] = getattr(memory, name)
    for whole in terms.values():
        whole[~allowed] = np.nan
    fields = {field.name: field for field in dataclasses.fields(StageMemory)}
    about = {name: attributes(field.metadata) for name, field in fields.items()}
    variables: dict[str, Any] = {
        NAMES.get(name, name): ((*dims, "stage"), values, about[name])
        for name, values in terms.items()
    }
    need = np.where(allowed, np.nanmax(np.where(allowed[..., None], terms["device"], 0.0), -1), 0)
    full = np.argmax(np.where(allowed[..., None], terms["device"], 0.0), axis=-1)
    variables |= {
        "fullest_stage": (dims, np.where(allowed, full, -1), _about("", "Stage that needs most")),
        "needed": (dims, np.where(allowed, need, np.nan), _about("B", "Peak of the fullest stage")),
        "capacity": (dims, capacity, _about("B", "Memory that a step may fill")),
        "missing": (
            dims,
            np.where(allowed, np.maximum(need - capacity, 0.0), np.nan),
            _about("B", "Bytes that the fullest stage needs beyond the capacity"),
        ),
        "legal": (dims, allowed, _about("", "Whether the plan keeps every rule")),
        "fits": (dims, allowed & (need <= capacity), _about("", "Whether the fullest stage fits")),
    }
    coordinates = {axis.name: (axis.name, _coordinate(axis), {"path": axis.path}) for axis in axes}
    stage = {"stage": ("stage", np.arange(stages), {"long_name": "Pipeline stage"})}
    attrs = {"Conventions": "CF-1.11", "question": "fit_stages", "answer": "stages"}
    attrs["versions"] = json.dumps(versions())
    return xr.Dataset(variables, {**coordinates, **stage}, attrs)


def _about(unit: str, text: str) -> dict[str, str]:
    return {"long_name": text} | ({"units": unit} if unit else {})


def _coordinate(axis: _Axis) -> np.ndarray:
    if not axis.number:
        return np.array([str(value) for value in axis.values])
    values = np.array(axis.values)
    return values.astype(np.int64) if (values == np.round(values)).all() else values
