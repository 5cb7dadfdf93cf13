"""The hot path of a search: a loop over the plans, with the machines in vector lanes.

Plans are sorted by need, so the plans that fit a limit are a prefix of the list. The fold stores
only the minimum objective of each block of plans. A second pass then finds the winners inside the
blocks that can contain them.
"""

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroof.engine.grid.compiled import keep_programs
from jaxroof.estimator import FAR, TIE, Estimator
from jaxroof.records import replace_at

keep_programs()

SHORT = 16  # a shorter last dimension is merged with the others into one vector loop
COPIED = PartitionSpec()  # replicated on every device
HELD = 1 << 17  # objectives evaluated at a time, so that they fit the cache of a core
UNROLL = 4  # plans per fused loop body; more lengthen the program, and 16 break the fusion

Array = Any  # a NumPy array on the host, a JAX array on the devices
Objective = Callable[[jax.Array], jax.Array]  # position of a plan -> its objective [lane]


class Plans(NamedTuple):
    """The plans of several problems, each sorted by need, padded to one shape [problem, plan]."""

    fields: dict[str, Array]  # plan fields, whole numbers
    rows: dict[str, Array]  # part -> each plan's row in the table of the part
    split: Array  # index of each plan's split
    counts: Array  # number of plans without padding [problem]


Distinct = dict[str, dict[str, Array]]  # part -> plan field -> distinct rows [row]


@dataclasses.dataclass(frozen=True)
class FoldConfig:
    """The static settings of a compiled fold, besides shapes."""

    estimator: Estimator
    recipe: Any
    objective: str
    sign: float  # +1 to minimise the objective, -1 to maximise it
    top: int
    per_split: bool  # rank only the best plan of each split
    looks: int  # number of full blocks that can contain the winners
    block: int  # plans per block
    rank: int  # number of dimensions of the machine grid


@functools.cache
def mesh() -> Mesh:
    """Return a one-dimensional mesh of all devices of this process."""
    return Mesh(np.array(jax.devices()), ("machines",))


def replicate(tree: Any) -> Any:
    """Return the arrays replicated on every device."""
    return jax.device_put(tree, NamedSharding(mesh(), COPIED))


def divided(rank: int, shard: int, lead: int) -> PartitionSpec:
    """Return the layout of [lead dims, *machine dims] split along machine dimension ``shard``."""
    (name,) = mesh().axis_names
    return PartitionSpec(*[None] * lead, *(name if d == shard else None for d in range(rank)))


def divided_leaves(tree: Any, rank: int, shard: int) -> Any:
    """Return the layout of each leaf: split like ``divided`` if it varies along that dimension."""

    def layout(leaf: Any) -> PartitionSpec:
        lead = leaf.ndim - rank
        if not rank or lead < 0 or leaf.shape[lead + shard] == 1:
            return COPIED
        return divided(rank, shard, lead)

    return jax.tree.map(layout, tree)


@functools.partial(jax.jit, static_argnums=(0, 1))
def best(
    fold: FoldConfig,
    shard: int,
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    plans: Plans,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the positions and objectives of the best plans, best first, per problem and machine.

    The inputs have the machine axes as dimensions. ``varied`` has the values [problem] of the paths
    that differ between problems; no part reads them. ``fits`` is how many plans fit, [problem,
    limit, *machine dims]. ``shard`` is the machine dimension that is split over the devices.
    Returns two arrays [problem, top, limit, *machine dims]; the position is -1 where fewer plans
    fit.
    """
    out = divided(fold.rank, shard, lead=3)
    divide = jax.shard_map(
        functools.partial(_questions, fold),
        mesh=mesh(),
        in_specs=(
            divided_leaves(inputs, fold.rank, shard),
            *(COPIED, COPIED, COPIED),
            divided(fold.rank, shard, lead=2),
        ),
        out_specs=(out, out),
        check_vma=False,
    )
    return divide(inputs, varied, distinct, plans, fits)


def _questions(
    fold: FoldConfig,
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    plans: Plans,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Evaluate the parts once, then fold the plans of each problem in turn."""
    dims = fits.shape[2:]
    bare = dataclasses.replace(inputs, plan=None)
    across = jax.tree.map(lambda leaf: leaf[None] if jnp.ndim(leaf) else leaf, bare)

    def table(name: str, part: Any) -> Any:
        fields = {f: c.reshape(-1, *(1,) * fold.rank) for f, c in distinct[name].items()}
        found = part(across, fold.recipe, **fields)
        # a number that no plan moves has one row, which every index reads
        return jax.tree.map(lambda leaf: lane_values(jnp.atleast_1d(leaf), dims, lead=1), found)

    tables = {name: table(name, part) for name, part in fold.estimator.parts.items()}
    lanes = jax.tree.map(lambda leaf: lane_values(leaf, dims, lead=0), bare)

    def question(one: tuple[dict[str, jax.Array], Plans, jax.Array]) -> tuple[Any, Any]:
        values, table, fit = one
        asked = lanes
        for path, value in values.items():
            asked = replace_at(asked, path, value)
        position, objective = _question(fold, dims, asked, tables, table, fit.reshape(len(fit), -1))
        shape = (fold.top, len(fit), *dims)
        return position.reshape(shape), objective.reshape(shape)

    return lax.map(question, (varied, plans, fits))


def _question(
    fold: FoldConfig,
    dims: tuple[int, ...],
    inputs: Any,
    tables: dict[str, Any],
    plans: Plans,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the best plans of one problem, [top, limit, lane]."""
    width = fits.shape[-1]
    dims = dims if dims and dims[-1] >= SHORT else (width,)
    objective = objective_of(fold, dims, inputs, tables, plans)
    minima = block_minima(fold, objective, plans.counts, len(plans.split), dims)
    split = plans.split if fold.per_split and fold.top > 1 else None
    return exact_winners(fold, lambda index: objective(index).reshape(width), minima, split, fits)


def objective_of(
    fold: FoldConfig, dims: tuple[int, ...], inputs: Any, tables: dict[str, Any], plans: Plans
) -> Objective:
    """Return a function from a plan's position to its objective in every lane."""
    estimator, plan_type = fold.estimator, fold.estimator.plan
    assert plan_type is not None

    def objective(index: jax.Array) -> jax.Array:
        plan = {f: _row(c, index).astype(jnp.float64) for f, c in plans.fields.items()}
        rows = {
            name: jax.tree.map(functools.partial(_row, index=_row(plans.rows[name], index)), table)
            for name, table in tables.items()
        }
        asked = dataclasses.replace(inputs, plan=plan_type(**plan))
        found = estimator.aim(fold.objective, fold.sign, asked, fold.recipe, rows)
        return jnp.broadcast_to(found, dims)

    return objective


def _row(column: jax.Array, index: jax.Array) -> jax.Array:
    """Return one row without a check for negative indices, so that the loop stays vectorised.

    What is the same in every row, such as the time of a part that no layer has, is a number.
    """
    if column.ndim == 0:
        return column
    return lax.dynamic_index_in_dim(column, index, keepdims=False, allow_negative_indices=False)


def lane_values(leaf: jax.Array, dims: tuple[int, ...], lead: int) -> jax.Array:
    """Return a leaf with its machine dimensions, of size 1 where it does not depend on them.

    A leaf that depends on none has no machine dimensions. If the last dimension is too short for
    vectors, all machine dimensions are flattened to one.
    """
    leaf = jnp.asarray(leaf)
    head, machine = leaf.shape[:lead], leaf.shape[lead:]
    if all(size == 1 for size in machine):
        return leaf.reshape(head)
    if dims[-1] < SHORT:
        return jnp.broadcast_to(leaf, head + dims).reshape(*head, math.prod(dims))
    return leaf


def exact_winners(
    fold: FoldConfig,
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
    if fold.top == 1:
        first, tied, least = _first_blocks(minima, fits // fold.block)
        if fold.block == 1:  # every plan is a block
            return jnp.where(least < FAR, tied, -1)[None], least[None]
        chosen = jnp.stack([first, jnp.where(tied == first, -1, tied)])
    else:
        chosen = _least_blocks(fold, minima, fits // fold.block)
    cut = jnp.where(fits % fold.block > 0, fits // fold.block, -1)  # block that fits only partly
    chosen = jnp.concatenate([chosen, cut[None]])
    values = _values(fold, objective, chosen, len(minima))
    offsets = jnp.arange(fold.block)[None, :, None, None]
    position = chosen[:, None] * fold.block + offsets
    values = jnp.where((chosen[:, None] >= 0) & (position < fits[None, None]), values, FAR)
    values = values.reshape(-1, *fits.shape)
    position = position.reshape(-1, *fits.shape)
    return best_of(fold.top, values, position, position if split is None else split[position])


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


def _least_blocks(fold: FoldConfig, minima: jax.Array, whole_blocks: jax.Array) -> jax.Array:
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

    none = jnp.full((2 * fold.looks, *whole_blocks.shape), -1)
    return lax.fori_loop(0, fold.looks, pick, (none, fitting))[0]


def _values(fold: FoldConfig, objective: Objective, chosen: jax.Array, blocks: int) -> jax.Array:
    """Return the objectives of every plan in the chosen blocks, [look, offset, limit, lane].

    Each chosen block is evaluated once for all lanes, a few blocks at a time, and its values are
    copied to every limit and lane that chose it.
    """
    looks, limits, lanes = chosen.shape
    named = jnp.where(chosen < 0, blocks, chosen)
    wanted = jnp.zeros(blocks, bool).at[named].set(True, mode="drop")
    order, number = jnp.argsort(~wanted), jnp.sum(wanted)
    slot = (jnp.cumsum(wanted) - 1)[chosen]
    slots = max(1, min(blocks, HELD // (fold.block * lanes)))
    offset = jnp.arange(fold.block)[None, :, None, None]
    lane = jnp.arange(lanes)[None, None, None]

    def some(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        first = turn * slots

        def visit(place: jax.Array, exact: jax.Array) -> jax.Array:
            block, offset = order[first + place // fold.block], place % fold.block
            row = objective(block * fold.block + offset)
            return lax.dynamic_update_index_in_dim(exact, row, place, 0)

        exact, values = held
        plans = jnp.minimum(number - first, slots) * fold.block
        exact = lax.fori_loop(0, plans, visit, exact)
        place = slot - first
        here = (place >= 0) & (place < slots)
        row = jnp.clip(place, 0, slots - 1)[:, None] * fold.block + offset
        return exact, jnp.where(here[:, None], exact[row, lane], values)

    start = (
        jnp.full((slots * fold.block, lanes), FAR),
        jnp.full((looks, fold.block, limits, lanes), FAR),
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


def block_minima(
    fold: FoldConfig, objective: Objective, count: jax.Array, size: int, dims: tuple[int, ...]
) -> jax.Array:
    """Return the least objective of each block of plans [block, lane].

    If only the best plan is wanted, of each block and those before it. ``count`` of the ``size``
    plans are folded; ``dims`` is the shape of the objective of one.
    """
    unroll = min(UNROLL, fold.block)

    def one_block(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
        minima, before = held

        def some_plans(part: jax.Array, least: jax.Array) -> jax.Array:
            for number in range(unroll):
                value = objective(turn * fold.block + part * unroll + number)
                least = jnp.where(value < least, value, least)
            return least

        start = before if fold.top == 1 else jnp.full(dims, FAR)
        least = lax.fori_loop(0, fold.block // unroll, some_plans, start)
        return lax.dynamic_update_slice_in_dim(minima, least.reshape(1, -1), turn, 0), least

    start = jnp.full((-(-size // fold.block), math.prod(dims)), FAR), jnp.full(dims, FAR)
    return lax.fori_loop(0, (count + fold.block - 1) // fold.block, one_block, start)[0]
