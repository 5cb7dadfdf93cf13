"""The second look: the best plans, found exactly inside the blocks that can hold them."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.estimator import TIE

FAR = 1e300  # an objective that nothing has: no infinities in the arithmetic
HELD = 1 << 17  # objectives of looked-at plans that stay at hand: they fit a core's cache

Objective = Callable[[jax.Array], jax.Array]  # of the plan at a position, [lane]


class SecondPass(NamedTuple):
    """How many plans are sought, and where."""

    top: int
    looks: int  # whole blocks that can hold them
    block: int  # plans of a block


def exact_winners(
    look: SecondPass,
    objective: Objective,
    minima: jax.Array,
    split: jax.Array | None,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the positions and objectives of the best plans that fit, [top, limit, lane].

    ``minima`` are those of whole blocks [block, lane]; ``fits`` how many plans fit [limit, lane].
    With ``split``, the number of each plan's split, only the best plan of each split counts.
    Position -1 where fewer plans fit.
    """
    chosen = _least_blocks(look, minima, fits // look.block)
    cut = jnp.where(fits % look.block > 0, fits // look.block, -1)  # what the limit cuts through
    chosen = jnp.concatenate([chosen, cut[None]])
    values = _values(look, objective, chosen, len(minima))
    offsets = jnp.arange(look.block)[None, :, None, None]
    position = chosen[:, None] * look.block + offsets
    values = jnp.where((chosen[:, None] >= 0) & (position < fits[None, None]), values, FAR)
    values = values.reshape(-1, *fits.shape)
    position = position.reshape(-1, *fits.shape)
    return _best_of(look.top, values, position, position if split is None else split[position])


def _least_blocks(look: SecondPass, minima: jax.Array, whole_blocks: jax.Array) -> jax.Array:
    """Return the blocks that can hold the best plans, among those that fit whole.

    Each look takes the block with the least minimum, and the first that ties with it: the leaner
    of tied plans may stand there. Returns [2 looks, limit, lane], -1 where there is none.
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

    Each block is evaluated once for all lanes, some blocks at a time, then read where chosen.
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
            start = order[first + place] * look.block
            rows = lax.map(lambda offset: objective(start + offset), jnp.arange(look.block))
            return lax.dynamic_update_index_in_dim(exact, rows, place, 0)

        exact, values = held
        exact = lax.fori_loop(0, jnp.minimum(number - first, slots), visit, exact)
        place = slot - first
        here = (place >= 0) & (place < slots)
        found = exact[jnp.clip(place, 0, slots - 1)[:, None], offset, lane]
        return exact, jnp.where(here[:, None], found, values)

    start = (
        jnp.full((slots, look.block, lanes), FAR),
        jnp.full((looks, look.block, limits, lanes), FAR),
    )
    return lax.fori_loop(0, (number + slots - 1) // slots, some, start)[1]


def _best_of(
    top: int, values: jax.Array, position: jax.Array, split: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the best of the looked-at plans in order, ties to the first position, [top, ...]."""
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
