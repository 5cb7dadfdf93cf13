"""The compiled winners of boxes of machines, each box with a short list of plans of its own."""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.fold import Distinct, FoldConfig
from jaxroof.engine.search.second_pass import FAR
from jaxroof.estimator import TIE
from jaxroof.records import replace_at

Array = Any  # a NumPy array on the host, a JAX array on the devices


class ShortLists(NamedTuple):
    """The plans that can win on each box, one list after another, in the order of positions."""

    fields: dict[str, Array]  # plan fields, whole numbers [entry]
    rows: dict[str, Array]  # part -> row in the table of the part [entry]
    position: Array  # in the whole list of the problem [entry]
    split: Array  # index of the plan's split; the position, if splits do not matter [entry]


class Boxes(NamedTuple):
    """A grid of boxes of equal sides, and where the list of each problem begins."""

    start: Array  # first entry of a list [problem, *boxes]
    count: Array  # its entries [problem, *boxes]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def winners(
    fold: FoldConfig,
    sides: tuple[int, ...],
    shard: int,
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    lists: ShortLists,
    boxes: Boxes,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return the positions and objectives of the best plans of each box's list, best first.

    Ties within 1e-12 go to the first position, as in the fold.

    Shapes: ``inputs`` and ``fits`` [problem, limit, *machine] have the machine axes as dimensions,
    of as many points as there are boxes times their ``sides`` -> two arrays [problem, top, limit,
    *machine]; a position is -1 where fewer plans fit. Dimension ``shard`` is split over devices.
    """
    layout = functools.partial(folding.divided_leaves, rank=fold.rank, shard=shard)
    out = folding.divided(fold.rank, shard, lead=3)
    divide = jax.shard_map(
        functools.partial(_region, fold, sides),
        mesh=folding.mesh(),
        in_specs=(layout(inputs), *[folding.COPIED] * 3, layout(boxes), layout(fits)),
        out_specs=(out, out),
        check_vma=False,
    )
    return divide(inputs, varied, distinct, lists, boxes, fits)


def _region(
    fold: FoldConfig,
    sides: tuple[int, ...],
    inputs: Any,
    varied: dict[str, jax.Array],
    distinct: Distinct,
    lists: ShortLists,
    boxes: Boxes,
    fits: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Evaluate the parts once, then search the list of each problem on each box in turn."""
    bare = dataclasses.replace(inputs, plan=None)
    tables = folding.part_leaves(fold, bare, distinct)
    problems, *grid = boxes.count.shape
    shape = tuple(count * side for count, side in zip(grid, sides, strict=True))
    size = (problems, fold.top, fits.shape[1], *shape)

    def box(turn: jax.Array, held: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        index = jnp.unravel_index(turn % math.prod(grid), grid) if grid else ()
        problem = turn // math.prod(grid)
        origin = tuple(i * side for i, side in zip(index, sides, strict=True))
        at = _Box(sides, origin)
        asked = jax.tree.map(lambda leaf: at.part(leaf) if jnp.ndim(leaf) else leaf, bare)
        for path, values in varied.items():
            asked = replace_at(asked, path, values[problem])
        start, count = (a[(problem, *index)] for a in boxes)
        fit = at.part(lax.dynamic_index_in_dim(fits, problem, keepdims=False), lead=1)
        search = _List(fold, at, asked, tables, lists, fit)
        found = search.best(start, count)
        to = (problem, 0, 0, *origin)
        return tuple(  # type: ignore[return-value]
            lax.dynamic_update_slice(whole, part[None], to)
            for whole, part in zip(held, found, strict=True)
        )

    first = (jnp.full(size, -1), jnp.zeros(size))
    return lax.fori_loop(0, problems * math.prod(grid), box, first)


class _Box(NamedTuple):
    """One box: its sides, and its first point along each dimension."""

    sides: tuple[int, ...]
    origin: tuple[jax.Array, ...]

    def part(self, leaf: jax.Array, lead: int = 0, row: jax.Array | None = None) -> jax.Array:
        """Return a leaf's part within the box, and of one row if the leaf begins with rows."""
        machine = leaf.shape[-len(self.sides) :] if self.sides else ()
        sizes = tuple(
            min(n, side) if n > 1 else 1 for n, side in zip(machine, self.sides, strict=True)
        )
        starts = tuple(o if n > 1 else 0 for n, o in zip(machine, self.origin, strict=True))
        zero = (0,) * lead
        begin = (*zero, *starts) if row is None else (row, *starts)
        kept = leaf.shape[:lead] if row is None else (1,)
        found = lax.dynamic_slice(leaf, begin, (*kept, *sizes), allow_negative_indices=False)
        return found.reshape(sizes) if row is not None else found


class _List(NamedTuple):
    """The list of one problem on one box."""

    fold: FoldConfig
    box: _Box
    inputs: Any
    tables: dict[str, Any]
    lists: ShortLists
    fits: jax.Array  # [limit, *machine]

    def objective(self, entry: jax.Array) -> jax.Array:
        """Return the objective of an entry on all machines of the box, [*machine]."""
        estimator = self.fold.estimator
        assert estimator.plan is not None

        def row(leaf: jax.Array, number: jax.Array) -> jax.Array:
            leaf = jnp.asarray(leaf)
            if leaf.ndim <= self.fold.rank:
                return leaf if leaf.ndim == 0 else self.box.part(leaf)
            return self.box.part(leaf, row=jnp.minimum(number, len(leaf) - 1))

        plan = {f: c[entry].astype(jnp.float64) for f, c in self.lists.fields.items()}
        rows = {
            name: jax.tree.map(functools.partial(row, number=self.lists.rows[name][entry]), table)
            for name, table in self.tables.items()
        }
        asked = dataclasses.replace(self.inputs, plan=estimator.plan(**plan))
        report = estimator.step(asked, self.fold.recipe, **rows)
        value = self.fold.sign * getattr(report, self.fold.objective)
        return jnp.broadcast_to(value, self.box.sides)

    def best(self, start: jax.Array, count: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the best entries, best first, ties to the first: [top, limit, *machine] each."""
        shape = (self.fits.shape[0], *self.box.sides)
        far, none = jnp.full(shape, FAR), jnp.full(shape, -1)
        taken: list[jax.Array] = []
        positions, objectives = [], []

        def value(entry: jax.Array) -> jax.Array:
            open_ = self.lists.position[entry] < self.fits
            for split in taken:
                open_ = open_ & (self.lists.split[entry] != split)
            return jnp.where(open_, self.objective(entry)[None], FAR)

        for _ in range(self.fold.top):

            def least(entry: jax.Array, held: jax.Array) -> jax.Array:
                found = value(entry)
                return jnp.where(found < held, found, held)

            bound = lax.fori_loop(start, start + count, least, far)
            bound = bound + TIE * jnp.abs(bound)

            def first(turn: jax.Array, held: Any, bound: jax.Array = bound) -> Any:
                entry = start + count - 1 - turn  # backwards, so that the first tied one stays
                found = value(entry)
                here = (found <= bound) & (found < FAR)
                new = (self.lists.position[entry], self.lists.split[entry], found)
                return tuple(jnp.where(here, a, b) for a, b in zip(new, held, strict=True))

            position, split, objective = lax.fori_loop(0, count, first, (none, none, far))
            positions.append(position)
            objectives.append(objective)
            taken.append(split)
        return jnp.stack(positions), jnp.stack(objectives)
