"""The clocks and the memory of every stage: costs laid out in lanes and run through a schedule."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.mlp_pipeline import chain
from jaxroof.estimators.mlp_pipeline.chain import Bytes, Clocks, stages_of
from jaxroof.estimators.mlp_pipeline.inputs import Plan
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Order, Recipe, Sends
from jaxroof.estimators.mlp_pipeline.stages import Handout, Stages, deliver
from jaxroof.schedules import clock, orders
from jaxroof.schedules.orders import Chain

ORDERS = {
    Order.GREEDY: orders.greedy,
    Order.STANDARD: orders.standard,
    Order.GPIPE: orders.all_forward,
}


class Lanes(NamedTuple):
    """Configurations side by side: [stages, lanes], whatever their dimensions were."""

    chain: Chain
    values: tuple[Any, ...]
    shape: tuple[int, ...]  # of the dimensions


def in_lanes(plan: Plan, values: tuple[Any, ...]) -> Lanes:
    """Return values [stages, ..] of all configurations as [stages, lanes]."""
    counts = (plan.pipeline, plan.microbatches)
    shape = jnp.broadcast_shapes(*(jnp.shape(v)[1:] for v in (*counts, *values)))
    lanes = math.prod(shape)

    def wide(value: Any) -> Any:
        value = jnp.asarray(value)
        full = value.reshape(value.shape or (1,) * (1 + len(shape)))
        return jnp.broadcast_to(full, (full.shape[0], *shape)).reshape(full.shape[0], lanes)

    stages, many = (wide(count).astype(jnp.int32) for count in counts)
    return Lanes(Chain(stages, many), tuple(map(wide, values)), shape)


def clocks(
    plan: Plan, recipe: Recipe, choices: Choices, costs: Stages, given: Handout | None
) -> Any:
    """Return when every stage has done its visits, [stages, ..] in seconds."""
    laid = in_lanes(plan, (*costs, *(given or ())))
    spread = Stages(*laid.values[: len(costs)])
    handed = Handout(*laid.values[len(costs) :]) if given else None
    order = ORDERS[choices.order](stages_of(len(spread.forward)), laid.chain)
    found = SENDS[choices.sends](recipe, order, laid.chain, spread, handed)
    return found.reshape(-1, *laid.shape)


def peaks(plan: Plan, recipe: Recipe, choices: Choices, bytes_: Bytes) -> tuple[Any, Any]:
    """Return the most bytes every stage holds, and those in the end, [stages, ..]."""
    laid = in_lanes(plan, tuple(bytes_))
    order = ORDERS[choices.order](stages_of(len(laid.values[0])), laid.chain)
    most, live = chain.peak(order, laid.chain, Bytes(*laid.values), recipe.timesteps)
    return most.reshape(-1, *laid.shape), live.reshape(-1, *laid.shape)


def in_flight(plan: Plan, choices: Choices) -> Any:
    """Return the microbatches that the first stage holds at once."""
    laid = in_lanes(plan, ())
    order = ORDERS[choices.order](stages_of(1), laid.chain)
    return order.warmup[0].astype(jnp.float64).reshape(laid.shape)


def _rendezvous(
    recipe: Recipe, order: Any, asked: Chain, costs: Stages, given: Handout | None
) -> Any:
    spent = Clocks(
        forward=costs.forward,
        backward=costs.backward,
        again=costs.again + costs.joined_backward,
        joined=costs.joined_forward,
        send=costs.send[:-1],
        start=jnp.zeros_like(costs.forward) if given is None else given.start,
    )
    late = None if given is None else partial(deliver, given)
    return chain.rendezvous(order, asked, spent, late, recipe.timesteps)


def _posted(recipe: Recipe, order: Any, asked: Chain, costs: Stages, given: Handout | None) -> Any:
    work, source = chain.tables(order, asked, len(costs.forward), recipe.most_timesteps)
    again = costs.again + costs.joined_backward
    none = jnp.zeros_like(costs.forward)
    before = jnp.concatenate([none[:1], costs.send[:-1]])
    seconds = [
        none,
        costs.forward,
        costs.backward,
        costs.forward + costs.joined_forward,
        costs.backward + again,
    ]
    arrival = [none, before, costs.send, before, costs.send]
    spent = clock.Costs(jnp.stack(seconds), jnp.stack(arrival), jnp.zeros((5, *none.shape)))
    return clock.visit_times(work, source, spent, chain.run(asked, recipe.timesteps)).clock


SENDS: dict[Sends, Callable[..., Any]] = {Sends.RENDEZVOUS: _rendezvous, Sends.POSTED: _posted}


def lifted(inputs: Any) -> Any:
    """Return the inputs with a first dimension for stages before those that leaves have."""
    return jax.tree.map(lambda leaf: leaf[None] if getattr(leaf, "ndim", 0) else leaf, inputs)
