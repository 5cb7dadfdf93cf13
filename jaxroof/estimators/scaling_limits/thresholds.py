"""The largest run that still reaches a given utilisation."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.scaling_limits.best_split import with_slopes
from jaxroof.estimators.scaling_limits.inputs import TimedInputs, wall_of
from jaxroof.estimators.scaling_limits.problem import Problem, point_by_point, problem_of
from jaxroof.estimators.scaling_limits.threshold_search import (
    Crossing,
    crossing,
    first_tenth,
    with_slope,
)
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number, quantity, record

JUMP = 1e-6  # relative drop of the share that is more than rounding
ANY_RUN = 1e25  # FLOP; placeholder where there is no threshold


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


def _crossing(asked: tuple[Problem, Number, Number]) -> Crossing:
    return crossing(*asked)


def step(inputs: ThresholdInputs, recipe: None) -> ThresholdReport:
    """Return the largest run that reaches the share, searching down from 1e40 FLOP."""
    problem = problem_of(inputs, 1.0)
    wall, exists = wall_of(inputs)
    found = point_by_point(_crossing, (problem, inputs.target, first_tenth(wall, exists)))
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


def example() -> ThresholdInputs:
    """Return the published share on an accelerator with a slow network and a latency of 1 us."""
    return ThresholdInputs(system=named.system("h100-sxm5-10gb"), step_latency=1e-6)


thresholds = Estimator(
    step=step,
    inputs=ThresholdInputs,
    name="thresholds",
    names={"system": named.labelled_system},
    example=example,
    about=QUESTIONS["thresholds"],
)
