"""The limits of a training run: slack, latency wall, best utilisation, largest runs.

Source: docs/models/linear_data_movement.md, part C.
"""

import dataclasses
import enum
from typing import Any

import jax
import jax.numpy as jnp

from jaxroof.estimators.answers import answers
from jaxroof.estimators.scaling_limits.best_split import best_split, with_slopes
from jaxroof.estimators.scaling_limits.data_movement import (
    Problem,
    point_by_point,
    problem_of,
    sizes,
)
from jaxroof.estimators.scaling_limits.inputs import (
    LARGEST_RUN,
    SLOW_DEVICE,
    TimedInputs,
    latency_wall,
    step_slack,
)
from jaxroof.estimators.scaling_limits.threshold_search import (
    Crossing,
    crossing,
    crossings,
    first_tenth,
    with_slope,
)
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record

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

    slack: Number = quantity(
        "s", "Time that the longest run leaves for a step of communication.", better="higher"
    )
    wall: Number = quantity(
        "FLOP", "Largest run that latency alone allows; 0 without a limit.", better="higher"
    )
    wall_exists: Any = quantity("1", "There is a run that latency makes too long.")
    relative_utilisation: Number = quantity(
        "1", "Share of the sustained rate in use.", better="higher", headline=True
    )
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
    threshold_50: Number = quantity(
        "FLOP", "Largest run that uses half of its machines.", better="higher"
    )


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

    threshold: Number = quantity(
        "FLOP", "Largest training run that reaches the share.", better="higher"
    )
    found: Any = quantity("1", "Some run reaches the share.")
    utilisation: Number = quantity("1", "Share that this run reaches.", better="higher")
    jumps: Any = quantity("1", "Just above it the share is lower by a jump.")
    devices: Number = quantity("1", "Devices of this run, on its best split.")
    wall: Number = quantity(
        "FLOP", "Largest run that latency alone allows; 0 without a limit.", better="higher"
    )
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
