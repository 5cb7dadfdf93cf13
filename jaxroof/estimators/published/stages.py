"""The stages of a pipeline: time and memory of each, from the sums over one layer.

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
    send_time,
    sync_times,
)
from jaxroof.formulas.arithmetic import floor, where
from jaxroof.records import Number, with_named_absences
from jaxroof.schedules.clock import Layout


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
    Source: docs/models/transformer_model.md, sections 6 to 8.
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
    Source: docs/models/transformer_model.md, sections 6, 8 and 9.
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
    Source: docs/models/transformer_model.md, section 8.
    """
    domain, other = (floor(at / fast_pipeline) for at in (layout.device, layout.taker))
    between = where(domain == other, costs.near, costs.far)
    return where(layout.device == layout.taker, 0.0, between)


def data_time(costs: LayerCosts, layers: Any) -> Any:
    """Return the data-parallel time that devices with a given number of layers cannot hide.

    Assumes: as the training step (Q16).
    Source: docs/models/transformer_model.md, section 7.
    """
    shown = exposed_sync_times(costs.block, costs.sync, layers)
    return shown.gather + shown.scatter
