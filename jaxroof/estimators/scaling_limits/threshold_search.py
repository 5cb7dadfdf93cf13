"""Where utilisation last reaches a target: the walk down from the largest runs, and its slope.

Utilisation is no falling function of the run's FLOP and often jumps where it crosses the target,
so that bracket and bisection are part of the definition: another search finds another crossing.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.scaling_limits.best_split import BestSplit, best_split, with_slopes
from jaxroof.estimators.scaling_limits.problem import Problem, batch_limit, phases_sum, sizes
from jaxroof.formulas.arithmetic import smaller
from jaxroof.formulas.data_movement import Degrees
from jaxroof.formulas.training_scale import latency_floor
from jaxroof.records import Number

START, END = 400, 100  # tenths of decades of FLOP: the walk leads from 1e40 down to 1e10
HALVINGS = 48
NEAR = 1e-7  # of u: on which side of a kink a time is taken
FAR = 2.0  # stands for a bound that is nowhere near
ACTIVE = 1e-6  # a bound holds at the crossing when it is as close as this, relatively


class Crossing(NamedTuple):
    """Where a target is last reached, the best split there, and the share just above."""

    training_flops: Number
    best: BestSplit
    beyond: Number
    found: Number
    tenth: Number  # where the walk ended


class _State(NamedTuple):
    """Where a search stands: on its walk, or between a run that reaches the target and one not."""

    tenth: Number
    walking: Number
    left: Number  # halvings
    below: Number
    above: Number
    best: BestSplit
    beyond: Number


def crossing(problem: Problem, target: Number, start: Number) -> Crossing:
    """Return where the utilisation of one point last reaches a target, from a place of the walk."""

    def unfinished(state: Any) -> Any:
        return jnp.where(state.walking, state.tenth >= END, state.left > 0.0)

    def search(state: Any) -> Any:
        walking = state.walking
        middle = 0.5 * (state.below + state.above)
        exponent = jnp.where(walking, state.tenth / 10.0, middle)
        found = best_split(problem._replace(training_flops=10.0**exponent))
        reached = found.utilisation >= target
        on = walking & ~reached
        return _State(
            tenth=jnp.where(on, state.tenth - 1.0, state.tenth),
            walking=on,
            left=jnp.where(walking, state.left, state.left - 1.0),
            below=jnp.where(reached, exponent, state.below),
            above=jnp.where(reached, state.above, exponent),
            best=jax.tree.map(lambda new, old: jnp.where(reached, new, old), found, state.best),
            beyond=jnp.where(reached, state.beyond, found.utilisation),
        )

    zero, one = jnp.float64(0.0), jnp.float64(1.0)
    first = _State(
        tenth=start,
        walking=jnp.bool_(True),
        left=jnp.float64(HALVINGS),
        below=zero,
        above=smaller(start + 1.0, 1.0 * START) / 10.0,
        best=BestSplit(Degrees(one, one, one, one, one), zero, jnp.bool_(False)),
        beyond=zero,
    )
    last = jax.lax.while_loop(unfinished, search, first)
    return Crossing(
        10.0**last.below, last.best, last.beyond, jnp.logical_not(last.walking), last.tenth
    )


def crossings(problem: Problem, targets: tuple[float, ...], start: Number) -> Crossing:
    """Return where one point last reaches several targets, one after the other, lowest first.

    What reaches a target has reached those below it: each walk goes on where the last one ended.
    """

    def onward(start: Number, target: Number) -> tuple[Number, Crossing]:
        found = crossing(problem, target, start)
        return found.tenth, found

    return jax.lax.scan(onward, start, jnp.asarray(targets))[1]


def first_tenth(wall: Number, exists: Number) -> Number:
    """Return where the walk starts: just above the latency wall, as nothing is feasible beyond."""
    tenth = jnp.floor(10.0 * jnp.log10(jnp.where(exists, wall, 1.0))) + 1.0
    tenth = jnp.where(tenth < END, END - 1.0, tenth)
    return jnp.where(exists & (tenth < START), tenth, 1.0 * START)


@jax.custom_jvp
def with_slope(problem: Problem, target: Number, found: Crossing) -> Number:
    """Return the FLOP of a crossing with its slope: that of the bound that is met there.

    The best split either reaches the target exactly there, or ceases to be feasible: less than a
    token a replica or a microbatch, more stages than blocks, no time for latency, or for any
    number of replicas. The slope is that of the root of this bound; 0 where none is close.
    """
    return jnp.where(found.found, found.training_flops, 0.0)


@with_slope.defjvp
def _with_slope_jvp(primals: Any, tangents: Any) -> tuple[Number, Number]:
    problem, target, found = primals
    flop = found.training_flops
    asked = jax.tree.map(jnp.asarray, problem._replace(training_flops=flop))

    def bounds(problem: Problem, target: Number) -> list[Number]:
        return _bounds(problem, target, found.best)

    values, change_of = jax.linearize(bounds, asked, target)
    still = jax.tree.map(jnp.zeros_like, (asked, target))
    slopes = change_of(still[0]._replace(training_flops=jnp.ones_like(flop)), still[1])
    moved = jax.tree.map(jnp.asarray, tangents[0])._replace(training_flops=still[0].training_flops)
    moves = change_of(moved, tangents[1])
    nearest: Number = jnp.inf
    change: Number = 0.0
    for value, slope, move in zip(values, slopes, moves, strict=True):
        distance = jnp.abs(value)
        closer = (distance < nearest) & (distance < ACTIVE) & (slope != 0.0) & found.found
        change = jnp.where(closer, -move / jnp.where(slope != 0.0, slope, 1.0), change)
        nearest = jnp.where(closer, distance, nearest)
    return with_slope(problem, target, found), change


def _bounds(problem: Problem, target: Number, best: BestSplit) -> list[Number]:
    """Return logarithms of what may end the range of a split: 0 where it ends, else above."""
    split, result = with_slopes(problem, best)
    found, limit = sizes(problem), batch_limit(problem)
    floor = latency_floor(found.layers, problem.latency)
    waits = floor > 0.0
    ratios = (
        result.utilisation / target,
        found.batch / (split.microbatches * split.data),
        found.batch / split.microbatches,
        found.layers / split.pipeline,
        jnp.where(waits, limit / jnp.where(waits, floor, 1.0), FAR),
        _turn(problem, best.split, limit),
    )
    return [jnp.log(ratio) for ratio in ratios]


def _turn(problem: Problem, split: Degrees, limit: Number) -> Number:
    """Return the limit over the least time for any number of replicas, near a split.

    There the time turns from falling to rising with u = 1 / p_d: two lines meet.
    """
    u = jax.lax.stop_gradient(1.0 / split.data)

    def line(at: Number) -> tuple[Number, Number]:
        def time(u: Number) -> Number:
            return phases_sum(problem, split._replace(data=1.0 / u))

        return jax.jvp(time, (at,), (jnp.ones_like(at),))

    (before, falls), (behind, rises) = line(u * (1.0 - NEAR)), line(u * (1.0 + NEAR))
    turns = (falls < 0.0) & (rises > 0.0)
    across = rises * before - falls * behind + falls * rises * 2.0 * NEAR * u
    least = across / jnp.where(turns, rises - falls, 1.0)
    return jnp.where(turns, limit / jnp.where(turns, least, 1.0), FAR)
