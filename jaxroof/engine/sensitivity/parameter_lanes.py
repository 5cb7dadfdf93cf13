"""Costs of the plans that fit one machine while its parameters change one at a time, in lanes."""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.search.candidates import PreparedPlans
from jaxroof.engine.search.direct import direct_objectives
from jaxroof.engine.search.one_machine import one_machine
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.derivatives import FEW, slopes
from jaxroof.errors import refusal
from jaxroof.records import get_at

LOOK = 1024  # plans evaluated per call


def plans_that_fit(question: SearchProblem) -> PreparedPlans:
    """Return the plans that fit the machine of a problem, sorted by need, each under one name."""
    machine = one_machine(dataclasses.replace(question, axes=(), placements=True))
    return machine.by_need(machine.distinct(machine.fitting))


def cost_of(question: SearchProblem, objective: Any) -> Any:
    """Return the cost to minimize, above 0: the objective, or its reciprocal if more is better.

    A throughput is not convex in the parameters of a machine; the time per unit of work is.
    """
    return objective if question.sign > 0 else 1.0 / objective


def share_saved(cost: np.ndarray, kept: np.ndarray | float) -> np.ndarray:
    """Return the share of the baseline cost ``kept`` that another cost saves.

    >>> share_saved(np.array([3.0, 5.0]), 4.0).tolist()
    [0.25, -0.25]
    """
    return (kept - cost) / np.where(kept == 0.0, 1.0, kept)


@dataclasses.dataclass(frozen=True, eq=False)
class ParameterLanes:
    """A machine with one lane for each parameter and each factor that multiplies it."""

    question: SearchProblem
    paths: tuple[str, ...]
    factors: np.ndarray
    plans: Mapping[str, np.ndarray]  # those that fit, sorted by need
    objectives: Callable[[np.ndarray], np.ndarray]  # plans -> sign * objective [plan, lane]

    def __len__(self) -> int:
        return len(next(iter(self.plans.values())))


def parameter_lanes(
    question: SearchProblem,
    ready: PreparedPlans,
    paths: Sequence[str],
    factors: np.ndarray,
    executor: str | None = None,
) -> ParameterLanes:
    """Return the lanes of a problem's machine, for the plans of ``plans_that_fit``."""
    shape = (len(paths), len(factors))
    columns = {}
    for row, path in enumerate(paths):
        column = np.full(shape, float(get_at(question.inputs, path)))
        column[row] *= factors
        columns[path] = column.reshape(-1)
    lanes, plans = replace_all(question.inputs, columns), ready.plans[0].plans
    if executor_of(question.estimator, question.recipe, lanes, 0, executor) == NUMPY:
        objectives = direct_objectives(question, ready, columns)
    else:
        objectives = functools.partial(_listed, question, plans, columns)
    return ParameterLanes(question, tuple(paths), factors, plans, objectives)


def _listed(
    question: SearchProblem,
    plans: Mapping[str, np.ndarray],
    columns: Mapping[str, np.ndarray],
    some: np.ndarray,
) -> np.ndarray:
    """Return sign * objective [plan, lane], evaluated in a list of plans and lanes."""
    assert question.estimator.plan is not None
    count = len(next(iter(columns.values())))
    wide = {path: np.tile(column, len(some)) for path, column in columns.items()}
    fields = {f: np.repeat(c[some].astype(float), count) for f, c in plans.items()}
    inputs = replace_all(question.inputs, {**wide, "plan": question.estimator.plan(**fields)})
    name = question.objective
    found = evaluate_points(question.estimator, question.recipe, inputs, name)[name]
    return question.sign * found.reshape(len(some), count)


def plan_costs(lanes: ParameterLanes, plans: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield plans in batches, with their costs [plan, parameter, factor].

    Raises: InputError where a plan has no cost.
    """
    rows, count = len(lanes.paths), len(lanes.factors)
    for start in range(0, len(plans), LOOK):
        some = plans[start : start + LOOK]
        values = lanes.objectives(some).reshape(-1, rows, count)
        rising = lanes.question.sign > 0
        if not np.all(np.isfinite(values) & (rising | (values != 0.0))):
            text = "not finite, or none, for a plan that fits; expected a number above 0 for each"
            raise refusal(lanes.question.objective, text)
        yield some, values if rising else -1.0 / values


def costs_at(
    lanes: ParameterLanes, plan: np.ndarray, row: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Return the costs of plans, each with one parameter multiplied by a factor."""
    question, estimator = lanes.question, lanes.question.estimator
    assert estimator.plan is not None
    columns = {
        lanes.paths[number]: get_at(question.inputs, lanes.paths[number])
        * np.where(row == number, factor, 1.0)
        for number in np.unique(row)
    }
    fields = {f: column[plan].astype(float) for f, column in lanes.plans.items()}
    asked = dataclasses.replace(question.inputs, plan=estimator.plan(**fields))
    asked = replace_all(asked, columns)
    name = question.objective
    found = evaluate_points(estimator, question.recipe, asked, name)[name]
    return np.asarray(cost_of(question, found))


def _batches(row: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield batches of points of one parameter that fit the smaller program of ``slopes``."""
    for number in np.unique(row):
        which = np.flatnonzero(row == number)
        for start in range(0, len(which), FEW):
            yield number, which[start : start + FEW]


def costs_and_slopes(
    lanes: ParameterLanes, plan: np.ndarray, row: np.ndarray, factor: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the costs of plans at scaled parameters, and d cost / d ln factor."""
    question, paths = lanes.question, lanes.paths
    estimator = question.estimator
    assert estimator.plan is not None
    cost, slope = np.empty(len(plan)), np.empty(len(plan))
    for number, which in _batches(row):
        fields = {f: column[plan[which]].astype(float) for f, column in lanes.plans.items()}
        # every parameter is a column, so that all share one compiled program
        columns = {p: np.full(len(which), float(get_at(question.inputs, p))) for p in paths}
        columns[paths[number]] *= factor[which]
        asked = replace_all(question.inputs, columns)
        asked = dataclasses.replace(asked, plan=estimator.plan(**fields))
        way = np.eye(len(paths))[[number]]
        value, along = slopes(estimator, question.recipe, asked, paths, question.objective, way)
        cost[which] = cost_of(question, value)
        slope[which] = along[:, 0] if question.sign > 0 else -along[:, 0] / value**2
    return cost, slope
