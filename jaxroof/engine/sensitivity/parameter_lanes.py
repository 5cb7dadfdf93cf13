"""Costs of the plans that fit one machine while its parameters change one at a time, in lanes."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.search.candidates import PreparedPlans, subset, with_plans
from jaxroof.engine.search.direct import direct_objectives
from jaxroof.engine.search.one_machine import one_machine
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.errors import refusal
from jaxroof.estimator import FAR
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
    """A machine, its plans by need, and a lane for each factor that multiplies a parameter."""

    question: SearchProblem
    ready: PreparedPlans
    paths: tuple[str, ...]
    factors: np.ndarray

    @property
    def plans(self) -> Mapping[str, np.ndarray]:
        """Return the fields of the plans."""
        return self.ready.plans[0].plans

    def __len__(self) -> int:
        return len(self.ready.plans[0])

    def some(self, plans: np.ndarray) -> "ParameterLanes":
        """Return the same lanes of some plans, at increasing positions."""
        return dataclasses.replace(self, ready=subset(self.ready, [plans]))

    def every(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield plans in batches, with their costs [plan, parameter, factor]."""
        question, shape = self.question, (len(self.paths), len(self.factors))
        row, place = (at.ravel() for at in np.indices(shape))
        factor, rising = self.factors[place], question.sign > 0
        direct = None
        if executor_of(question.estimator, question.recipe, question.inputs, 0) == NUMPY:
            direct = direct_objectives(question, self.ready, self._columns(row, factor))
        for start in range(0, len(self), LOOK):
            some = np.arange(start, min(start + LOOK, len(self)))
            with np.errstate(divide="ignore"):
                if direct is None:
                    each = (np.tile(column, len(some)) for column in (row, factor))
                    cost = self.costs(np.repeat(some, len(row)), *each)
                else:
                    aim = direct(some)
                    cost = np.where(aim < FAR, cost_of(question, question.sign * aim), FAR)
            if not np.all(np.isfinite(cost) & (rising | (cost != 0.0))):
                what = "not finite, or none, for a plan that fits"
                raise refusal(question.objective, f"{what}; expected a number above 0 for each")
            yield some, cost.reshape(-1, *shape)

    def _columns(self, row: np.ndarray, factor: np.ndarray) -> dict[str, np.ndarray]:
        """Return a column of every parameter, at each point one of them multiplied."""
        return {
            path: float(get_at(self.question.inputs, path)) * np.where(row == number, factor, 1.0)
            for number, path in enumerate(self.paths)
        }

    def _inputs(self, plan: np.ndarray, row: np.ndarray, factor: np.ndarray) -> Any:
        inputs = replace_all(self.question.inputs, self._columns(row, factor))
        fields = {field: column[plan] for field, column in self.plans.items()}
        return with_plans(self.question.estimator, inputs, fields)

    def costs(
        self, plan: np.ndarray, row: np.ndarray, factor: np.ndarray, within: bool = True
    ) -> np.ndarray:
        """Return the costs of plans, each with one parameter multiplied by a factor.

        They are far where a plan exceeds a limit besides the first, unless ``within`` is false;
        position -1 stands for no plan at all, which is better than one that exceeds a limit.
        """
        question, inputs = self.question, self._inputs(plan, row, factor)
        limits, name = question.estimator.limits[1:] if within else (), question.objective
        found = evaluate_points(
            question.estimator, question.recipe, inputs, None if limits else name
        )
        cost = np.asarray(cost_of(question, found[name]))
        for limit in limits:
            cost = np.where(found[limit.result] <= limit.of(inputs), cost, FAR)
        return np.where(plan < 0, 0.5 * FAR, cost)

    def sloped(
        self, plan: np.ndarray, row: np.ndarray, factor: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same costs, and d cost / d ln factor."""
        question, inputs = self.question, self._inputs(plan, row, factor)
        way = (row == np.arange(len(self.paths))[:, None]).astype(float)[None]
        asked = question.estimator, question.recipe, inputs, self.paths, question.objective
        value, (along,) = (found.T for found in slopes(*asked, way))
        return cost_of(question, value), along if question.sign > 0 else -along / value**2
