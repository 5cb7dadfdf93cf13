"""Closed-form schedules of a chain of stages, many at once in one loop over timesteps.

A lane is one configuration, with its own number of stages and microbatches. Lanes are padded to one
shape, so that one program evaluates a whole grid. Axis 0 is the stages, axis 1 the lanes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.formulas.arithmetic import larger
from jaxroof.schedules.orders import Chain, Order

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


class Clocks(NamedTuple):
    """The costs of a step of a chain in seconds, [stages, lanes] each."""

    forward: Any
    backward: Any
    again: Any  # extra time of every backward except the first
    joined: Any  # extra time of every forward except the first
    send: Any  # [stages - 1, lanes]: a message over the link to the next stage
    start: Any  # the clock before the first timestep


Extra = Callable[[Any, Any, Any, Visit], Any]  # (t, clocks before, clocks after, visits) -> clocks


def run(chain: Chain, steps: int = 0) -> Any:
    """Return the number of timesteps to run: ``steps`` if given, else the maximum of all lanes."""
    return steps or jnp.max(timesteps(chain))


def rendezvous(
    order: Order, chain: Chain, costs: Clocks, deliver: Extra | None = None, steps: int = 0
) -> Any:
    """Return the final clocks [stages, lanes] if a send occupies both of its ends.

    The two ends of a message wait for each other, and are then occupied until it arrives. Messages
    of one timestep are sent in the order of the stages.
    Arguments: ``deliver`` changes the clocks after the visits of a timestep, before its sends;
    ``steps`` as in ``run``. If it is given, reverse-mode derivatives are possible.
    Source: docs/models/distir_model.md, sections 5 and 6.
    """
    stage = stages_of(len(costs.forward))

    def advance(t: Any, clock: Any) -> Any:
        now = visit(t, order, stage, chain)
        after = clock + spent(now, costs)
        if deliver is not None:
            after = deliver(t, clock, after, now)
        return _sent(after, now, costs.send)

    return lax.fori_loop(0, run(chain, steps), advance, costs.start)


def spent(now: Visit, costs: Clocks) -> Any:
    """Return the seconds of the visit of every stage, 0 if it is idle."""
    later = now.microbatch > 0
    forward = costs.forward + jnp.where(later, costs.joined, 0.0)
    backward = costs.backward + jnp.where(later, costs.again, 0.0)
    return jnp.where(now.forward, forward, 0.0) + jnp.where(now.backward, backward, 0.0)


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


def peak(order: Order, chain: Chain, bytes_: Bytes, steps: int = 0) -> tuple[Any, Any]:
    """Return the peak bytes of each stage, and its bytes at the end.

    The sender frees a message when it is sent; the receiver holds it from then on.
    Source: docs/models/distir_model.md, section 8.
    """
    stage = stages_of(len(bytes_.start))
    none = jnp.zeros_like(bytes_.start[:1])
    onward = jnp.concatenate([bytes_.message, none])
    back = jnp.concatenate([none, bytes_.message])

    def advance(t: Any, state: Any) -> Any:
        live, most = state
        now = visit(t, order, stage, chain)
        later = now.microbatch > 0
        k = jnp.maximum(now.microbatch, 0).astype(bytes_.start.dtype)
        forward = bytes_.forward_rise + k * bytes_.joined_rise
        again = larger(bytes_.again_rise, bytes_.gathered + k * bytes_.gathered_more)
        backward = jnp.where(later, again, bytes_.backward_rise)
        rise = jnp.where(now.forward, forward, jnp.where(now.backward, backward, 0.0))
        net = jnp.where(later, bytes_.again_net, bytes_.backward_net)
        most = larger(most, live + rise)
        live = live + jnp.where(now.forward, bytes_.forward_net, 0.0)
        live = live + jnp.where(now.backward, net, 0.0)
        # in the order of the senders: the stage before, this stage, the stage after
        idle = jnp.zeros_like(now.forward[:1])
        live = live + jnp.where(jnp.concatenate([idle, now.forward[:-1]]), back, 0.0)
        most = larger(most, live)
        live = live - jnp.where(now.forward, onward, 0.0) - jnp.where(now.backward, back, 0.0)
        live = live + jnp.where(jnp.concatenate([now.backward[1:], idle]), onward, 0.0)
        return live, larger(most, live)

    begun = (bytes_.start, bytes_.start)
    live, most = lax.fori_loop(0, run(chain, steps), advance, begun)
    return most, live


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
