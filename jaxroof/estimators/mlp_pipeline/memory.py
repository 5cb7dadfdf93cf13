"""What visits do to the memory of a stage: bytes that each takes, at most and in the end.

Every operation first makes its result, then frees what nobody needs any more.
Source: docs/models/distir_model.md, section 8 (as published) and quirk B5 (in place).
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from jaxroof.estimators.mlp_pipeline.chain import Bytes
from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.layers import (
    Layer,
    Layers,
    boundary,
    kinds,
    lowest,
    peak,
    total,
)
from jaxroof.estimators.mlp_pipeline.recipe import Memory
from jaxroof.formulas.arithmetic import larger

SCALAR = 4.0  # [B]: the batch's size, which the last stage holds


def weights(inputs: Inputs, held: Layers) -> Any:
    """Return the bytes of a stage's weights on one rank."""
    return inputs.element * total(held, lambda layer: layer.rows * layer.columns)


def buffered(inputs: Inputs, held: Layers) -> Bytes:
    """Return what visits do where no result is written in place, as published."""
    plan, element = inputs.plan, inputs.element * held.batch
    assert plan is not None
    outputs = total(held, lambda layer: element * layer.columns)
    loss = jnp.where(held.ends, element * boundary(held), 0.0)
    into = jnp.where(held.begins, element * held.first.rows, 0.0)

    def moves(later: bool) -> Callable[[Layer], tuple[Any, Any]]:
        return lambda layer: _backward(inputs, held, layer, later)

    first, again = moves(False), moves(True)
    net = _backward(inputs, held, held.first, True)[1]
    below = total(held, lambda layer: again(layer)[1])
    # the input gradients of all microbatches so far, joined when the first layer is done
    made = net + inputs.element * held.first.rows * held.first.columns
    joined = below - net * held.first.count + made + into
    return Bytes(
        start=weights(inputs, held)
        + plan.microbatches * (into + loss)  # inputs and labels of the whole batch
        + jnp.where(held.ends, SCALAR, 0.0),
        forward_rise=2.0 * outputs + 2.0 * loss,
        forward_net=2.0 * outputs + loss,
        joined_rise=loss,
        backward_rise=peak(held, first),
        again_rise=peak(held, again),
        gathered=jnp.where(held.begins, joined, 0.0),
        gathered_more=into,
        backward_net=total(held, lambda layer: first(layer)[1]),
        again_net=below,
        message=_sent(inputs, held)[:-1],
    )


def _sent(inputs: Inputs, held: Layers) -> Any:
    """Return the bytes of a message to the next stage, none from the last."""
    several = held.there & jnp.logical_not(held.ends)
    return jnp.where(several, inputs.element * held.batch * boundary(held), 0.0)


def _backward(inputs: Inputs, held: Layers, layer: Layer, later: bool) -> tuple[Any, Any]:
    """Return the most bytes a layer's backward takes, and those it leaves."""
    plan, element = inputs.plan, inputs.element
    assert plan is not None
    weight = element * layer.rows * layer.columns
    output = element * held.batch * layer.columns
    into = element * held.batch * layer.rows
    stays = into if layer is held.first else 0.0  # nobody takes the input's gradient
    many = plan.microbatches > 1.0
    made = weight - 2.0 * output + stays
    summed = jnp.where(jnp.logical_and(layer.even, plan.tensor > 1.0), into, 0.0)
    beside = larger(summed, jnp.where(many, weight, 0.0))
    if layer is held.first and not later:
        beside = larger(beside, jnp.where(many, into, 0.0))
    rise = larger(larger(output, into + weight - output), made + beside)
    return rise, made - weight if later else made


def lean(inputs: Inputs, held: Layers) -> Bytes:
    """Return what visits do where results are written in place and nothing is kept for nothing.

    Weights, their gradients and optimizer state are there throughout; a microbatch keeps each
    layer's output once, its input, and a message while it is sent.
    """
    element = inputs.element * held.batch
    elements = total(held, lambda layer: layer.rows * layer.columns)
    outputs = total(held, lambda layer: element * layer.columns)
    sent = _sent(inputs, held)
    taken = element * lowest(held, lambda layer: layer.rows)
    own = jnp.where(held.begins, taken, 0.0)  # the microbatch itself
    begun = jnp.where(held.ends, element * boundary(held), 0.0)  # the loss's gradient

    def moves(layer: Layer) -> tuple[Any, Any]:
        into = 0.0 if layer is held.first else element * layer.rows
        return into, into - 2.0 * element * layer.columns

    rise, none = peak(held, moves), jnp.zeros_like(outputs)
    net = total(held, lambda layer: moves(layer)[1]) - taken
    return Bytes(
        start=elements * (2.0 * inputs.element + inputs.optimizer_state),
        forward_rise=own + outputs + sent + begun,
        forward_net=own + outputs + sent + begun,
        joined_rise=none,
        backward_rise=rise,
        again_rise=rise,
        gathered=none,
        gathered_more=none,
        backward_net=net,
        again_net=net,
        message=sent[:-1],
    )


def synchronised(inputs: Inputs, held: Layers) -> Any:
    """Return the bytes that the sums over replicas need beside the gradients, as published."""
    plan = inputs.plan
    assert plan is not None
    sizes = [
        jnp.where(layer.count > 0.0, inputs.element * layer.rows * layer.columns, 0.0)
        for layer in kinds(held)
    ]
    most = larger(larger(sizes[0], sizes[1]), larger(sizes[2], sizes[3]))
    return jnp.where(plan.data > 1.0, most, 0.0)


def _in_place(inputs: Inputs, held: Layers) -> Any:
    return jnp.zeros_like(held.low)


VISITS = {Memory.BUFFERED: buffered, Memory.LEAN: lean}
SYNCHRONISED = {Memory.BUFFERED: synchronised, Memory.LEAN: _in_place}
