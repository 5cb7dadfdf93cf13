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
    schedule_counts,
    send_time,
    step,
    sync_times,
)
from jaxroof.formulas.arithmetic import floor, largest, put, stack, where
from jaxroof.records import Number, quantity, record, with_named_absences
from jaxroof.schedules import clock, table
from jaxroof.schedules.clock import Layout, Sends, StageSeconds, layout_of, stage_visits


class LayerCosts(NamedTuple):
    """The costs of one layer and of a send between two stages, for one plan."""

    block: LayerTimes
    weight_gradient: Number  # part of the block's backward [s]
    near: Number  # a send inside a fast domain [s]
    far: Number  # a send between fast domains [s]
    sync: SyncTimes


class Stages(NamedTuple):
    """Time and memory of the stages of a pipeline: arrays [stages]."""

    layers: Any  # including the extra work of the first and the last, in layers
    forward: Any  # seconds of one microbatch
    backward: Any  # both gradients
    input_gradient: Any  # the part of backward that the previous stage waits for
    weight_gradient: Any  # the rest of backward
    send: Any  # seconds to send one microbatch to the next stage
    kept: Any  # bytes of saved activations of one microbatch
    weights: Any  # [B]
    gradients: Any
    optimizer: Any


def under_plan(part: Callable[..., Any], inputs: Inputs, recipe: Recipe, **other: Number) -> Any:
    """Return a part of the training step for the plan of the inputs, with some fields replaced."""
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    fields = {name: getattr(inputs.plan, name) for name in reads(part)}
    return part(bare, recipe, **{**fields, **other})


def layer_costs(inputs: Inputs, recipe: Recipe, routes: Number) -> LayerCosts:
    """Return the costs that all stages share, for the plan of the inputs and a number of routes.

    Assumes: copies of the weights on other routes are further replicas, each in its own domain.
    """
    plan = inputs.plan
    assert plan is not None
    return LayerCosts(
        block=under_plan(layer_times, inputs, recipe),
        weight_gradient=weight_gradient(layer_of_plan(inputs, recipe), inputs.system),
        near=under_plan(send_time, inputs, recipe),
        far=under_plan(send_time, inputs, recipe, fast_pipeline=1.0),
        sync=under_plan(sync_times, inputs, recipe, data=plan.data * routes),
    )


def stages(
    inputs: Inputs, recipe: Recipe, costs: LayerCosts, layout: Layout, first: Number, last: Number
) -> Stages:
    """Return time and memory of each stage for one microbatch, for the plan of the inputs.

    A stage has L r / n layers (n stages on r routes). The first stage of a route has the time and
    weights of ``first`` more layers, the last one of ``last`` (an embedding, a head and its loss).

    Assumes: this extra work saves no activations; Q23, gradients are not sharded; optimizer state
    is sharded over all ranks with the same weights, including the copies on other routes.
    """
    plan, precision, layer = inputs.plan, inputs.precision, costs.block
    assert plan is not None
    count = layout.device.shape[0]
    each = inputs.model.layers * (layout.routes / count)
    layers = each + first * layout.first + last * layout.last
    parameters = layer.parameters * layers
    replicas = layout.routes * REPLICAS[recipe.split](plan.data, plan.context)
    return Stages(
        layers=layers,
        forward=layer.forward * layers,
        backward=layer.backward * layers,
        input_gradient=(layer.backward - costs.weight_gradient) * layers,
        weight_gradient=costs.weight_gradient * layers,
        send=send_times(costs, layout, plan.fast_pipeline),
        kept=layer.kept * each * np.ones(count),
        weights=parameters * precision.weight,
        gradients=parameters * precision.gradient,
        optimizer=parameters * precision.optimizer / replicas,
    )


def send_times(costs: LayerCosts, layout: Layout, fast_pipeline: Number) -> Any:
    """Return the time to send a microbatch to the next stage, 0 if that is on the same device.

    Assumes: the devices of a pipeline fill one fast domain after another, ``fast_pipeline`` in
    each; a send between domains takes a slow link (corrects Q2, where it costs nothing).
    """
    domain, other = (floor(at / fast_pipeline) for at in (layout.device, layout.taker))
    between = where(domain == other, costs.near, costs.far)
    return where(layout.device == layout.taker, 0.0, between)


# ---- The step ------------------------------------------------------------------------------------


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

    shown = exposed_sync_times(costs.block, costs.sync, on_devices(held.layers))  # Q16
    data = shown.gather + shown.scatter
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
