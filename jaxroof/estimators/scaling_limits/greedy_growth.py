"""Greedy growth: a split grows one degree at a time, always the one that reduces time most."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.answers import answers
from jaxroof.estimators.scaling_limits.data_movement import (
    Degrees,
    Problem,
    outcome,
    point_by_point,
    problem_of,
    sizes,
)
from jaxroof.estimators.scaling_limits.inputs import EXAMPLE_DEVICE, LARGEST_RUN, RunInputs
from jaxroof.formulas.arithmetic import smaller
from jaxroof.records import Number, quantity, record

MICROBATCHES = 23.0  # M stays below 2^23
BLOCK = 64  # microbatch counts that are compared at a time
TIE = 1e-12


@record
class GrowthInputs(RunInputs):
    """A training run, the number of growth steps of its split, and the machine."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )
    steps: Number = quantity("1", "Steps of growth.", whole=True, zero=True, most=1e4, symbol="k")
    growth: Number = quantity(
        "1", "Growth of one degree in a step: 1 doubles it.", default=1.0, most=1e3, symbol="g"
    )


@record
class GrowthReport:
    """The split after the growth steps, and its utilisation."""

    devices: Number = quantity("1", "Devices in use.")
    pipeline: Number = quantity("1", "Pipeline stages.")
    data: Number = quantity("1", "Data-parallel degree.")
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.")
    residual_tensor: Number = quantity("1", "Devices that share the residual width.")
    microbatches: Number = quantity("1", "Microbatches of a batch.")
    batch_time: Number = quantity("s", "Time of one batch.")
    train_time: Number = quantity("s", "Time of the training run.")
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    relative_utilisation: Number = quantity(
        "1", "Share of the sustained rate in use.", better="higher", headline=True
    )
    legal: Any = quantity("1", "No more stages than blocks or microbatches.")


class _Grown(NamedTuple):
    """The number of times each degree has grown, and the power of M in growth steps."""

    degrees: jax.Array  # [4]: stages, replicas, hidden, residual
    microbatches: jax.Array


@answers(EXAMPLE_DEVICE, training_flops=1e26, steps=10.0)
def growth(inputs: GrowthInputs, recipe: None) -> GrowthReport:
    """Return the result of greedy growth, point by point."""
    problem = problem_of(inputs, inputs.training_flops)
    asked = (problem, inputs.steps, inputs.growth)
    counts = point_by_point(_powers, asked)
    split = split_of(counts, inputs.growth)
    found = outcome(problem, split)
    layers = sizes(problem).layers
    return GrowthReport(
        devices=found.devices,
        **split._asdict(),
        batch_time=found.batch_time,
        train_time=found.train_time,
        utilisation=found.utilisation * inputs.system.matrix_efficiency,
        relative_utilisation=found.utilisation,
        legal=(split.pipeline <= layers) & (split.pipeline <= split.microbatches),
    )


def split_of(counts: Degrees, growth: Number) -> Degrees:
    """Return the split after the counted steps: (1 + growth)^n per degree, M = 2^(growth n)."""
    base = 1.0 + growth
    return Degrees(
        pipeline=base**counts.pipeline,
        data=base**counts.data,
        hidden_tensor=base**counts.hidden_tensor,
        residual_tensor=base**counts.residual_tensor,
        microbatches=2.0 ** (growth * counts.microbatches),
    )


def _powers(asked: tuple[Problem, Number, Number]) -> Degrees:
    """Return the growth count of each degree of one point, and the power of its M."""
    problem, steps, growth = asked

    def grow(number: jax.Array, grown: _Grown) -> _Grown:
        """Grow one degree, except in the first step, which only chooses M."""
        more = jnp.where(number > 0, jnp.eye(4), 0.0)
        return _cheapest(problem, growth, grown.degrees[None, :] + more)

    start = _Grown(jnp.zeros(4), jnp.float64(0.0))
    last = jax.lax.fori_loop(0, jnp.asarray(steps).astype(jnp.int64) + 1, grow, start)
    return _counts(last.degrees, last.microbatches)


def _counts(degrees: jax.Array, microbatches: jax.Array) -> Degrees:
    """Return the counts as Degrees, from an array with the degrees on its first dimension."""
    pipeline, data, hidden, residual = degrees
    return Degrees(pipeline, data, hidden, residual, microbatches)


def _cheapest(problem: Problem, growth: Number, options: jax.Array) -> _Grown:
    """Return the option [4 options, 4 degrees] and M of the least time, the first one at a tie.

    Two passes go over the microbatch counts block by block. The first pass finds the least time.
    The second finds the first option that ties with it, by M and then by the order of degrees.
    """
    limit = jnp.ceil(MICROBATCHES / growth)
    blocks = jnp.ceil(limit / BLOCK).astype(jnp.int64)

    def times(block: jax.Array) -> tuple[jax.Array, jax.Array]:
        powers = (BLOCK * block + jnp.arange(BLOCK)).astype(jnp.float64)[:, None]
        split = split_of(_counts(options.T[:, None, :], powers), growth)
        legal = (split.pipeline <= sizes(problem).layers) & (split.pipeline <= split.microbatches)
        legal = legal & (growth * powers < MICROBATCHES)
        return powers, jnp.where(legal, outcome(problem, split).train_time, jnp.inf)

    def least(block: jax.Array, best: Number) -> Number:
        return smaller(best, jnp.min(times(block)[1]))

    best = jax.lax.fori_loop(0, blocks, least, jnp.inf) * (1.0 + TIE)

    def missed(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        return ~state[1] & (state[0] < blocks)

    def look(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        block, _, _ = state
        ties = (times(block)[1] <= best).reshape(-1)
        return block + 1, jnp.any(ties), jnp.argmax(ties)

    block, _, place = jax.lax.while_loop(
        missed, look, (jnp.int64(0), jnp.bool_(False), jnp.int64(0))
    )
    power = (BLOCK * (block - 1) + place // 4).astype(jnp.float64)
    return _Grown(options[place % 4], power)
