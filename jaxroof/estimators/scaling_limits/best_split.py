"""The best split of a run: all degrees and microbatch counts in one array program.

Two exact facts reduce the search. First, the time of a batch depends on the two tensor degrees
only through their product p and through q = h (p_r - 1) + (p_h - 1), and it increases with q. So
for each product, only the pair with the smallest q is needed. Second, the data-parallel degree
need not be enumerated. The time is convex and piecewise linear in u = 1 / p_d, and time / u never
increases. So the largest u that meets the limit is best, and Newton's method from u = 1 finds it
exactly.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.scaling_limits.data_movement import (
    Degrees,
    Outcome,
    Problem,
    batch_limit,
    batch_seconds,
    latency_floor,
    outcome,
    sizes,
)
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number

TENSOR = 14  # each tensor degree is at most 2^14
MICROBATCHES = 22  # M is at most 2^22, and so is pp
NEWTON = 7  # the time has at most 6 kinks in u
TIE = 1e-12  # relative rounding error of a solution on the limit
PAIRS = tuple((i, j) for i in range(MICROBATCHES + 1) for j in range(i, MICROBATCHES + 1))


class BestSplit(NamedTuple):
    """The best split of a run, and its share of the sustained rate (0: no split is feasible)."""

    split: Degrees
    utilisation: Number
    feasible: Number


class _Lanes(NamedTuple):
    """The grid of splits: pipelines and microbatch counts on one axis, tensor degrees on one."""

    pipeline: jax.Array
    microbatches: jax.Array
    product: jax.Array
    hidden: jax.Array  # from the pair with this product that sends least
    residual: jax.Array
    sent: jax.Array  # q


def _lanes(hidden_factor: Number) -> _Lanes:
    first, second = zip(*PAIRS, strict=True)
    powers = jnp.arange(2.0 * TENSOR + 1.0)[:, None]
    residual = jnp.arange(TENSOR + 1.0)[None, :]
    legal = (powers >= residual) & (powers - residual <= TENSOR)
    sent = hidden_factor * (2.0**residual - 1.0) + 2.0 ** (powers - residual) - 1.0
    sent = jnp.where(legal, sent, jnp.inf)
    chosen = jnp.argmin(sent, axis=1).astype(jnp.float64)[:, None]
    return _Lanes(
        pipeline=2.0 ** jnp.asarray(first, jnp.float64)[None, :],
        microbatches=2.0 ** jnp.asarray(second, jnp.float64)[None, :],
        product=2.0**powers,
        hidden=2.0 ** (powers - chosen),
        residual=2.0**chosen,
        sent=jnp.min(sent, axis=1)[:, None],
    )


def best_split(problem: Problem) -> BestSplit:
    """Return the best split of one point, for a problem of scalars.

    Ties go to the fewest stages, then the fewest microbatches, then the smallest tensor degrees.
    """
    lanes, found = _lanes(problem.scaling.hidden_factor), sizes(problem)
    limit = batch_limit(problem)
    floor = latency_floor(found.layers, problem.latency)
    u, time = _largest(problem, lanes)
    within = limit * (1.0 + TIE)
    legal = (lanes.pipeline <= found.layers) & (lanes.microbatches <= found.batch)
    enough = u * found.batch >= lanes.microbatches * (1.0 - TIE)
    feasible = legal & enough & (time <= within) & (floor <= within)
    train_time = found.tokens / found.batch * larger(time, floor)
    devices = lanes.pipeline * lanes.product * train_time * problem.rates.arithmetic
    share = jnp.where(feasible, u * problem.training_flops * problem.width / devices, 0.0)
    most = jnp.max(share)
    winner = jnp.argmax((share >= most * (1.0 - TIE)).T.reshape(-1))
    row, column = winner % lanes.product.shape[0], winner // lanes.product.shape[0]
    some = most > 0.0
    split = Degrees(
        pipeline=lanes.pipeline[0, column],
        data=1.0 / jnp.where(some, u[row, column], 1.0),
        hidden_tensor=lanes.hidden[row, 0],
        residual_tensor=lanes.residual[row, 0],
        microbatches=lanes.microbatches[0, column],
    )
    return BestSplit(split, most, some)


def _largest(problem: Problem, lanes: _Lanes) -> tuple[jax.Array, jax.Array]:
    """Return the largest u in (0, 1] for which the batch meets the limit, and its time.

    If there is none, u is 0 or less. The times of a lane are multiplied by its tensor product.
    """
    found, scaling, rates = sizes(problem), problem.scaling, problem.rates
    square = scaling.hidden_factor * found.hidden**2.0 * problem.width
    arithmetic = 6.0 * square * found.batch / rates.arithmetic
    memory = 4.0 * square / rates.memory
    sends = problem.coefficient * found.batch * found.hidden * problem.width / rates.network
    sends = sends * lanes.sent
    sums = problem.coefficient * square
    sum_memory, sum_network = sums / rates.memory, sums / rates.network
    microbatches, limit = lanes.microbatches, batch_limit(problem) * lanes.product
    stage = 2.0 * found.layers / lanes.pipeline - 1.0
    rest = microbatches - 1.0 + 2.0 * (lanes.pipeline - 1.0)
    math_each, sends_each = arithmetic / microbatches, sends / microbatches

    def phases(u: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the time of a batch and its slope in u."""
        apart = 1.0 - u
        gradient, moved = sum_network * apart, memory + sum_memory * apart
        boundary = _longest(
            (math_each * u, math_each),
            (moved, -sum_memory),
            (sends_each * u + gradient, sends_each - sum_network),
        )
        reducing = _longest(
            (arithmetic * u, arithmetic),
            (microbatches * memory + sum_memory * apart, -sum_memory),
            (sends * u + gradient, sends - sum_network),
        )
        sustained = _longest(
            (math_each * u, math_each), (memory, 0.0), (sends_each * u, sends_each)
        )
        parts = zip(boundary, reducing, sustained, strict=True)
        time, slope = (first + stage * second + rest * third for first, second, third in parts)
        return time, slope

    def newton(_: int, u: jax.Array) -> jax.Array:
        time, slope = phases(u)
        nearer = jnp.where(
            slope > 0.0, u - (time - limit) / jnp.where(slope > 0.0, slope, 1.0), 0.0
        )
        return jnp.where(time > limit, nearer, u)

    u = jax.lax.fori_loop(0, NEWTON, newton, jnp.ones((len(lanes.product), len(PAIRS))))
    return u, phases(u)[0] / lanes.product


def _longest(*lines: tuple[Number, Number]) -> tuple[Number, Number]:
    """Return the (value, slope) with the largest value."""
    most, slope = lines[0]
    for value, other in lines[1:]:
        slope = jnp.where(value > most, other, slope)
        most = jnp.where(value > most, value, most)
    return most, slope


def with_slopes(problem: Problem, best: BestSplit) -> tuple[Degrees, Outcome]:
    """Return the best split and its outcome, both with derivatives."""
    moved = best.split._replace(data=_data(problem, best))
    return moved, outcome(problem, moved)


@jax.custom_jvp
def _data(problem: Problem, best: BestSplit) -> Number:
    """Return the data-parallel degree of the best split, with its derivative.

    The derivative is that of one more step of Newton's method. Where u = 1 / p_d lies on the
    limit, it follows the limit. Where u = 1 meets the limit, the derivative is 0.
    """
    return best.split.data


@_data.defjvp
def _data_jvp(primals: Any, tangents: Any) -> tuple[Number, Number]:
    problem, best = primals
    u = 1.0 / best.split.data

    def over(u: Number, problem: Problem) -> Number:
        time = batch_seconds(problem, best.split._replace(data=1.0 / u))
        return time - batch_limit(problem)

    _, slope = jax.jvp(lambda u: over(u, problem), (u,), (jnp.ones_like(u),))
    _, change = jax.jvp(lambda problem: over(u, problem), (problem,), (tangents[0],))
    on_limit = best.feasible & (u < 1.0) & (slope > 0.0)
    step = jnp.where(on_limit, change / jnp.where(on_limit, slope, 1.0), 0.0)
    return _data(problem, best), step / u**2.0  # derivative of p_d = 1 / u, as u changes by -step
