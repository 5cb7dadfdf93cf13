"""The minima of blocks of plans, and the exact winners inside the blocks that can contain them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.estimator import FAR, TIE

HELD = 1 << 17  # objectives evaluated at a time, so that they fit the cache of a core

Objective = Callable[[jax.Array], jax.Array]  # position of a plan -> its objective [lane]


class SecondPass(NamedTuple):
    """How many winners to find, and in how many blocks to look."""

    top: int
    looks: int  # number of full blocks that can contain the winners
    block: int  # plans per block


def exact_winners(
    look: SecondPass,
    objective: Objective,
    minima: jax.Array,
    split: jax.Array | None,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the positions and objectives of the best plans that fit, [top, limit, lane].

    ``minima`` are the minima of blocks [block, lane], running minima if only the best plan is
    wanted; ``fits`` is how many plans fit [limit, lane]. ``split`` is the index of each plan's
    split; if given, only the best plan of each split is ranked. The position is -1 where fewer
    plans fit.
    """
    if look.top == 1:
        first, tied, least = _first_blocks(minima, fits // look.block)
        if look.block == 1:  # every plan is a block
            return jnp.where(least < FAR, tied, -1)[None], least[None]
        chosen = jnp.stack([first, jnp.where(tied == first, -1, tied)])
    else:
        chosen = _least_blocks(look, minima, fits // look.block)
    cut = jnp.where(fits % look.block > 0, fits // look.block, -1)  # block that fits only partly
    chosen = jnp.concatenate([chosen, cut[None]])
    values = _values(look, objective, chosen, len(minima))
    offsets = jnp.arange(look.block)[None, :, None, None]
    position = chosen[:, None] * look.block + offsets
    values = jnp.where((chosen[:, None] >= 0) & (position < fits[None, None]), values, FAR)
    values = values.reshape(-1, *fits.shape)
    position = position.reshape(-1, *fits.shape)
    return best_of(look.top, values, position, position if split is None else split[position])


def _first_blocks(running: jax.Array, whole_blocks: jax.Array) -> tuple[jax.Array, ...]:
    """Return the first block with the least objective, the first that ties, and its objective.

    ``running`` are running minima [block, lane], so that all limits are answered by halving.
    Returns: arrays [limit, lane]; a block is -1 and the objective far where no block fits in full.
    """

    def at(block: jax.Array) -> jax.Array:
        rows = jnp.clip(block, 0, len(running) - 1).reshape(-1, running.shape[1])
        return jnp.take_along_axis(running, rows, axis=0).reshape(block.shape)

    def halve(_: int, ends: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = ends
        middle = (low + high) // 2
        reached = at(middle) <= bounds
        return jnp.where(reached, low, middle + 1), jnp.where(reached, middle, high)

    least = at(whole_blocks - 1)
    bounds = jnp.stack([least, least + TIE * jnp.abs(least)])
    ends = jnp.zeros_like(whole_blocks, shape=bounds.shape), jnp.stack([whole_blocks] * 2)
    low, _ = lax.fori_loop(0, len(running).bit_length(), halve, ends)
    first, tied = jnp.where(whole_blocks > 0, low, -1)
    return first, tied, jnp.where(tied < 0, FAR, at(tied))


def _least_blocks(look: SecondPass, minima: jax.Array, whole_blocks: jax.Array) -> jax.Array:
    """Return the blocks that can contain the best plans, among the blocks that fit in full.

    Each step takes the block with the least minimum and the first block that ties with it, because
    that one may contain the tied plan that needs less. Returns [2 looks, limit, lane], -1 where
    there is no block.
    """
    blocks = jnp.arange(len(minima))[:, None, None]
    fitting = jnp.where(blocks < whole_blocks[None], minima[:, None], FAR)

    def pick(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        chosen, left = held
        least = jnp.min(left, axis=0)
        found = least < FAR

        def first(bound: jax.Array) -> jax.Array:
            return jnp.min(jnp.where(left <= bound[None], blocks, len(minima)), axis=0)

        index, tied = first(least), first(least + TIE * jnp.abs(least))
        both = jnp.stack([index, jnp.where(tied == index, -1, tied)])
        taken = (blocks == index[None]) | (blocks == tied[None])
        chosen = lax.dynamic_update_slice_in_dim(chosen, jnp.where(found, both, -1), 2 * turn, 0)
        return chosen, jnp.where(taken, FAR, left)

    none = jnp.full((2 * look.looks, *whole_blocks.shape), -1)
    return lax.fori_loop(0, look.looks, pick, (none, fitting))[0]


def _values(look: SecondPass, objective: Objective, chosen: jax.Array, blocks: int) -> jax.Array:
    """Return the objectives of every plan in the chosen blocks, [look, offset, limit, lane].

    Each chosen block is evaluated once for all lanes, a few blocks at a time, and its values are
    copied to every limit and lane that chose it.
    """
    looks, limits, lanes = chosen.shape
    named = jnp.where(chosen < 0, blocks, chosen)
    wanted = jnp.zeros(blocks, bool).at[named].set(True, mode="drop")
    order, number = jnp.argsort(~wanted), jnp.sum(wanted)
    slot = (jnp.cumsum(wanted) - 1)[chosen]
    slots = max(1, min(blocks, HELD // (look.block * lanes)))
    offset = jnp.arange(look.block)[None, :, None, None]
    lane = jnp.arange(lanes)[None, None, None]

    def some(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first = turn * slots

        def visit(place: jax.Array, exact: jax.Array) -> jax.Array:
            block, offset = order[first + place // look.block], place % look.block
            row = objective(block * look.block + offset)
            return lax.dynamic_update_index_in_dim(exact, row, place, 0)

        exact, values = held
        plans = jnp.minimum(number - first, slots) * look.block
        exact = lax.fori_loop(0, plans, visit, exact)
        place = slot - first
        here = (place >= 0) & (place < slots)
        row = jnp.clip(place, 0, slots - 1)[:, None] * look.block + offset
        return exact, jnp.where(here[:, None], exact[row, lane], values)

    start = (
        jnp.full((slots * look.block, lanes), FAR),
        jnp.full((looks, look.block, limits, lanes), FAR),
    )
    return lax.fori_loop(0, (number + slots - 1) // slots, some, start)[1]


def best_of(
    top: int, values: jax.Array, position: jax.Array, split: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the best evaluated plans, best first, ties to the first position, [top, ...]."""
    last = jnp.iinfo(position.dtype).max

    def pick(values: jax.Array, _: None) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
        least = jnp.min(values, axis=0)
        tied = values <= (least + TIE * jnp.abs(least))[None]
        first = jnp.min(jnp.where(tied, position, last), axis=0)
        chosen = position == first[None]
        objective = jnp.sum(jnp.where(chosen, values, 0.0), axis=0)
        winner = jnp.max(jnp.where(chosen, split, -1), axis=0)
        rest = jnp.where(split == winner[None], FAR, values)
        return rest, (jnp.where(least < FAR, first, -1), objective)

    return lax.scan(pick, values, None, length=top)[1]


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
