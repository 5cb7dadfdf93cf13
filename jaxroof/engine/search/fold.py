"""The hot path of a search: a loop over the plans, with the machines in vector lanes.

Plans are sorted by need, so the plans that fit a limit are a prefix of the list. The fold stores
only the minimum objective of each block of plans. A second pass (second_pass.py) then finds the
winners inside the blocks that can contain them.
"""

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxroof.engine.grid.compiled import keep_programs
from jaxroof.engine.search.second_pass import (
    Objective,
    SecondPass,
    block_minima,
    exact_winners,
    running_minima,
)
from jaxroof.estimator import Estimator
from jaxroof.records import replace_at

keep_programs()

SHORT = 16  # a shorter last dimension is merged with the others into one vector loop
COPIED = PartitionSpec()  # replicated on every device

Array = Any  # a NumPy array on the host, a JAX array on the devices


class Plans(NamedTuple):
    """The plans of several problems, each sorted by need, padded to one shape [problem, plan]."""

    fields: dict[str, Array]  # plan fields, whole numbers
    rows: dict[str, Array]  # part -> each plan's row in the table of the part
    split: Array  # index of each plan's split
    counts: Array  # number of plans without padding [problem]


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["numbers", "columns"],
    meta_fields=["whole", "single"],
)
@dataclasses.dataclass(frozen=True)
class PackedInputs:
    """Inputs whose plain numbers are one array."""

    numbers: Array  # values of the leaves without dimensions [number]
    columns: list[Array]  # the other leaves
    whole: Any  # the structure of the inputs
    single: tuple[bool, ...]  # whether each leaf has no dimensions

    @classmethod
    def of(cls, inputs: Any) -> "PackedInputs":
        """Return the inputs with their plain numbers as one array."""
        leaves, whole = jax.tree.flatten(inputs)
        single = tuple(np.ndim(leaf) == 0 for leaf in leaves)
        numbers = [leaf for leaf, plain in zip(leaves, single, strict=True) if plain]
        columns = [leaf for leaf, plain in zip(leaves, single, strict=True) if not plain]
        return cls(np.array(numbers, np.float64), columns, whole, single)

    def inputs(self) -> Any:
        """Return the inputs."""
        numbers, columns = iter(self.numbers), iter(self.columns)
        leaves = [next(numbers if plain else columns) for plain in self.single]
        return jax.tree.unflatten(self.whole, leaves)


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
    block: int
    every: bool  # keep the running minimum of every plan, not only of every block; if top is 1
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
    packed: PackedInputs,
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
    out, inputs = divided(fold.rank, shard, lead=3), packed.inputs()
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
    tables = part_tables(fold, dims, bare, distinct)
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


def part_tables(
    fold: FoldConfig, dims: tuple[int, ...], bare: Any, distinct: Distinct
) -> dict[str, Any]:
    """Evaluate every part on its distinct rows: [row, lane], or [row] where all lanes agree."""
    leaves = part_leaves(fold, bare, distinct)
    return jax.tree.map(lambda leaf: lane_values(leaf, dims, lead=1), leaves)


def part_leaves(fold: FoldConfig, bare: Any, distinct: Distinct) -> dict[str, Any]:
    """Evaluate every part on its distinct rows: [row, *machine], with size 1 where all agree."""
    across = jax.tree.map(lambda leaf: leaf[None] if jnp.ndim(leaf) else leaf, bare)

    def table(name: str, part: Any) -> Any:
        fields = {f: c.reshape(-1, *(1,) * fold.rank) for f, c in distinct[name].items()}
        return part(across, fold.recipe, **fields)

    return {name: table(name, part) for name, part in fold.estimator.parts.items()}


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
    count, size = plans.counts, len(plans.split)
    if fold.every:
        minima = running_minima(objective, count, size, dims)
    else:
        minima = block_minima(objective, count, size, dims, fold.block, running=fold.top == 1)
    split = plans.split if fold.per_split and fold.top > 1 else None
    look = SecondPass(fold.top, fold.looks, 1 if fold.every else fold.block)
    return exact_winners(look, lambda index: objective(index).reshape(width), minima, split, fits)


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
    """Return one row without a check for negative indices, so that the loop stays vectorised."""
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
