"""A training step in detail: the operations of a layer, the memory of the stages of a pipeline.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer.operation import Passes, Work, on_rank
from jaxroof.estimators.training.layer.sums import mean_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    OperationTime,
    Sharded,
    layer_work,
    recomputed,
    with_fsdp,
)
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe, modules_of
from jaxroof.estimators.training.report import StageMemory, TrainingReport
from jaxroof.estimators.training.scheduled_step import (
    ScheduledTraining,
    event_list,
    schedule_rows,
)
from jaxroof.estimators.training.stage_memory import TERMS, fullest_stage, memory_by_stage
from jaxroof.estimators.training.step import memory_limit
from jaxroof.estimators.training.step_time import timed
from jaxroof.records import Number, quantity, record, with_named_absences

# ---- The operations of a layer ------------------------------------------------------------------

LEAST = 1e-12  # share of the layer's time below which an operation takes none


class Operation(NamedTuple):
    """Seconds and FLOP of one operation, of one layer and microbatch on one accelerator."""

    kind: str
    time: Passes
    flops: Passes = Passes(0.0, 0.0)


Operations = dict[str, Operation]
KERNEL, MESSAGE = "kernel", "message"


@record
class OperationReport:
    """One operation of an average layer, for one microbatch on one accelerator."""

    time_forward: Number = quantity("s", "Time of the forward pass.")
    time_backward: Number = quantity("s", "Time of the backward pass.")
    flops_forward: Number = quantity("FLOP", "Operations of the forward pass.")
    flops_backward: Number = quantity("FLOP", "Operations of the backward pass.")
    share: Number = quantity("1", "Share of the layer's time, both passes.")
    peak_share: Number = quantity(
        "1", "Rate over the 16-bit peak, both passes; missing where nothing is multiplied."
    )


def layer_operations(inputs: TrainingInputs, recipe: TrainingRecipe) -> Operations:
    """Return every operation of an average layer; their times sum to the layer's.

    Assumes: a layer is the mean of dense and routing ones, so that what one of the kinds has counts
    with its share of the layers; the launch limit is what waiting for the host adds, messages are
    what nothing hides of them.
    """
    work = timed(inputs, recipe)
    done = layer_work(work, modules_of(recipe))
    software, parts, time = work.software, done.parts, done.time
    named = {n: o for n, o in done.operations.items() if o.operation.time != "elementwise"}
    found = {name: _alone(one, work) for name, one in named.items()}
    again = sum(one.flops.forward for one in found.values())
    if "MLP down" in found:
        again = again - software.early_stop * found["MLP down"].flops.forward
    some = sum(found[name].flops.forward for name in done.repeated if name in found)
    whole, modules_again = recomputed(work)
    again = whole * again + modules_again * some
    sharded = with_fsdp(work, time, mean_weights(work.model, work.plan))
    return found | {
        "element-wise kernels": Operation(KERNEL, parts["elementwise"]),
        "casts": Operation(KERNEL, parts["cast"]),
        "tensor messages": Operation(MESSAGE, parts["tensor_comm"]),
        "context messages": Operation(MESSAGE, parts["context_comm"]),
        "expert messages": Operation(MESSAGE, parts["expert_comm"]),
        "recomputation": Operation(
            "computed again", Passes(0.0, time.recompute), Passes(0.0, again)
        ),
        "launch limit": Operation("wait", _less(time, done.busy)),
        "FSDP messages": Operation(MESSAGE, _less(sharded, time)),
    }


def _alone(one: OperationTime, work: Work) -> Operation:
    """Return one operation; gradients of a product take twice the FLOP of its forward pass."""
    operation, tokens = one.operation, work.tokens
    if operation.flops is not None:
        return Operation(KERNEL, one.time, operation.flops(work))
    if operation.matrix is None:
        return Operation(KERNEL, one.time)
    columns, inner = on_rank(operation.matrix, work.plan)
    rows = tokens.group
    if operation.time == "experts":  # as many as if no rank shared an expert
        rows = tokens.rank * operation.matrix.met
        columns, inner = operation.matrix.outputs, operation.matrix.inputs
    forward = one.share * 2.0 * rows * columns * inner
    return Operation("matrix product", one.time, Passes(forward, 2.0 * forward))


def _less(whole: LayerTime | Sharded | Passes, part: LayerTime | Passes) -> Passes:
    return Passes(whole.forward - part.forward, whole.backward - part.backward)


def layer_rows(inputs: TrainingInputs, recipe: TrainingRecipe) -> Rows:
    """Return the operations of an average layer that take time, one microbatch."""
    inputs = with_named_absences(inputs)
    found = layer_operations(inputs, recipe)
    least = LEAST * sum(map(_seconds, found.values()))
    names = [name for name, one in found.items() if np.any(_seconds(one) > least)]
    rows = [found[name] for name in names]
    every = {
        "time_forward": _column([row.time.forward for row in rows]),
        "time_backward": _column([row.time.backward for row in rows]),
        "flops_forward": _column([row.flops.forward for row in rows]),
        "flops_backward": _column([row.flops.backward for row in rows]),
    }
    time = every["time_forward"] + every["time_backward"]
    flops = every["flops_forward"] + every["flops_backward"]
    peak = np.asarray(inputs.system.matrix_flops, float)[..., None]
    every["share"] = time / time.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        every["peak_share"] = np.where(flops > 0.0, flops / (time * peak), np.nan)
    columns = {name: Column(values, ("operation",)) for name, values in every.items()}
    labels = {"Operation of a layer": names, "What an operation is": [row.kind for row in rows]}
    for name, (doc, some) in zip(("operation", "kind"), labels.items(), strict=True):
        columns[name] = Column(some, ("operation",), {"long_name": doc}, label=True)
    return Rows(columns, {"picture": "layer_bars"})


def _seconds(operation: Operation) -> Any:
    return operation.time.forward + operation.time.backward


def _column(values: list[Any]) -> np.ndarray:
    return np.stack(np.broadcast_arrays(*values), axis=-1)


# ---- Memory by stage ----------------------------------------------------------------------------


ALLOCATED = {"peak_allocated": "allocated"}  # the name of a result, where its field's is longer


def memory_rows(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    *,
    of: Callable[[PlannedStep, TrainingRecipe], StageMemory] = memory_by_stage,
) -> Rows:
    """Return the memory of every stage, term by term, and what holds for the fullest.

    Memory is missing where a plan is not legal, and 0 beyond its last stage. Without ``gpus`` there
    are as many as a plan uses. ``of`` are the terms of other software.
    """
    step = planned(inputs, recipe)
    if step.gpus is None:
        used = math.prod(getattr(step.plan, name) for name in DEGREES)
        step = dataclasses.replace(step, gpus=used)
    memory, limit = of(step, recipe), memory_limit(inputs)
    allowed = np.asarray(verdicts(step, recipe)["feasible"])
    full, there = fullest_stage(memory, limit), allowed[..., None]
    shape = np.shape(memory.device)
    columns = {}
    for field in dataclasses.fields(StageMemory):
        values = np.where(there, np.broadcast_to(getattr(memory, field.name), shape), np.nan)
        about = (
            _renamed(field) if "peak_allocated" in (field.name, field.metadata["part_of"]) else None
        )
        columns[ALLOCATED.get(field.name, field.name)] = Column(values, ("stage",), about)
    moment = [name for name in columns if name.startswith("transient_")]
    some = np.stack([np.broadcast_to(getattr(memory, name), shape) for name in moment], axis=-1)
    at = np.asarray(full.stage)[..., None, None]
    largest = np.take_along_axis(some, at, axis=-2)[..., 0, :].argmax(axis=-1)
    term = np.array(TERMS)[full.largest_term]
    whole: dict[str, tuple[Any, str, str]] = {
        "capacity": (limit, "B", "Memory that a step may fill"),
        "fits": (allowed & full.fits, "", "Whether the fullest stage fits"),
        "missing": (
            np.where(allowed, full.missing, np.nan),
            "B",
            "Bytes that the fullest stage needs beyond the capacity",
        ),
        "fullest_stage": (np.where(allowed, full.stage, -1), "", "Stage that needs most"),
        "largest_term": (
            np.where(term == "transient", np.array(moment)[largest], term),
            "",
            "Largest term of the fullest stage",
        ),
        "largest": (full.largest, "B", "Bytes of the largest term"),
        "needed": (np.where(allowed, full.device, np.nan), "B", "Peak of the fullest stage"),
        "legal": (allowed, "", "Whether the plan keeps every rule"),
    }
    for name, (values, unit, text) in whole.items():
        columns[name] = Column(values, (), {**({"units": unit} if unit else {}), "long_name": text})
    stages = np.arange(shape[-1])
    columns["stage"] = Column(stages, ("stage",), {"long_name": "Pipeline stage"}, label=True)
    return Rows(columns)


def _renamed(field: "dataclasses.Field[Any]") -> dict[str, str]:
    """Return the attributes of a result that has another name, or is part of one."""
    part = ALLOCATED.get(field.metadata["part_of"])
    about = {"units": field.metadata["unit"], "long_name": field.metadata["doc"].rstrip(".")}
    return about | ({"part_of": part} if part else {})


DETAILS = {
    "memory": Detail(memory_rows, (StageMemory,)),
    "layers": Detail(layer_rows, (OperationReport,)),
    "schedule": Detail(schedule_rows, (TrainingReport, ScheduledTraining), one_by_one=True),
    "events": Detail(event_list, one_by_one=True),
}
