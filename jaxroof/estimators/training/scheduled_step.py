"""A training step of today under a pipeline schedule: every visit, and the memory of each device.

Source: docs/models/training_step_today.md, sections 5 to 7, with clocks instead of its closed form.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Rows
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
from jaxroof.estimators.training.interval import interval
from jaxroof.estimators.training.layer.operation import Work
from jaxroof.estimators.training.legality import refuse_illegal
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.recipe import Schedule, TrainingRecipe
from jaxroof.estimators.training.stage_memory import stages
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
from jaxroof.schedules.clock import (
    Layout,
    Sends,
    StageSeconds,
    Visits,
    layout_of,
    stage_visits,
)
from jaxroof.structure import results

MEMORY = {  # schedules whose memory is modelled, and what it is called there
    "gpipe": Schedule.GPIPE,
    "1f1b": Schedule.ONE_F_ONE_B,
    "interleaved": Schedule.ONE_F_ONE_B,
    "zb-h1": Schedule.ZB_H1,
    "dualpipe": Schedule.DUALPIPE,
}
THIRD = 1.0 / 3.0  # of embedding and head: forward, gradient of the inputs, of the weights


@record
class ScheduledTraining:
    """Times of one optimizer step under a schedule; those that differ by device are arrays.

    On each device, busy, bubble, data-parallel and update time sum to the step time.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity("sequence/s", "Sequences trained on a second.", better="higher")
    busy_time: Number = quantity("s", "Time in visits, and in sends that keep the device.")
    bubble_time: Number = quantity("s", "Time that the device idles.")
    bubble: Number = quantity("1", "Share of the step that the device idles.")
    data_time: Number = quantity("s", "Time in data-parallel communication not hidden.")
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

    Assumes: a third of embedding and head is forward, a third the gradient of their inputs; the
    weight gradients of a layer are its products', all else in its backward pass is waited for;
    models with latent attention run balanced layouts.
    """
    plan, layer, latent = work.plan, time.sharded, work.model.latent > 0.0
    every, inner, outer = stage_layers(work.model, plan)
    devices = len(layout.device)
    ends, count = layout.first + layout.last, devices / layout.routes
    layers = inner / plan.interleave - (inner - outer) * ends
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
