"""A training step in detail: operations of a layer, memory by stage, a step under schedules.

Source: docs/models/training_step_today.md, sections 4 to 7 and 11.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.pipelines import (
    SCHEDULES,
    Ran,
    Run,
    ScheduledTimes,
    check_chunks,
    check_pipeline,
    check_schedules,
    check_sends,
    microbatches_of,
    side_by_side,
    visits,
)
from jaxroof.estimators.training.inputs import PlannedStep, TrainingInputs, planned
from jaxroof.estimators.training.interval import interval
from jaxroof.estimators.training.layer.operation import ADAPTERS, Passes, Work, on_rank, scaled
from jaxroof.estimators.training.layer.operation import rows as rows_of
from jaxroof.estimators.training.layer.sums import mean_weights, trained_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    OperationTime,
    Sharded,
    layer_work,
    recomputed,
    with_fsdp,
)
from jaxroof.estimators.training.legality import refuse_illegal, verdicts
from jaxroof.estimators.training.plans import DEGREES
from jaxroof.estimators.training.recipe import Schedule, TrainingRecipe, modules_of
from jaxroof.estimators.training.report import StageMemory, TrainingReport
from jaxroof.estimators.training.stage_memory import TERMS, fullest_stage, memory_by_stage, stages
from jaxroof.estimators.training.step import memory_groups, memory_limit
from jaxroof.estimators.training.step_time import (
    StepTime,
    late,
    plan_time,
    send_time,
    stage_layers,
    timed,
)
from jaxroof.formulas.arithmetic import largest, where
from jaxroof.records import Number, quantity, record, with_named_absences
from jaxroof.schedules import clock, table
from jaxroof.schedules.clock import Layout, Sends, StageSeconds, Visits, layout_of, stage_visits
from jaxroof.structure import results

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
    weights = mean_weights(work.model, work.plan)
    sharded = with_fsdp(work, time, weights, trained_weights(work.model, work.plan, weights))
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
        return Operation(KERNEL, one.time, scaled(one.share, operation.flops(work)))
    if operation.matrix is None:
        return Operation(KERNEL, one.time)
    columns, inner = on_rank(operation.matrix, work.plan)
    rows = rows_of(operation.matrix, tokens)
    if operation.time == "experts":  # as many as if no rank shared an expert
        rows = tokens.rank * operation.matrix.met
        columns, inner = operation.matrix.outputs, operation.matrix.inputs
    forward = one.share * 2.0 * rows * columns * inner
    trained = 1.0 if operation.part == ADAPTERS else work.model.trained
    return Operation("matrix product", one.time, Passes(forward, (1.0 + trained) * forward))


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


# ---- A step under a schedule --------------------------------------------------------------------

MEMORY = {  # schedules whose memory is modelled, and what it is called there
    "gpipe": Schedule.GPIPE,
    "1f1b": Schedule.ONE_F_ONE_B,
    "interleaved": Schedule.ONE_F_ONE_B,
    "zb-h1": Schedule.ZB_H1,
    "dualpipe": Schedule.DUALPIPE,
}
THIRD = 1.0 / 3.0  # of embedding and head: forward, gradient of the inputs, of the weights


@record
class ScheduledTraining(ScheduledTimes):
    """Times of one optimizer step under a schedule; those that differ by device are arrays.

    On each device, busy, bubble, data-parallel and update time sum to the step time.
    """

    update_time: Number = quantity("s", "Time of the update of parameters and what else is once.")


class SimulatedStep(NamedTuple):
    """A step under a schedule: its times, the memory of each device by group, its visits."""

    report: ScheduledTraining
    bounds: dict[str, Number]  # of the step time, and whose errors they have
    memory: dict[str, Number]
    visits: Visits


def on_schedule(
    inputs: TrainingInputs, recipe: TrainingRecipe, name: str, chunks: int
) -> tuple[TrainingInputs, TrainingRecipe]:
    """Return the inputs and the recipe with a schedule's chunks and memory."""
    assert inputs.plan is not None
    plan = dataclasses.replace(inputs.plan, interleave=np.float64(chunks))
    chosen = dataclasses.replace(recipe, schedule=MEMORY[name])
    return dataclasses.replace(inputs, plan=plan), chosen


def scheduled_step(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    pipeline: table.Schedule,
    sends: Sends | None = None,
) -> SimulatedStep:
    """Return a step under a schedule, for inputs and a recipe that are on it.

    t as ``training`` has it; idle is the rest of it on each device

    Assumes: visits take their share of the step time: those of the stages, all as much longer or
    shorter as makes the last device end when the closed form of the step does; messages between
    stages never wait for each other. ``sends`` other than the software's move the step from there.
    """
    work, time = timed(inputs, recipe), plan_time(inputs, recipe)
    each = stage_seconds(work, time, layout_of(pipeline))
    own = own_sends(inputs, pipeline)
    visits = stage_visits(pipeline, each, own is Sends.BLOCKING)
    closed = time.stages
    pace = (closed.steady + closed.bubble + closed.sends) / largest(visits.times.clock)
    if sends is not None and sends is not own:
        free = each._replace(send=where(sends is Sends.FREE, 0.0, each.send))
        visits = stage_visits(pipeline, free, sends is Sends.BLOCKING)
    costs, times = visits
    visits = Visits(
        clock.Costs(*(pace * one for one in costs)),
        clock.VisitTimes(*(pace * one for one in times)),
    )
    update = time.update + time.offload
    step_time = largest(visits.times.clock) + time.data_comm + update
    idle = step_time - visits.times.busy - time.data_comm - update
    every: Any = np.ones(pipeline.devices)
    report = ScheduledTraining(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        busy_time=visits.times.busy,
        bubble_time=idle,
        bubble=idle / step_time,
        data_time=time.data_comm * every,
        update_time=update * every,
    )
    names = ("step_time_low", "step_time_high", "regime")
    bounds = dict(zip(names, interval(inputs, step_time), strict=True))
    return SimulatedStep(report, bounds, device_memory(inputs, recipe, pipeline.devices), visits)


def device_memory(
    inputs: TrainingInputs, recipe: TrainingRecipe, devices: int
) -> dict[str, Number]:
    """Return the memory of every device of a pipeline, in all and in groups."""
    asked = planned(inputs, recipe)
    stage: Any = np.arange(float(devices))
    memory = stages(asked, recipe).memory(stage)
    every = {"memory": memory.device, **memory_groups(memory)}
    return {name: value + 0.0 * stage for name, value in every.items()}


def own_sends(inputs: TrainingInputs, pipeline: table.Schedule) -> Sends:
    """Return how the software sends: hidden where devices have several stages, if it overlaps them.

    Else the sender keeps a message until it is sent, as in the closed form.
    """
    hidden = pipeline.chunks > 1 and float(inputs.software.pipeline_overlap) > 0.0
    return Sends.OVERLAPPED if hidden else Sends.BLOCKING


def stage_seconds(work: Work, time: StepTime, layout: Layout) -> StageSeconds:
    """Return the seconds of every stage for one microbatch.

    forward = (l F + e (embedding + head) / 3) late(n / p), with l layers and e = 1 at the ends

    The first and the last chunk have fewer layers, or all chunks of their devices where those would
    be fewer than none.
    Assumes: a third of embedding and head is forward, a third the gradient of their inputs; the
    weight gradients of a layer are its products', all else in its backward pass is waited for;
    models with latent attention run balanced layouts.
    """
    plan, layer, latent = work.plan, time.sharded, work.model.latent > 0.0
    every, inner, outer = stage_layers(work.model, plan)
    devices = len(layout.device)
    ends, count = layout.first + layout.last, devices / layout.routes
    chunk, lacks = inner / plan.interleave, inner - outer
    at_end = np.isin(layout.device, np.asarray(layout.device)[np.asarray(ends) > 0.0])
    even = where(at_end, outer / plan.interleave, chunk)  # a chunk that lacks more than it has
    layers: Any = where(lacks > chunk, even, chunk - lacks * ends)
    layers = where(latent, every / count, layers) * np.ones(devices)
    embedding, head = time.edges
    edge = layout.first * embedding + layout.last * head
    edge = where(latent, (embedding + head) / count, edge)
    slow = late(plan.tensor * plan.context * plan.data, work.rates.spread)
    backward = layers * layer.backward + 2.0 * THIRD * edge
    weight = layers * layer.weights + THIRD * edge
    return StageSeconds(
        forward=slow * (layers * layer.forward + THIRD * edge),
        backward=slow * backward,
        input_gradient=slow * (backward - weight),
        weight_gradient=slow * weight,
        send=send_time(work) * np.ones(devices),
    )


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
        devices = int(step.plan.pipeline)
        made = pipelines.build(name, devices, microbatches_of(here), several)
        report, bounds, memory, (costs, times) = scheduled_step(
            with_named_absences(here), chosen, made, way
        )
        _, inner, outer = stage_layers(step.model, step.plan)
        return Ran(
            made,
            {**results(report), **bounds, **memory},
            int(np.ceil(max(inner, outer) / several)),
            times,
            leave=np.asarray(costs.leave)[table.work(made), np.arange(devices)],
            synchronisation=report.data_time,
            update=report.update_time,
        )

    return run, chunks, way


DETAILS = {
    "memory": Detail(memory_rows, (StageMemory,)),
    "layers": Detail(layer_rows, (OperationReport,)),
    "schedule": Detail(schedule_rows, (TrainingReport, ScheduledTraining), one_by_one=True),
    "events": Detail(event_list, one_by_one=True),
}
