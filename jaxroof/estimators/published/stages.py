"""Stages of a pipeline: what each takes and holds, from the sums over one layer.

Source: docs/models/transformer_model.md, sections 6 to 9, stage by stage rather than for equal
stages.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.estimator import reads
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_time import LayerTimes, layer_times, timings
from jaxroof.estimators.published.operations import operations
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.estimators.published.step import (
    REPLICAS,
    SyncTimes,
    exposed_sync_times,
    send_time,
    sync_times,
)
from jaxroof.records import Number, with_named_absences


class Layout(NamedTuple):
    """Which devices of a pipeline hold the stages, over all routes: arrays [stages].

    A route leads through all layers once; where there are several, each has its own copy of them.
    """

    device: Any
    taker: Any  # the device that takes a stage's output; its own at the end of a route
    first: Any  # 1 where a route starts, else 0
    last: Any  # 1 where a route ends, else 0
    routes: float


class LayerCosts(NamedTuple):
    """What one layer takes and what lies between two stages, under one plan."""

    block: LayerTimes
    weight_gradient: Number  # of the block's way back [s]
    near: Number  # a send inside a fast domain [s]
    far: Number  # a send between fast domains [s]
    sync: SyncTimes


class Stages(NamedTuple):
    """What the stages of a pipeline take and hold: arrays [stages]."""

    layers: Any  # with what the first and the last have beside theirs, in layers' worth
    forward: Any  # seconds of one microbatch
    backward: Any  # both gradients
    input_gradient: Any  # the part of it that the stage before waits for
    weight_gradient: Any  # the rest
    send: Any  # seconds to send one microbatch on
    kept: Any  # bytes of activations of one microbatch
    weights: Any  # [B]
    gradients: Any
    optimizer: Any


def under_plan(part: Callable[..., Any], inputs: Inputs, recipe: Recipe, **other: Number) -> Any:
    """Return a part of the training step under the plan of the inputs, some fields of it others."""
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    fields = {name: getattr(inputs.plan, name) for name in reads(part)}
    return part(bare, recipe, **{**fields, **other})


def weight_gradient(
    inputs: Inputs,
    recipe: Recipe,
    *,
    tensor: Number,
    context: Number,
    microbatch: Number,
    panels: Number,
    fast_tensor: Number,
    fast_context: Number,
) -> Number:
    """Return the time of one layer's weight gradients, the part of backward that nothing awaits.

    t_W = sum of (t_compute + t_memory) / 2 over the operations that have parameters

    Assumes: of such an operation's way back the weights' gradient is half, arithmetic, launch and
    exposed traffic alike (of a product it is: both gradients multiply the same three sizes). All
    else stays with the gradient of the input: collectives, operations without parameters, and
    what is computed again.
    Units: degrees and panels [1], microbatch [sequence] -> [s].
    Source: Qi et al. 2023 (arXiv 2401.10241), section 2: B and W apart, about equal for a product.
    """
    layer = operations(
        inputs,
        recipe,
        tensor=tensor,
        context=context,
        microbatch=microbatch,
        panels=panels,
        fast_tensor=fast_tensor,
        fast_context=fast_context,
    )
    total: Number = 0.0
    for operation in layer.values():
        _, backward = timings(operation, inputs.system)
        share = jnp.where(operation.work.parameters > 0.0, 0.5, 0.0)
        total = total + share * (backward.compute + backward.memory)
    return total


def layer_costs(inputs: Inputs, recipe: Recipe, routes: Number) -> LayerCosts:
    """Return what all stages are made of, for the plan of the inputs and so many copies of it.

    Assumes: copies of the weights on other routes are replicas more, each in a domain of its own.
    Units: routes [1] -> LayerCosts.
    Source: docs/models/transformer_model.md, sections 6 to 8.
    """
    plan = inputs.plan
    assert plan is not None
    return LayerCosts(
        block=under_plan(layer_times, inputs, recipe),
        weight_gradient=under_plan(weight_gradient, inputs, recipe),
        near=under_plan(send_time, inputs, recipe),
        far=under_plan(send_time, inputs, recipe, fast_pipeline=1.0),
        sync=under_plan(sync_times, inputs, recipe, data=plan.data * routes),
    )


def stages(
    inputs: Inputs, recipe: Recipe, costs: LayerCosts, layout: Layout, first: Number, last: Number
) -> Stages:
    """Return what each stage takes for a microbatch and holds, under the plan of the inputs.

    A stage has L r / n layers (n stages on r routes); the first of a route has ``first`` layers'
    worth of time and weights more, the last one ``last`` (an embedding, a head and its loss).

    Assumes: what those have more keeps no activations; Q23, gradients are not sharded; optimizer
    state is sharded over all that hold the same weights, the copies of other routes included.
    Units: first, last [1], Layout -> Stages.
    Source: docs/models/transformer_model.md, sections 6, 8 and 9.
    """
    plan, precision, layer = inputs.plan, inputs.precision, costs.block
    assert plan is not None
    count = layout.device.shape[0]
    each = inputs.model.layers * (layout.routes / count)
    layers = each + first * layout.first + last * layout.last
    backward = layer.work_backward + layer.links_backward
    parameters = layer.parameters * layers
    replicas = layout.routes * REPLICAS[recipe.split](plan.data, plan.context)
    return Stages(
        layers=layers,
        forward=(layer.work_forward + layer.links_forward) * layers,
        backward=backward * layers,
        input_gradient=(backward - costs.weight_gradient) * layers,
        weight_gradient=costs.weight_gradient * layers,
        send=send_times(costs, layout, plan.fast_pipeline),
        kept=layer.kept * each * jnp.ones(count),
        weights=parameters * precision.weight,
        gradients=parameters * precision.gradient,
        optimizer=parameters * precision.optimizer / replicas,
    )


def send_times(costs: LayerCosts, layout: Layout, fast_pipeline: Number) -> Any:
    """Return the time to send a microbatch on from each stage, 0 where it stays on its device.

    Assumes: the devices of a pipeline fill one fast domain after another, ``fast_pipeline`` in
    each; links between domains cost what slow links do (Q2, where they cost nothing, corrected).
    Units: fast_pipeline [1] -> [s].
    Source: docs/models/transformer_model.md, section 8.
    """
    domain, other = (jnp.floor(at / fast_pipeline) for at in (layout.device, layout.taker))
    between = jnp.where(domain == other, costs.near, costs.far)
    return jnp.where(layout.device == layout.taker, 0.0, between)


def data_time(costs: LayerCosts, layers: Any) -> Any:
    """Return the data-parallel time that devices with so many layers cannot hide.

    Assumes: as the training step (Q16).
    Units: layers [1] -> [s].
    Source: docs/models/transformer_model.md, section 7.
    """
    shown = exposed_sync_times(costs.block, costs.sync, layers)
    return shown.gather + shown.scatter
