"""The compiled test of every plan on every box: can it win there?"""

import dataclasses
import functools
import itertools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.fold import Distinct, FoldConfig, Plans
from jaxroof.records import get_at, replace_at

Array = Any  # a NumPy array on the host, a JAX array on the devices


class Directions(NamedTuple):
    """The directions of the derivatives at the centres of boxes, and the steps to the corners."""

    ways: tuple[dict[str, Array], ...]  # path -> d x [*boxes]; those of the first axis are first
    steps: tuple[Array, ...]  # of each axis, in its own ways [way, corner, *boxes]


class Bounds(NamedTuple):
    """What a plan must be able to beat on each box, by the number of plans that fit."""

    reach: Array  # plans before this position fit somewhere at this level [problem, level, *boxes]
    most: Array  # incumbent's objective at each corner, with slack [problem, level, corner, *boxes]
    incumbent: Array  # its position, -1 if there is none [problem, level, *boxes]


@functools.partial(jax.jit, static_argnums=(0, 1))
def can_win(
    fold: FoldConfig,
    shard: int,
    inputs: Any,
    directions: Directions,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    plans: Plans,
    bounds: Bounds,
) -> tuple[jax.Array, jax.Array]:
    """Return which plans can win on each box, and where the law of convexity holds.

    A plan cannot win where f(c) + f'(c) (v - c) exceeds the bound at every corner v.

    Assumes: an objective convex in the coordinates along which the directions lead.
    Shapes: ``inputs`` are the centres c of boxes, with an axis of boxes as a dimension each;
    -> booleans [problem, plan, *boxes], [problem, *boxes]. The law is broken where the tangent of
    an incumbent exceeds its own objective at a corner. ``shard`` is the dimension that is split
    over the devices.
    """
    rank = fold.rank
    layout = functools.partial(folding.divided_leaves, rank=rank, shard=shard)
    divide = jax.shard_map(
        functools.partial(_questions, fold),
        mesh=folding.mesh(),
        in_specs=(layout(inputs), layout(directions), *[folding.COPIED] * 3, layout(bounds)),
        out_specs=(folding.divided(rank, shard, lead=2), folding.divided(rank, shard, lead=1)),
        check_vma=False,
    )
    return divide(inputs, directions, varied, distinct, plans, bounds)


def _questions(
    fold: FoldConfig,
    inputs: Any,
    directions: Directions,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    plans: Plans,
    bounds: Bounds,
) -> tuple[jax.Array, jax.Array]:
    """Differentiate the parts once, then test the plans of each problem in turn."""
    dims = bounds.incumbent.shape[2:]
    bare = dataclasses.replace(inputs, plan=None)

    def evaluated(inputs: Any) -> tuple[Any, dict[str, Any]]:
        lanes = jax.tree.map(lambda leaf: folding.lane_values(leaf, dims, lead=0), inputs)
        return lanes, folding.part_tables(fold, dims, inputs, distinct)

    def slope(way: dict[str, jax.Array]) -> Any:
        def moved(values: dict[str, jax.Array]) -> Any:
            return evaluated(replace_all(bare, values))

        here = {path: get_at(bare, path) for path in way}
        return jax.jvp(moved, (here,), (way,))[1]

    slopes = [slope(way) for way in directions.ways]
    lanes, tables = evaluated(bare)
    steps = tuple(folding.lane_values(some, dims, lead=2) for some in directions.steps)

    def question(one: tuple[dict[str, jax.Array], Plans, Bounds]) -> tuple[jax.Array, jax.Array]:
        values, table, bound = one
        asked, still = lanes, [lane for lane, _ in slopes]
        for path, value in values.items():
            asked = replace_at(asked, path, value)
            still = [replace_at(lane, path, jnp.zeros_like(value)) for lane in still]
        along = [(lane, rows) for lane, (_, rows) in zip(still, slopes, strict=True)]
        test = _Test(fold, dims, steps, bound)
        wins, holds = test.question(asked, tables, along, table)
        return wins.reshape(-1, *dims), holds.reshape(dims)

    return lax.map(question, (varied, plans, bounds))


class _Test(NamedTuple):
    """The test of one problem's plans."""

    fold: FoldConfig
    dims: tuple[int, ...]
    steps: tuple[jax.Array, ...]
    bound: Bounds

    def question(
        self, asked: Any, tables: dict[str, Any], slopes: list[Any], plans: Plans
    ) -> tuple[jax.Array, jax.Array]:
        """Return which plans can win [plan, lane], and whether the law holds [lane]."""
        levels, width = len(self.bound.incumbent), self.bound.incumbent[0].size
        dims = self.dims if self.dims and self.dims[-1] >= folding.SHORT else (width,)
        reach = folding.lane_values(self.bound.reach, self.dims, lead=1)
        most = self.bound.most.reshape(*self.bound.most.shape[:2], *dims)
        incumbent = self.bound.incumbent.reshape(levels, *dims)

        def plan(index: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[Any, Any]:
            def objective(lanes: Any, rows: dict[str, Any]) -> jax.Array:
                return folding.objective_of(self.fold, dims, lanes, rows, plans)(index)

            value = objective(asked, tables)
            along = [jax.jvp(objective, (asked, tables), some)[1] for some in slopes]
            level = jnp.sum(index >= reach, axis=0)  # the lowest at which the plan fits
            limit, best = (_at_level(values, level) for values in (most, incumbent))
            every, some = self.above(value, along, limit)
            wins, holds = held
            won = jnp.broadcast_to(~every & (level < levels), dims).reshape(width)
            wins = lax.dynamic_update_index_in_dim(wins, won, index, 0)
            return wins, holds & ~((best == index) & some)

        start = (jnp.zeros((len(plans.split), width), bool), jnp.ones(dims, bool))
        wins, holds = lax.fori_loop(0, plans.counts, plan, start)
        return wins, holds.reshape(width)

    def above(
        self, value: jax.Array, along: list[jax.Array], limit: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Return whether a tangent exceeds the limit at every corner, and at any corner."""
        left, shifts = iter(along), []
        for steps in self.steps:
            ways = [next(left) for _ in steps]
            moves = [
                [s[n] * w for s, w in zip(steps, ways, strict=True)] for n in range(steps.shape[1])
            ]
            shifts.append([functools.reduce(operator.add, some) if some else 0.0 for some in moves])
        every, some = jnp.ones(value.shape, bool), jnp.zeros(value.shape, bool)
        for number, corner in enumerate(itertools.product(*shifts)):
            higher = functools.reduce(operator.add, corner, value) > limit[number]
            every, some = every & higher, some | higher
        return every, some


def _at_level(values: jax.Array, level: jax.Array) -> jax.Array:
    """Return values [level, ...] at one level, or at a level for each lane."""
    if level.ndim == 0:
        return lax.dynamic_index_in_dim(values, jnp.minimum(level, len(values) - 1), keepdims=False)
    found = values[0]
    level = level.reshape(*(1,) * (found.ndim - level.ndim), *level.shape)
    for number in range(1, len(values)):
        found = jnp.where(level == number, values[number], found)
    return found
