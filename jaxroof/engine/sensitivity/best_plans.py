"""The best plans of all lanes of parameters, by the way that the costs and the estimator allow."""

from collections.abc import Sequence

import numpy as np

from jaxroof.engine.grid.executor import NUMPY
from jaxroof.engine.search.candidates import PreparedPlans, subset
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.best_at_factors import best_at_factors
from jaxroof.engine.sensitivity.envelope import Intervals
from jaxroof.engine.sensitivity.parameter_lanes import ParameterLanes, parameter_lanes
from jaxroof.engine.sensitivity.sampled_switches import sampled_lanes
from jaxroof.engine.sensitivity.switches import (
    BestPlans,
    NotConvex,
    check_convex,
    some_plans,
    sweep_lanes,
)

EXACT, SAMPLED = "exact", "sampled"


def best_plans(
    question: SearchProblem, ready: PreparedPlans, paths: Sequence[str], factors: np.ndarray
) -> tuple[ParameterLanes, BestPlans, Intervals, str]:
    """Return the lanes of the parameters, the best plans there, and how their switches are known.

    Where costs are not convex and the estimator bounds them, the lanes have the best plans alone.
    """
    estimator = question.estimator
    bounded = estimator.lower_bound is not None and question.objective == estimator.objective
    executor = NUMPY if bounded else None
    try:
        few = subset(ready, [some_plans(len(ready.plans[0]))])
        check_convex(parameter_lanes(question, few, paths, factors, executor))
        lanes = parameter_lanes(question, ready, paths, factors, executor)
        return lanes, *sweep_lanes(lanes), EXACT
    except NotConvex:
        if bounded:
            ready = subset(ready, [best_at_factors(question, ready, paths, factors)])
        lanes = parameter_lanes(question, ready, paths, factors, executor)
        return lanes, *sampled_lanes(lanes), SAMPLED
