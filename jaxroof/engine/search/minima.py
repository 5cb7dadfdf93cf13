"""The loops over the plans of a fold: the least objective of each block of plans, or each plan."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.engine.search.second_pass import Objective
from jaxroof.estimator import FAR

UNROLL = 4  # plans per fused loop body; more lengthen the program, and 16 break the fusion


def block_minima(
    objective: Objective,
    count: jax.Array,
    size: int,
    dims: tuple[int, ...],
    block: int,
    *,
    running: bool,
) -> jax.Array:
    """Return the least objective of each block of plans [block, lane].

    ``count`` of the ``size`` plans are folded; ``dims`` is the shape of the objective of one.
    ``running``: of each block and those before it.
    """
    unroll = min(UNROLL, block)

    def one_block(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        minima, before = held

        def some_plans(part: jax.Array, least: jax.Array) -> jax.Array:
            for number in range(unroll):
                value = objective(turn * block + part * unroll + number)
                least = jnp.where(value < least, value, least)
            return least

        start = before if running else jnp.full(dims, FAR)
        least = lax.fori_loop(0, block // unroll, some_plans, start)
        return lax.dynamic_update_slice_in_dim(minima, least.reshape(1, -1), turn, 0), least

    start = jnp.full((-(-size // block), math.prod(dims)), FAR), jnp.full(dims, FAR)
    return lax.fori_loop(0, (count + block - 1) // block, one_block, start)[0]


def running_minima(
    objective: Objective, count: jax.Array, size: int, dims: tuple[int, ...]
) -> jax.Array:
    """Return the least objective of each plan and those before it [plan, lane].

    One plan at a time: where lanes are few, a longer body costs more than it saves.
    """

    def one_plan(index: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        minima, least = held
        value = objective(index)
        least = jnp.where(value < least, value, least)
        return lax.dynamic_update_slice_in_dim(minima, least.reshape(1, -1), index, 0), least

    start = jnp.full((size, math.prod(dims)), FAR), jnp.full(dims, FAR)
    return lax.fori_loop(0, count, one_plan, start)[0]
