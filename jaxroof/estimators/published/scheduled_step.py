"""A training step under a pipeline schedule: its stages, all visits, the memory of all devices.

Source: docs/models/transformer_model.md, sections 6 to 9, but stages may differ.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_report import layer_of_plan
from jaxroof.estimators.published.layer_time import LayerTimes, layer_times, weight_gradient
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.step import (
    REPLICAS,
    SyncTimes,
    exposed_sync_times,
    published,
    send_time,
    step,
    sync_times,
)
from jaxroof.formulas.arithmetic import floor, largest, put, stack, where
from jaxroof.records import Number, quantity, record, with_named_absences
from jaxroof.schedules import clock, table
from jaxroof.schedules.clock import Sends, StageSeconds, Visits, layout_of, stage_visits


class LayerCosts(NamedTuple):
    """The costs of one layer and of a send between two stages, for one plan."""

    block: LayerTimes
    weight_gradient: Number  # part of the block's backward [s]
    near: Number  # a send inside a fast domain [s]
    far: Number  # a send between fast domains [s]
    sync: SyncTimes


class Extra(NamedTuple):
    """Extra work of the first and the last stage, in units of one layer."""

    first: Number = 0.0
    last: Number = 0.0


NOTHING = Extra()


def costs_under(inputs: Inputs, recipe: Recipe, routes: float, sends: Sends) -> LayerCosts:
    """Return the costs that all stages share, for the plan of the inputs and a number of routes.

    Assumes: copies of the weights on other routes are further replicas, each in its own domain.
    """
    plan = inputs.plan
    assert plan is not None
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))

    def part(of: Callable[..., Any], **other: Number) -> Any:
        fields = {name: getattr(plan, name) for name in reads(of)}
        return of(bare, recipe, **{**fields, **other})

    block, free = part(layer_times), 0.0 if sends is Sends.FREE else 1.0
    return LayerCosts(
        block=block,
        weight_gradient=weight_gradient(layer_of_plan(inputs, recipe), inputs.system),
        near=free * part(send_time),
        far=free * part(send_time, fast_pipeline=1.0),
        sync=part(sync_times, data=plan.data * routes),
    )


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


def step_of(
    inputs: Inputs,
    recipe: Recipe,
    costs: LayerCosts,
    pipeline: table.Schedule,
    blocking: bool,
    extra: Extra,
) -> tuple[ScheduledStep, Visits]:
    """Return a step under a schedule, and its visits.

    A stage has L r / n layers (n stages on r routes). The first stage of a route has the time and
    weights of more layers, and so has the last one (an embedding, a head and its loss).

    Assumes: this extra work saves no activations; those of a stage are saved at its forward and
    freed at its backward, or at its weight gradient where that is a separate visit; Q23, gradients
    are not sharded; optimizer state is sharded over all ranks with the same weights, including the
    copies on other routes; a send between fast domains takes a slow link (Q2: nothing).
    """
    plan, precision, layer, layout = inputs.plan, inputs.precision, costs.block, layout_of(pipeline)
    assert plan is not None
    each = inputs.model.layers * (pipeline.routes / pipeline.stages)
    layers = each + extra.first * layout.first + extra.last * layout.last
    domain, other = (floor(at / plan.fast_pipeline) for at in (layout.device, layout.taker))
    between = where(domain == other, costs.near, costs.far)
    seconds = StageSeconds(
        forward=layer.forward * layers,
        backward=layer.backward * layers,
        input_gradient=(layer.backward - costs.weight_gradient) * layers,
        weight_gradient=costs.weight_gradient * layers,
        send=where(layout.device == layout.taker, 0.0, between),
    )
    visits = stage_visits(pipeline, seconds, blocking)
    times = visits.times
    held = put(np.zeros(pipeline.devices), pipeline.device, layers, add=True)
    shown = exposed_sync_times(layer, costs.sync, held)  # Q16
    data = shown.gather + shown.scatter
    step_time = largest(times.clock + data)
    idle = step_time - times.busy - data

    kept = layer.kept * each * np.ones(pipeline.stages)
    nothing = 0.0 * kept
    going = (nothing, -kept) if pipeline.split else (-kept, nothing)
    rise, net = (stack([kept, *moves]) for moves in ((nothing, nothing), going))
    classes = (clock.by_class(pipeline, moves) for moves in (rise, net))
    activations = clock.peaks(table.work(pipeline), *classes)
    parameters = layer.parameters * held
    replicas = pipeline.routes * REPLICAS[recipe.split](plan.data, plan.context)
    weights, gradients = parameters * precision.weight, parameters * precision.gradient
    optimizer = parameters * precision.optimizer / replicas
    report = ScheduledStep(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        busy_time=times.busy,
        bubble_time=idle,
        bubble=idle / step_time,
        data_time=data,
        memory=weights + gradients + optimizer + activations,
        memory_weights=weights,
        memory_gradients=gradients,
        memory_optimizer=optimizer,
        memory_activations=activations,
    )
    return report, visits


def scheduled_step(
    inputs: Inputs,
    recipe: Recipe,
    pipeline: table.Schedule,
    sends: Sends = Sends.OVERLAPPED,
    extra: Extra = NOTHING,
) -> tuple[ScheduledStep, Visits]:
    """Return a step under a schedule for the plan of the inputs, and its visits.

    t = max over devices of (clock + t_data)

    Assumes: the plan's stages and microbatches are those of the schedule; messages between stages
    never wait for each other. The times of visits are counted from the end of the gathers.
    """
    costs = costs_under(inputs, recipe, pipeline.routes, sends)
    return step_of(inputs, recipe, costs, pipeline, sends is Sends.BLOCKING, extra)


def closed_form(inputs: Inputs, recipe: Recipe, sends: Sends = Sends.OVERLAPPED) -> Number:
    """Return the step time of the training estimator, without sends where those are free.

    Assumes: as the training step: 1F1B, equal stages, blocking sends of which Q2 drops some.
    """
    asked = with_named_absences(inputs)
    parts = published.evaluate_parts(asked, recipe)
    if sends is Sends.FREE:
        parts["send_time"] = 0.0 * parts["send_time"]
    found: Number = step(asked, recipe, **parts).step_time
    return found
