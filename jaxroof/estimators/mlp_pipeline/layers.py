"""The layers of an MLP by kind, and how many of each a stage holds.

Layers alternate: weights of even layers (from 0) are cut by columns, of odd ones by rows. All that
a stage does is a sum over four kinds of layers, so that a stage costs the same to evaluate however
many layers it has.
Source: docs/models/distir_model.md, section 2.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.catalog.models import Mlp
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import Number, value_or


class Layer(NamedTuple):
    """One kind of layer on one rank: its weight's local shape, [..] each."""

    rows: Number
    columns: Number
    even: Any  # whether its weight is cut by columns
    count: Any  # layers of this kind in each stage, [stages, ..]


class Layers(NamedTuple):
    """What every stage holds."""

    first: Layer  # of the model
    even: Layer  # between the first and the last
    odd: Layer
    last: Layer  # 0 of them in a model of one layer
    stage: Any  # numbers of the stages, [stages, ..]
    low: Any  # the first layer of each stage, and ...
    high: Any  # ... one beyond its last
    depth: Any  # layers of the model
    there: Any  # whether a stage is one of the plan's
    begins: Any  # whether it is the first
    ends: Any  # whether it is the last
    batch: Any  # samples of one microbatch on one rank


def widths(model: Mlp) -> tuple[Number, Number, Number, Number]:
    """Return the widths of the input, after even layers, after odd layers and of the output."""
    own = (model.input_width, model.inner, model.output_width)
    into, inner, out = (value_or(width, model.hidden) for width in own)
    return into, inner, model.hidden, out


def layers(inputs: Inputs, most_stages: int) -> Layers:
    """Return the kinds of layers and how many of each every stage holds, [most_stages, ..].

    Leaves of the inputs are scalars, or arrays of one rank whose first dimension is 1 for stages.
    """
    model, plan = inputs.model, inputs.plan
    assert plan is not None
    into, inner, hidden, out = widths(model)
    depth, ranks = model.layers, plan.tensor
    rank = max(getattr(leaf, "ndim", 0) for leaf in jax.tree.leaves(inputs))
    stage = jnp.arange(float(most_stages)).reshape(-1, *[1] * max(rank - 1, 0))
    each = larger(jnp.floor(depth / plan.pipeline), 1.0)
    low, high = stage * each, stage * each + each
    there = stage < plan.pipeline
    final = depth - 1.0
    odd_last = final % 2.0 == 1.0
    alone = depth <= 1.0

    def inside(parity: float) -> Any:
        """Return the layers of one parity between the first and the last of the model."""
        return _of_parity(larger(low, 1.0), smaller(high, final), parity)

    begins, ends = there & (low <= 0.0), there & (stage == plan.pipeline - 1.0)
    one = jnp.where(there, 1.0, 0.0)
    last_rows = jnp.where(odd_last, inner / ranks, hidden)
    return Layers(
        first=Layer(into, jnp.where(alone, out, inner) / ranks, True, jnp.where(begins, 1.0, 0.0)),
        even=Layer(hidden, inner / ranks, True, one * inside(0.0)),
        odd=Layer(inner / ranks, hidden, False, one * inside(1.0)),
        last=Layer(
            last_rows,
            jnp.where(odd_last, out, out / ranks),
            ~odd_last,
            jnp.where(ends & ~alone, 1.0, 0.0),
        ),
        stage=stage,
        low=low,
        high=high,
        depth=depth,
        there=there,
        begins=begins,
        ends=ends,
        batch=inputs.global_batch / (plan.data * plan.microbatches),
    )


def kinds(held: Layers) -> tuple[Layer, ...]:
    """Return the kinds of layers."""
    return held.first, held.even, held.odd, held.last


def total(held: Layers, of: Any) -> Any:
    """Return the sum over the layers of each stage of a function of their kind."""
    return sum(layer.count * of(layer) for layer in kinds(held))


def highest(held: Layers, of: Any) -> Any:
    """Return what a function of a layer is for the highest layer of each stage."""
    top = held.high - 1.0
    inside = jnp.where(top % 2.0 == 0.0, of(held.even), of(held.odd))
    inside = jnp.where(top <= 0.0, of(held.first), inside)
    return jnp.where(held.ends & (held.depth > 1.0), of(held.last), inside)


def boundary(held: Layers) -> Any:
    """Return the width of what every stage sends on: the local width of its highest layer."""
    return highest(held, lambda layer: layer.columns)


def lowest(held: Layers, of: Any) -> Any:
    """Return what a function of a layer is for the lowest layer of each stage."""
    inside = jnp.where(held.low % 2.0 == 0.0, of(held.even), of(held.odd))
    inside = jnp.where(held.low <= 0.0, of(held.first), inside)
    alone = held.ends & (held.low >= held.depth - 1.0) & (held.low > 0.0)
    return jnp.where(alone, of(held.last), inside)


def peak(held: Layers, moves: Any) -> Any:
    """Return the highest level of a walk down each stage's layers, from 0.

    Arguments: ``moves`` gives (rise, net) of a layer of some kind: the most beyond the level before
    it, and the change of the level. Between equal pairs of layers the level moves evenly, so that
    only the first and the last layer of a kind can be the highest.
    """
    first, even, odd, last = (moves(layer) for layer in kinds(held))
    top = smaller(held.high, held.depth - 1.0) - 1.0  # layers between the first and the last
    bottom = larger(held.low, 1.0)
    begun = held.last.count * last[1]

    def inside(own: Layer, other: Layer, mine: Any, theirs: Any, parity: float) -> Any:
        above = jnp.where(top % 2.0 == parity, 0.0, 1.0)
        below = jnp.where(bottom % 2.0 == parity, 0.0, 1.0)
        high = begun + above * theirs[1]
        low = begun + (own.count - 1.0) * mine[1] + (other.count - below) * theirs[1]
        return jnp.where(own.count > 0.0, larger(high, low) + mine[0], 0.0)

    highest_even = inside(held.even, held.odd, even, odd, 0.0)
    highest_odd = inside(held.odd, held.even, odd, even, 1.0)
    found = larger(highest_even, highest_odd)
    found = larger(found, jnp.where(held.last.count > 0.0, last[0], 0.0))
    before = begun + held.even.count * even[1] + held.odd.count * odd[1]
    return larger(found, jnp.where(held.begins, before + first[0], 0.0))


def _of_parity(low: Any, high: Any, parity: float) -> Any:
    """Return how many whole numbers of a parity are in [low, high)."""
    up_to = [jnp.floor((bound + 1.0 - parity) / 2.0) for bound in (low, high)]
    return larger(up_to[1] - up_to[0], 0.0)
