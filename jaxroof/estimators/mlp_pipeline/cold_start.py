"""The first step of a cold start: the first device hands out data, labels and weights.

Source: docs/models/distir_model.md, section 9.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxroof.estimators.mlp_pipeline.costs import Prices, send
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import (
    Layers,
    boundary,
    highest,
    total,
    widths,
)
from jaxroof.estimators.mlp_pipeline.stages import Stages, layer_forward
from jaxroof.formulas.arithmetic import larger
from jaxroof.schedules.batched_chain import Visit, stages_of

SPLIT = 1e-6  # [s] to cut inputs, or labels, into microbatches


class Handout(NamedTuple):
    """Seconds that handing out takes, [stages, ..] each."""

    start: Any  # the first stage's clock before the step
    weights: Any  # sends of a stage's weights
    layers: Any  # a forward visit without the loss
    highest: Any  # the part of it that is the highest layer
    loss: Any  # the part of the visit that is the loss
    labels: Any  # the send of a microbatch's labels (0 but to the last of several stages)


def handout(inputs: Inputs, asked: Prices, held: Layers, costs: Stages) -> Handout:
    """Return what a cold start costs beside the step.

    Assumes: with several replicas data and weights are there at no cost, as are ranks' shares.
    """
    plan, model = inputs.plan, inputs.model
    assert plan is not None
    into, inner, hidden, out = widths(model)
    pairs = larger(model.layers - 2.0, 0.0)  # square or not, each between two inner widths
    weights = into * jnp.where(model.layers > 1.0, inner, out) + pairs * inner * hidden
    last = jnp.where(model.layers % 2.0 == 0.0, inner, hidden) * out
    weights = weights + jnp.where(model.layers > 1.0, last, 0.0)
    everything = send(asked, inputs.global_batch * (into + out) + weights)
    several = plan.pipeline > 1.0
    start = jnp.where(plan.data > 1.0, 0.0, everything) + jnp.where(several, 2.0 * SPLIT, 0.0)
    ahead = several & held.ends
    return Handout(
        start=jnp.where(held.begins, start, 0.0),
        weights=total(held, lambda layer: send(asked, layer.rows * layer.columns)),
        layers=costs.forward - costs.loss,
        highest=highest(held, lambda layer: layer_forward(asked, plan, held, layer)),
        loss=costs.loss,
        labels=jnp.where(ahead, send(asked, held.batch * boundary(held)), 0.0),
    )


def deliver(given: Handout, t: Any, before: Any, after: Any, now: Visit) -> Any:
    """Return the clocks once the weights and labels that a timestep needs are delivered.

    Weights reach a stage in its first forward, each before its product; labels the last stage
    before each loss. Each keeps the first device and its own until it is there.
    """
    stage = stages_of(len(after))
    root = after[:1]
    first = now.forward & (stage == t) & (stage > 0)
    met = _of(first, larger(jnp.broadcast_to(root, before.shape), before))
    moved = jnp.any(first, axis=0, keepdims=True)
    sent, done = _of(first, given.weights), _of(first, given.layers)
    root = jnp.where(moved, met + sent + done - _of(first, given.highest), root)
    reached = jnp.where(first, met + sent + done, before + given.layers)

    labelled = now.forward & (given.labels > 0.0)
    both = larger(root, _of(labelled, reached)) + _of(labelled, given.labels)
    told = jnp.any(labelled, axis=0, keepdims=True)
    root = jnp.where(told, both, root)
    after = jnp.where(first, reached + given.loss, after)
    after = jnp.where(labelled, both + given.loss, after)
    return jnp.where(stage == 0, root, after)


def _of(mask: Any, values: Any) -> Any:
    """Return the value at the one stage that a mask tells, [1, lanes]."""
    return jnp.sum(jnp.where(mask, values, 0.0), axis=0, keepdims=True)
