"""A training step in detail: the operations of a layer, the stages under pipeline schedules."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.pipelines import (
    SCHEDULES,
    Ran,
    Run,
    check_chunks,
    check_pipeline,
    check_schedules,
    check_sends,
    microbatches_of,
    side_by_side,
    visits,
)
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer_operations import (
    Operation,
    OperationReport,
    layer_operations,
)
from jaxroof.estimators.training.legality import refuse_illegal, verdicts
from jaxroof.estimators.training.memory_step import all_of, memory_limit
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.report import StageMemory, TrainingReport
from jaxroof.estimators.training.scheduled_step import (
    MEMORY,
    ScheduledTraining,
    on_schedule,
    scheduled_step,
)
from jaxroof.estimators.training.stage_memory import TERMS, fullest_stage, memory_by_stage
from jaxroof.estimators.training.stage_time import stage_layers
from jaxroof.records import with_named_absences
from jaxroof.schedules.clock import Sends
from jaxroof.schedules.table import work
from jaxroof.structure import results

# ---- The operations of a layer ------------------------------------------------------------------

LEAST = 1e-12  # share of the layer's time below which an operation takes none


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


# ---- A step under schedules ---------------------------------------------------------------------

CHUNKS = 2  # stages of a device when interleaved, unless plan or question says otherwise


def schedule_rows(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    *,
    schedules: Sequence[str] | str = SCHEDULES,
    chunks: int | None = None,
    sends: Sends | str | None = None,
) -> Rows:
    """Return time and memory under each of several schedules, of every device."""
    run, chunks, way = _run(inputs, recipe, chunks, sends)
    columns = side_by_side(check_schedules(schedules), run, inputs, float(memory_limit(inputs)))
    said = "as the software" if way is None else way.value
    return Rows(columns, {"chunks": chunks, "sends": said, "picture": "schedules"})


def event_list(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    *,
    schedule: str = "1f1b",
    chunks: int | None = None,
    sends: Sends | str | None = None,
) -> Rows:
    """Return every visit of every stage under a schedule."""
    (name,) = check_schedules(schedule, "schedule")
    return visits(inputs, name, _run(inputs, recipe, chunks, sends)[0])


def _run(
    inputs: TrainingInputs, recipe: TrainingRecipe, chunks: int | None, sends: Sends | str | None
) -> tuple[Run, int, Sends | None]:
    """Return what runs a schedule, with its stages of a device and its kind of sends.

    Without ``chunks`` a device has as many stages as the plan says, if several; without ``sends``
    the software's way is taken.
    """
    check_pipeline(inputs)
    assert inputs.plan is not None
    own, way = int(inputs.plan.interleave), None if sends is None else check_sends(sends)
    if chunks is None:
        chunks = own if own > 1 else CHUNKS
    elif own not in (1, check_chunks(chunks)):
        what = f"given {chunks} beside the plan's interleave={own}; expected one of them"
        raise refusal("chunks", what)

    def run(name: str) -> Ran:
        if name not in MEMORY:
            raise refusal(name, f"its memory is not modelled; expected {', '.join(MEMORY)}")
        several = chunks if name in pipelines.CHUNKED else 1
        here, chosen = on_schedule(inputs, recipe, name, several)
        step = planned(here, chosen)
        try:
            refuse_illegal(step, chosen)
        except InputError as error:
            raise refusal(name, str(error)) from None
        stages = int(step.plan.pipeline)
        table = pipelines.build(name, stages, microbatches_of(here), several)
        report, bounds, memory, (costs, times) = scheduled_step(
            with_named_absences(here), chosen, table, way
        )
        _, inner, outer = stage_layers(step.model, step.plan)
        return Ran(
            table,
            {**results(report), **bounds, **memory},
            int(np.ceil(max(inner, outer) / several)),
            times,
            leave=np.asarray(costs.leave)[work(table), np.arange(stages)],
            synchronisation=report.data_time,
            update=report.update_time,
        )

    return run, chunks, way


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
    allowed = np.asarray(all_of(verdicts(step, recipe)))
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
