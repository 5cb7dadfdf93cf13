"""The limits of a training run: slack, latency wall, best utilisation, largest runs.

Source: docs/models/linear_data_movement.md, part C.
"""

import dataclasses
import enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.estimators.answers import answers, higher
from jaxroof.estimators.scaling_limits.best_split import BestSplit, best_split, with_slopes
from jaxroof.estimators.scaling_limits.data_movement import (
    LARGEST_RUN,
    SLOW_DEVICE,
    Degrees,
    Problem,
    TimedInputs,
    batch_limit,
    batch_seconds,
    latency_floor,
    latency_wall,
    point_by_point,
    problem_of,
    sizes,
    step_slack,
)
from jaxroof.formulas.arithmetic import smaller, where
from jaxroof.records import Number, quantity, record

# Utilisation does not only fall as runs grow, and it often jumps where it crosses the target.
# So walk and bisection are part of the definition: another search may find another crossing.
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


SHARES = (0.5, 0.8)  # utilisation targets whose largest runs are reported
JUMP = 1e-6  # relative drop of the share that is more than rounding
ANY_RUN = 1e25  # FLOP; placeholder where there is no threshold
LATENCY = 1e-6  # s: a step of communication of the examples


class Detail(enum.Enum):
    """How much to compute for a run."""

    POINT = "point"
    THRESHOLDS = "thresholds"  # also the largest runs: some 200 more searches


@dataclasses.dataclass(frozen=True)
class LimitsRecipe:
    """The structural choices of the study."""

    detail: Detail = Detail.POINT


@record
class LimitsInputs(TimedInputs):
    """A training run, its longest time, and the machine."""

    training_flops: Number = quantity(
        "FLOP", "Arithmetic of the whole training run.", most=LARGEST_RUN, symbol="C"
    )


@record
class LimitsReport:
    """The limits of a run and its best split (all 0 if no split is feasible)."""

    slack: Number = higher("s", "Time that the longest run leaves for a step of communication.")
    wall: Number = higher("FLOP", "Largest run that latency alone allows; 0 without a limit.")
    wall_exists: Any = quantity("1", "There is a run that latency makes too long.")
    relative_utilisation: Number = higher("1", "Share of the sustained rate in use.", headline=True)
    utilisation: Number = quantity("1", "Share of the peak rate in use.", better="higher")
    feasible: Any = quantity("1", "Some split ends in time.")
    pipeline: Number = quantity("1", "Pipeline stages of the best split.")
    data: Number = quantity("1", "Data-parallel degree of the best split.")
    hidden_tensor: Number = quantity("1", "Devices that share the hidden width.")
    residual_tensor: Number = quantity("1", "Devices that share the residual width.")
    microbatches: Number = quantity("1", "Microbatches of a batch of the best split.")
    devices: Number = quantity("1", "Devices of the best split.")
    batch_time: Number = quantity("s", "Time of a batch.")
    train_time: Number = quantity("s", "Time of the training run.")


@record
class MarkedReport(LimitsReport):
    """LimitsReport with the largest runs that use 80 % and 50 % of the sustained rate (0: none)."""

    threshold_80: Number = quantity(
        "FLOP", "Largest run that uses 80 % of its machines: near linear scaling.", better="higher"
    )
    threshold_50: Number = higher("FLOP", "Largest run that uses half of its machines.")


@answers(SLOW_DEVICE, training_flops=3e25, step_latency=LATENCY)
def limits(inputs: LimitsInputs, recipe: LimitsRecipe) -> LimitsReport:
    """Return the slack, the wall and the best split, and the thresholds if requested."""
    return REPORTS[recipe.detail](inputs)


def _timed(inputs: TimedInputs, training_flops: Number) -> Problem:
    return problem_of(inputs, training_flops, inputs.longest_run, inputs.step_latency)


def _marked(inputs: LimitsInputs) -> MarkedReport:
    """Return the report with its thresholds, which do not depend on the FLOP of the run."""
    problem = _timed(inputs, 1.0)
    start = first_tenth(*latency_wall(inputs))
    found = point_by_point(_both, (problem, start))
    slopes = jax.vmap(with_slope, (None, 0, -1))
    half, most = jnp.unstack(slopes(problem, jnp.asarray(SHARES), found))
    return MarkedReport(**_fields(inputs), threshold_80=most, threshold_50=half)


def _both(asked: tuple[Problem, Number]) -> Crossing:
    problem, start = asked
    return crossings(problem, SHARES, start)


def _fields(inputs: LimitsInputs) -> dict[str, Any]:
    """Return the fields of a report, searching the best split point by point."""
    problem = _timed(inputs, inputs.training_flops)
    best = point_by_point(best_split, problem)
    split, found = with_slopes(problem, best)
    wall, exists = latency_wall(inputs)

    def where_feasible(value: Number) -> Number:
        return jnp.where(best.feasible, value, 0.0)

    share = where_feasible(found.utilisation)
    return {
        "slack": step_slack(sizes(problem), inputs.longest_run),
        "wall": wall,
        "wall_exists": exists,
        "relative_utilisation": share,
        "utilisation": share * inputs.system.matrix_efficiency,
        "feasible": best.feasible,
        **{name: where_feasible(degree) for name, degree in split._asdict().items()},
        "devices": where_feasible(found.devices),
        "batch_time": where_feasible(found.batch_time),
        "train_time": where_feasible(found.train_time),
    }


REPORTS = {Detail.POINT: lambda inputs: LimitsReport(**_fields(inputs)), Detail.THRESHOLDS: _marked}


# ---- The largest run that reaches a share -------------------------------------------------------


@record
class ThresholdInputs(TimedInputs):
    """A utilisation to reach, the longest time of a run, and the machine."""

    target: Number = quantity(
        "1", "Share of the sustained rate that is to be used.", default=0.8, most=1.0, symbol="f"
    )


@record
class ThresholdReport:
    """The largest run that reaches the share (0: none between 1e10 and 1e40 FLOP), and the wall."""

    threshold: Number = higher("FLOP", "Largest training run that reaches the share.")
    found: Any = quantity("1", "Some run reaches the share.")
    utilisation: Number = quantity("1", "Share that this run reaches.", better="higher")
    jumps: Any = quantity("1", "Just above it the share is lower by a jump.")
    devices: Number = quantity("1", "Devices of this run, on its best split.")
    wall: Number = higher("FLOP", "Largest run that latency alone allows; 0 without a limit.")
    wall_exists: Any = quantity("1", "There is a run that latency makes too long.")


@answers(SLOW_DEVICE, step_latency=LATENCY)
def thresholds(inputs: ThresholdInputs, recipe: None) -> ThresholdReport:
    """Return the largest run that reaches the share, searching down from 1e40 FLOP."""
    problem = _timed(inputs, 1.0)
    wall, exists = latency_wall(inputs)
    found = point_by_point(
        lambda asked: crossing(*asked), (problem, inputs.target, first_tenth(wall, exists))
    )
    threshold = with_slope(problem, inputs.target, found)
    run = where(found.found, threshold, ANY_RUN)
    _, reached = with_slopes(problem._replace(training_flops=run), found.best)
    return ThresholdReport(
        threshold=threshold,
        found=found.found,
        utilisation=where(found.found, reached.utilisation, 0.0),
        jumps=found.found & (found.beyond < found.best.utilisation * (1.0 - JUMP)),
        devices=where(found.found, reached.devices, 0.0),
        wall=wall,
        wall_exists=exists,
    )
