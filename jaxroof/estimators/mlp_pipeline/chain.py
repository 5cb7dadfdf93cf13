"""The clocks and the memory of every stage: costs laid out in lanes and run through a schedule.

A lane is one configuration, with its own number of stages and microbatches. Lanes are padded to one
shape, so that one program evaluates a whole grid in one loop over timesteps. Axis 0 is the stages,
axis 1 the lanes. Of memory, every operation first makes its result, then frees what nobody needs.

Source: docs/models/distir_model.md, sections 5, 6 and 8 (as published) and quirk B5 (in place).
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.estimators.mlp_pipeline.costs import Handout, Stages
from jaxroof.estimators.mlp_pipeline.inputs import Inputs, Plan
from jaxroof.estimators.mlp_pipeline.layers import (
    Layer,
    Layers,
    boundary,
    kinds,
    lowest,
    peak,
    total,
)
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Memory, Recipe, Sends
from jaxroof.formulas.arithmetic import larger
from jaxroof.schedules import clock
from jaxroof.schedules.orders import CLOSED, Chain, Order

FAR = -1e30  # below every clock [s]: the start of a path that does not exist


class Visit(NamedTuple):
    """The visit of each stage in one timestep, [stages, lanes] each."""

    forward: Any  # whether it is a forward
    backward: Any  # whether it is a backward
    microbatch: Any


def visit(t: Any, order: Order, stage: Any, chain: Chain) -> Visit:
    """Return the visit of every stage at a timestep, at most one; padded stages have none."""
    there = stage < chain.stages
    early = (t >= stage) & (t - stage < order.warmup)
    late = t - order.steady
    later = order.warmup + late // 2
    alternates = (order.stride == 2) & (late >= 0) & (late % 2 == 0) & (later < chain.microbatches)
    back = t - order.backward
    k = back // order.stride
    backward = there & (back >= 0) & (back % order.stride == 0) & (k < chain.microbatches)
    forward = there & (early | alternates)
    return Visit(forward, backward, jnp.where(backward, k, jnp.where(early, t - stage, later)))


def timesteps(chain: Chain) -> Any:
    """Return the number of timesteps of a lane: 2 M + 2 (P - 1)."""
    return 2 * (chain.microbatches + chain.stages - 1)


def stages_of(most: int) -> jax.Array:
    """Return the indices of the stages, [stages, 1]."""
    return jnp.arange(most, dtype=jnp.int32)[:, None]


def run(chain: Chain, steps: int) -> Any:
    """Return the number of timesteps to run: ``steps`` if given, else the maximum of all lanes."""
    return steps or jnp.max(timesteps(chain))


class Lanes(NamedTuple):
    """Configurations side by side, whatever their dimensions were."""

    order: Order
    chain: Chain
    values: tuple[Any, ...]  # [stages, lanes] each
    shape: tuple[int, ...]  # of the dimensions


def lifted(inputs: Any) -> Any:
    """Return the inputs with a first dimension for stages before those that leaves have."""
    return jax.tree.map(lambda leaf: leaf[None] if getattr(leaf, "ndim", 0) else leaf, inputs)


def in_lanes(plan: Plan, choices: Choices, values: tuple[Any, ...]) -> Lanes:
    """Return values [stages, ..] of all configurations as [stages, lanes]."""
    counts = (plan.pipeline, plan.microbatches)
    shape = jnp.broadcast_shapes(*(jnp.shape(v)[1:] for v in (*counts, *values)))

    def wide(value: Any) -> Any:
        value = jnp.asarray(value)
        full = value.reshape(value.shape or (1,) * (1 + len(shape)))
        stages = full.shape[0]
        return jnp.broadcast_to(full, (stages, *shape)).reshape(stages, math.prod(shape))

    chain = Chain(*(wide(count).astype(jnp.int32) for count in counts))
    held = tuple(map(wide, values))
    order = CLOSED[choices.order.value](stages_of(len(held[0]) if held else 1), chain)
    return Lanes(order, chain, held, shape)


def in_flight(plan: Plan, choices: Choices) -> Any:
    """Return the microbatches that the first stage holds at once."""
    laid = in_lanes(plan, choices, ())
    return laid.order.warmup[0].astype(jnp.float64).reshape(laid.shape)


# ---- Clocks -------------------------------------------------------------------------------------


def clocks(
    plan: Plan, recipe: Recipe, choices: Choices, costs: Stages, given: Handout | None
) -> Any:
    """Return when every stage has done its visits, [stages, ..] in seconds."""
    laid = in_lanes(plan, choices, (*costs, *(given or ())))
    spread = Stages(*laid.values[: len(costs)])
    handed = Handout(*laid.values[len(costs) :]) if given else None
    found = SENDS[choices.sends](recipe, laid.order, laid.chain, spread, handed)
    return found.reshape(-1, *laid.shape)


def _rendezvous(
    recipe: Recipe, order: Order, chain: Chain, costs: Stages, given: Handout | None
) -> Any:
    """Return the final clocks [stages, lanes] if a send occupies both of its ends.

    The two ends of a message wait for each other, and are then occupied until it arrives. Messages
    of one timestep are sent in the order of the stages. Reverse-mode derivatives are possible if
    the recipe gives the timesteps.
    Source: docs/models/distir_model.md, sections 5 and 6.
    """
    stage, again = stages_of(len(costs.forward)), costs.again + costs.joined_backward

    def advance(t: Any, clock: Any) -> Any:
        now = visit(t, order, stage, chain)
        later = now.microbatch > 0
        forward = costs.forward + jnp.where(later, costs.joined_forward, 0.0)
        backward = costs.backward + jnp.where(later, again, 0.0)
        spent = jnp.where(now.forward, forward, 0.0) + jnp.where(now.backward, backward, 0.0)
        after = clock + spent
        if given is not None:
            after = deliver(given, t, clock, after, now)
        return _sent(after, now, costs.send[:-1])

    start = jnp.zeros_like(costs.forward) if given is None else given.start
    return lax.fori_loop(0, run(chain, recipe.timesteps), advance, start)


def _sent(clock: Any, now: Visit, send: Any) -> Any:
    """Return the clocks after the messages of a timestep.

    Each link couples the clocks of its two ends: v' = max(v + A, B) at its far end. The composition
    of such maps has the same form, so the chain of links takes log2(stages) rounds.
    """
    if len(clock) == 1:
        return clock
    messages = now.forward[:-1].astype(send.dtype) + now.backward[1:].astype(send.dtype)
    active = messages > 0.0
    took = jnp.where(active, messages * send, 0.0)
    far = jnp.full_like(clock[:1], FAR)
    through = jnp.concatenate([far, jnp.where(active, took, FAR)])
    reached: Any = jnp.concatenate([clock[:1], clock[1:] + took])
    step = 1
    while step < len(clock):
        shifted = jnp.concatenate([jnp.broadcast_to(far, (step, *far.shape[1:])), reached[:-step]])
        reached = larger(shifted + through, reached)
        nothing = jnp.zeros((step, *far.shape[1:]))
        through = through + jnp.concatenate([nothing, through[:-step]])
        step *= 2
    return jnp.concatenate([jnp.where(active, reached[1:], reached[:-1]), reached[-1:]])


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


def _posted(
    recipe: Recipe, order: Order, chain: Chain, costs: Stages, given: Handout | None
) -> Any:
    """Return the final clocks if nobody waits for a send but the visit that needs it."""
    work, source = tables(order, chain, len(costs.forward), recipe.most_timesteps)
    again = costs.again + costs.joined_backward
    none = jnp.zeros_like(costs.forward)
    before = jnp.concatenate([none[:1], costs.send[:-1]])
    later = (costs.forward + costs.joined_forward, costs.backward + again)
    seconds = jnp.stack([none, costs.forward, costs.backward, *later])
    arrival = jnp.stack([none, before, costs.send, before, costs.send])
    spent = clock.Costs(seconds, arrival, jnp.zeros_like(seconds))
    return clock.visit_times(work, source, spent, run(chain, recipe.timesteps)).clock


def tables(order: Order, chain: Chain, stages: int, steps: int) -> tuple[Any, Any]:
    """Return the class of each visit and the visit it waits for, [steps, stages, lanes] each.

    Classes: 0 idle, 1 a first forward, 2 a first backward, 3 and 4 those of later microbatches.
    """
    stage = stages_of(stages)

    def row(t: Any) -> tuple[Any, Any]:
        now = visit(t, order, stage, chain)
        kind = jnp.where(now.forward, 1, jnp.where(now.backward, 2, 0))
        kind = kind + jnp.where((kind > 0) & (now.microbatch > 0), 2, 0)
        ahead = _forward_at(order, stage, now.microbatch, -1) * stages + stage - 1
        behind = _backward_at(order, now.microbatch, 1) * stages + stage + 1
        last = stage >= chain.stages - 1
        forward = jnp.where(now.forward & (stage > 0), ahead, -1)
        return kind, jnp.where(now.backward & ~last, behind, forward)

    kinds, sources = jax.vmap(row)(jnp.arange(steps, dtype=jnp.int32))
    return kinds, sources


def _forward_at(order: Order, stage: Any, k: Any, neighbour: int) -> Any:
    """Return the timestep of a forward of the stage ``neighbour`` away."""
    warmup, steady = (jnp.roll(part, -neighbour, axis=0) for part in (order.warmup, order.steady))
    return jnp.where(k < warmup, stage + neighbour + k, steady + 2 * (k - warmup))


def _backward_at(order: Order, k: Any, neighbour: int) -> Any:
    """Return the timestep of a backward of the stage ``neighbour`` away."""
    starts, stride = (jnp.roll(part, -neighbour, axis=0) for part in (order.backward, order.stride))
    return starts + stride * k


SENDS: dict[Sends, Callable[..., Any]] = {Sends.RENDEZVOUS: _rendezvous, Sends.POSTED: _posted}


# ---- Memory -------------------------------------------------------------------------------------


class Bytes(NamedTuple):
    """The effect of visits on the memory of their stage in bytes, [stages, lanes] each."""

    start: Any  # in memory before the first visit
    forward_rise: Any  # peak above the level before, in the forward of microbatch 0
    forward_net: Any  # change after that forward
    joined_rise: Any  # growth of that peak per further microbatch (growing buffers)
    backward_rise: Any  # peak above the level before, in the first backward
    again_rise: Any  # peak above the level before, in a later backward
    gathered: Any  # peak of a later backward due to a buffer that
    gathered_more: Any  # grows by this with each microbatch
    backward_net: Any  # change after the first backward
    again_net: Any  # change after a later backward
    message: Any  # [stages - 1, lanes]: of a message over the link to the next stage


def peaks(plan: Plan, recipe: Recipe, choices: Choices, bytes_: Bytes) -> tuple[Any, Any]:
    """Return the most bytes every stage holds, and those in the end, [stages, ..].

    The sender frees a message when it is sent; the receiver holds it from then on.
    Source: docs/models/distir_model.md, section 8.
    """
    laid = in_lanes(plan, choices, tuple(bytes_))
    moved = Bytes(*laid.values)
    stage = stages_of(len(moved.start))
    none = jnp.zeros_like(moved.start[:1])
    onward = jnp.concatenate([moved.message, none])
    back = jnp.concatenate([none, moved.message])

    def advance(t: Any, state: Any) -> Any:
        live, most = state
        now = visit(t, laid.order, stage, laid.chain)
        later = now.microbatch > 0
        k = jnp.maximum(now.microbatch, 0).astype(moved.start.dtype)
        forward = moved.forward_rise + k * moved.joined_rise
        again = larger(moved.again_rise, moved.gathered + k * moved.gathered_more)
        backward = jnp.where(later, again, moved.backward_rise)
        rise = jnp.where(now.forward, forward, jnp.where(now.backward, backward, 0.0))
        net = jnp.where(later, moved.again_net, moved.backward_net)
        most = larger(most, live + rise)
        live = live + jnp.where(now.forward, moved.forward_net, 0.0)
        live = live + jnp.where(now.backward, net, 0.0)
        # in the order of the senders: the stage before, this stage, the stage after
        idle = jnp.zeros_like(now.forward[:1])
        live = live + jnp.where(jnp.concatenate([idle, now.forward[:-1]]), back, 0.0)
        most = larger(most, live)
        live = live - jnp.where(now.forward, onward, 0.0) - jnp.where(now.backward, back, 0.0)
        live = live + jnp.where(jnp.concatenate([now.backward[1:], idle]), onward, 0.0)
        return live, larger(most, live)

    begun, steps = (moved.start, moved.start), run(laid.chain, recipe.timesteps)
    live, most = lax.fori_loop(0, steps, advance, begun)
    return most.reshape(-1, *laid.shape), live.reshape(-1, *laid.shape)


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
        message=_message(inputs, held)[:-1],
    )


def _message(inputs: Inputs, held: Layers) -> Any:
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
    sent = _message(inputs, held)
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
