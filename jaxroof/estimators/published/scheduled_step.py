"""A training step under a pipeline schedule: the times of all visits, the memory of all devices."""

from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.stages import (
    LayerCosts,
    Stages,
    data_time,
    layer_costs,
    stages,
    under_plan,
)
from jaxroof.estimators.published.step import schedule_counts, step
from jaxroof.formulas.arithmetic import largest, put, stack
from jaxroof.records import Number, quantity, record, with_named_absences
from jaxroof.schedules import clock, table
from jaxroof.schedules.clock import (
    Sends,
    StageSeconds,
    layout_of,
    stage_visits,
)


class Extra(NamedTuple):
    """Extra work of the first and the last stage, in units of one layer."""

    first: Number = 0.0
    last: Number = 0.0


@record
class ScheduledStep:
    """One optimizer step under a schedule; values that differ by device are arrays over devices.

    On each device, busy, bubble and data-parallel time sum to the step time. Weights, gradients,
    optimizer state and activations sum to the memory.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity("sequence/s", "Sequences trained on a second.", better="higher")
    busy_time: Number = quantity("s", "Time in visits, and in sends that keep the device.")
    bubble_time: Number = quantity("s", "Time that the device idles.")
    bubble: Number = quantity("1", "Share of the step that the device idles.")
    data_time: Number = quantity("s", "Time in data-parallel communication not hidden.")
    memory: Number = quantity("B", "Memory that the device needs at most.")
    memory_weights: Number = quantity("B", "Memory of weights, all copies of them.")
    memory_gradients: Number = quantity("B", "Memory of weight gradients, all copies of them.")
    memory_optimizer: Number = quantity("B", "Memory of optimizer state.")
    memory_activations: Number = quantity("B", "Most memory of activations kept for backward.")


NOTHING = Extra()


def course_of(pipeline: table.Schedule, held: Stages, blocking: bool) -> clock.VisitTimes:
    """Return when each visit of a schedule runs."""
    seconds = StageSeconds(*(getattr(held, name) for name in StageSeconds._fields))
    return stage_visits(pipeline, seconds, blocking).times


def activations(pipeline: table.Schedule, kept: Any) -> Any:
    """Return the peak bytes of saved activations on each device.

    Assumes: the activations of a stage are all saved at its forward. They are all freed at its
    backward, or at its weight gradient where that is a separate visit.
    """
    nothing = 0.0 * kept
    going = (nothing, -kept) if pipeline.split else (-kept, nothing)
    rise = clock.by_class(pipeline, stack([kept, nothing, nothing]))
    net = clock.by_class(pipeline, stack([kept, *going]))
    return clock.peaks(table.work(pipeline), rise, net)


def step_of(
    inputs: Inputs,
    recipe: Recipe,
    costs: LayerCosts,
    pipeline: table.Schedule,
    blocking: bool,
    extra: Extra,
) -> tuple[ScheduledStep, clock.VisitTimes]:
    """Return a step under a schedule, and the times of its visits."""
    held = stages(inputs, recipe, costs, layout_of(pipeline), *extra)
    times = course_of(pipeline, held, blocking)

    def on_devices(values: Any) -> Any:
        return put(np.zeros(pipeline.devices), pipeline.device, values, add=True)

    data = data_time(costs, on_devices(held.layers))
    step_time = largest(times.clock + data)
    idle = step_time - times.busy - data
    fixed = [on_devices(amount) for amount in (held.weights, held.gradients, held.optimizer)]
    kept = activations(pipeline, held.kept)
    report = ScheduledStep(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        busy_time=times.busy,
        bubble_time=idle,
        bubble=idle / step_time,
        data_time=data,
        memory=fixed[0] + fixed[1] + fixed[2] + kept,
        memory_weights=fixed[0],
        memory_gradients=fixed[1],
        memory_optimizer=fixed[2],
        memory_activations=kept,
    )
    return report, times


def scheduled_step(
    inputs: Inputs,
    recipe: Recipe,
    pipeline: table.Schedule,
    sends: Sends = Sends.OVERLAPPED,
    extra: Extra = NOTHING,
) -> tuple[ScheduledStep, clock.VisitTimes]:
    """Return a step under a schedule for the plan of the inputs, and the times of its visits.

    t = max over devices of (clock + t_data)

    Assumes: the plan's stages and microbatches are those of the schedule; messages between stages
    never wait for each other.
    The times of visits are counted from the end of the gathers.
    Source: docs/models/transformer_model.md, section 9, with clocks instead of its closed form.
    """
    costs = costs_under(inputs, recipe, pipeline.routes, sends)
    return step_of(inputs, recipe, costs, pipeline, sends is Sends.BLOCKING, extra)


def costs_under(inputs: Inputs, recipe: Recipe, routes: float, sends: Sends) -> LayerCosts:
    """Return the costs that all stages share, with sends set to 0 where they are free."""
    costs = layer_costs(inputs, recipe, routes)
    if sends is not Sends.FREE:
        return costs
    return costs._replace(near=0.0 * costs.near, far=0.0 * costs.far)


def closed_form(inputs: Inputs, recipe: Recipe, sends: Sends = Sends.OVERLAPPED) -> Number:
    """Return the step time of the training estimator, without sends where those are free.

    Assumes: as the training step: 1F1B, equal stages, blocking sends of which Q2 drops some.
    Source: docs/models/transformer_model.md, section 9.
    """
    costs = costs_under(inputs, recipe, 1.0, sends)
    counts = under_plan(schedule_counts, inputs, recipe)
    parts = {
        "block": costs.block,
        "sync": costs.sync,
        "send_time": costs.near,
        "schedule_counts": counts,
    }
    found: Number = step(with_named_absences(inputs), recipe, **parts).step_time
    return found
