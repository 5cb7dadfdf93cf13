"""The largest run whose utilisation reaches a target, found by a downward search, and its slope.

Utilisation is not a decreasing function of the run's FLOP, and it often jumps where it crosses the
target. So the bracket and the bisection are part of the definition: a different search can find a
different crossing.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.scaling_limits.best_split import BestSplit, best_split, with_slopes
from jaxroof.estimators.scaling_limits.data_movement import (
    Degrees,
    Problem,
    batch_limit,
    batch_seconds,
    sizes,
)
from jaxroof.estimators.scaling_limits.inputs import latency_floor
from jaxroof.formulas.arithmetic import smaller
from jaxroof.records import Number

START, END = 400, 100  # tenths of decades: the walk goes from 1e40 FLOP down to 1e10
HALVINGS = 48
NEAR = 1e-7  # offset in u to the side of a kink where a time is evaluated
FAR = 2.0  # value of a bound that is not active
ACTIVE = 1e-6  # relative distance within which a bound is active at the crossing


class Crossing(NamedTuple):
    """The largest run that reaches a target, the best split there, and the share just above."""

    training_flops: Number
    best: BestSplit
    beyond: Number
    found: Number
    tenth: Number  # where the walk ended


class _State(NamedTuple):
    """The state of a search: on its walk, or bisecting around a crossing of the target."""

    tenth: Number
    walking: Number
    left: Number  # remaining halvings
    below: Number
    above: Number
    best: BestSplit
    beyond: Number


def crossing(problem: Problem, target: Number, start: Number) -> Crossing:
    """Return the largest run of one point that reaches a target, starting anywhere on the walk."""

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
    """Return the largest runs of one point that reach several targets, lowest target first.

    A run that reaches a target also reaches all lower targets, so each walk continues where the
    previous one ended.
    """

    def onward(start: Number, target: Number) -> tuple[Number, Crossing]:
        found = crossing(problem, target, start)
        return found.tenth, found

    return jax.lax.scan(onward, start, jnp.asarray(targets))[1]


def first_tenth(wall: Number, exists: Number) -> Number:
    """Return the start of the walk: just above the latency wall, where no run is feasible."""
    tenth = jnp.floor(10.0 * jnp.log10(jnp.where(exists, wall, 1.0))) + 1.0
    tenth = jnp.where(tenth < END, END - 1.0, tenth)
    return jnp.where(exists & (tenth < START), tenth, 1.0 * START)


@jax.custom_jvp
def with_slope(problem: Problem, target: Number, found: Crossing) -> Number:
    """Return the FLOP of a crossing with its slope, which the active bound determines.

    At a crossing, the best split either reaches the target exactly or becomes infeasible. It is
    infeasible with less than one token per replica or microbatch, with more stages than blocks,
    without time for latency, or if no number of replicas meets the limit. The slope is that of the
    root of the active bound, or 0 if no bound is active.
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
    """Return the logarithms of the bounds of a split's range: 0 on a bound, else positive."""
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
    """Return limit / least time over all numbers of replicas, near a split.

    The least time is at a kink, where the time changes from decreasing to increasing in
    u = 1 / p_d.
    """
    u = jax.lax.stop_gradient(1.0 / split.data)

    def line(at: Number) -> tuple[Number, Number]:
        def time(u: Number) -> Number:
            return batch_seconds(problem, split._replace(data=1.0 / u))

        return jax.jvp(time, (at,), (jnp.ones_like(at),))

    (before, falls), (behind, rises) = line(u * (1.0 - NEAR)), line(u * (1.0 + NEAR))
    turns = (falls < 0.0) & (rises > 0.0)
    across = rises * before - falls * behind + falls * rises * 2.0 * NEAR * u
    least = across / jnp.where(turns, rises - falls, 1.0)
    return jnp.where(turns, limit / jnp.where(turns, least, 1.0), FAR)
