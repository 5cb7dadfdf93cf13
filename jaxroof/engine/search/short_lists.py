"""The compiled winners of boxes of machines, each box with a short list of plans of its own."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.fold import Distinct, FoldConfig, Plans
from jaxroof.engine.search.second_pass import FAR, best_of
from jaxroof.records import replace_at


class ShortLists(NamedTuple):
    """The plans of each problem that can win on a box, in the order of their positions."""

    plans: Plans  # every array [box, problem, plan], and the counts [box, problem]
    positions: Any  # in the whole list of the problem [box, problem, plan]


@functools.partial(jax.jit, static_argnums=(0, 1))
def winners(
    fold: FoldConfig,
    dims: tuple[int, ...],
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    lists: ShortLists,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the positions and objectives of the best plans of each box's list, best first.

    Ties within 1e-12 go to the first position, as in the fold.

    Shapes: ``inputs`` has leaves [box, *dims] or numbers, ``distinct`` columns [box, row], ``fits``
    how many plans fit [box, problem, limit, *dims] -> two arrays [box, problem, top, limit, *dims];
    a position is -1 where fewer plans fit. ``dims`` are the machine axes of one box. The boxes are
    divided over the devices.
    """
    (name,) = folding.mesh().axis_names

    def spec(leaf: jax.Array) -> PartitionSpec:
        return PartitionSpec(name) if jnp.ndim(leaf) else PartitionSpec()

    def shared(*given: Any) -> tuple[jax.Array, jax.Array]:
        inputs, varied, distinct, lists, fits = given
        leaves, shape = jax.tree.flatten(inputs)
        moved = [leaf for leaf in leaves if leaf.ndim]

        def box(one: Any) -> tuple[jax.Array, jax.Array]:
            own, *rest = one
            own = iter(own)
            some = jax.tree.unflatten(shape, [next(own) if leaf.ndim else leaf for leaf in leaves])
            return _box(fold, dims, some, varied, *rest)

        return lax.map(box, (moved, distinct, lists, fits))

    whole = jax.tree.map(lambda _: PartitionSpec(), varied)
    boxed = (jax.tree.map(spec, tree) for tree in (distinct, lists, fits))
    divide = jax.shard_map(
        shared,
        mesh=folding.mesh(),
        in_specs=(jax.tree.map(spec, inputs), whole, *boxed),
        out_specs=(PartitionSpec(name), PartitionSpec(name)),
        check_vma=False,
    )
    return divide(inputs, varied, distinct, lists, fits)


def _box(
    fold: FoldConfig,
    dims: tuple[int, ...],
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    lists: ShortLists,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the winners of one box, [problem, top, limit, *dims]."""
    bare = dataclasses.replace(inputs, plan=None)
    tables = folding.part_tables(fold, dims, bare, distinct)
    lanes = jax.tree.map(lambda leaf: folding.lane_values(leaf, dims, lead=0), bare)
    width = math.prod(dims)
    flat = dims if dims and dims[-1] >= folding.SHORT else (width,)

    def question(one: tuple[dict[str, jax.Array], ShortLists, jax.Array]) -> Any:
        values, (plans, positions), fit = one
        asked = lanes
        for path, value in values.items():
            asked = replace_at(asked, path, value)
        objective = folding.objective_of(fold, flat, asked, tables, plans)
        limit = jnp.broadcast_to(fit, (len(fit), *dims)).reshape(len(fit), width)

        def plan(index: jax.Array, held: jax.Array) -> jax.Array:
            value = jnp.broadcast_to(objective(index).reshape(1, width), limit.shape)
            value = jnp.where(positions[index] < limit, value, FAR)
            return lax.dynamic_update_index_in_dim(held, value, index, 0)

        start = jnp.full((len(positions), *limit.shape), FAR)
        found = lax.fori_loop(0, plans.counts, plan, start)
        at = positions[:, None, None]
        split = plans.split[:, None, None] if fold.per_split and fold.top > 1 else at
        position, best = best_of(fold.top, found, at, split)
        shape = (fold.top, len(fit), *dims)
        return position.reshape(shape), best.reshape(shape)

    return lax.map(question, (varied, lists, fits))
