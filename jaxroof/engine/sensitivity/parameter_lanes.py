"""Costs of the plans that fit one machine while its parameters change one at a time, in lanes.

The plans that are best in some lane are found by a lower bound, where an estimator has one. The
objective of a plan is monotone along each parameter of a machine: a law of the estimators that have
a bound, held by their tests. Between two factors no plan is therefore below the lesser of its
bounds at both, and the best plan is not above the larger of the least objectives at both. A plan
whose bound is above that is best nowhere in between. Long intervals of many plans are halved; in
others every factor is bounded, and what is left evaluated: what can be below the plans that are
best at both ends.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.engine.search.bounded import SLACK
from jaxroof.engine.search.candidates import PreparedPlans, subset, with_plans
from jaxroof.engine.search.direct import direct_objectives
from jaxroof.engine.search.one_machine import one_machine
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.errors import refusal
from jaxroof.estimator import FAR, TIE
from jaxroof.records import get_at, replace_all
from jaxroof.structure import structure

LOOK = 1024  # plans evaluated per call
SHORT = 5  # cells of an interval that is not halved, however many plans are left
FEW = 1 << 19  # plans times cells that are bounded sooner than halved
KNOWN = 64  # rows of the least bounds, whose plans are evaluated

# positions of plans, factors, positions of good plans -> as ``evaluated``
Evaluate = Callable[..., tuple[np.ndarray, np.ndarray, np.ndarray]]


def plans_that_fit(question: SearchProblem) -> PreparedPlans:
    """Return the plans within the first limit of a problem, by need, each under one name."""
    machine = one_machine(dataclasses.replace(question, axes=(), placements=True))
    return machine.by_need(machine.distinct(np.flatnonzero(machine.need <= machine.limit)))


def cost_of(question: SearchProblem, objective: Any) -> Any:
    """Return the cost to minimize, above 0: the objective, or its reciprocal if more is better.

    A throughput is not convex in the parameters of a machine; the time per unit of work is.
    """
    return objective if question.sign > 0 else 1.0 / objective


def share_saved(cost: np.ndarray, kept: np.ndarray | float) -> np.ndarray:
    """Return the share of the baseline cost ``kept`` that another cost saves."""
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
                    rows, factors = (np.tile(column, len(some)) for column in (row, factor))
                    cost = self.costs(np.repeat(some, len(row)), rows, factors)
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


# ---- The best plans of all lanes, by a lower bound ----------------------------------------------


class Bounds(NamedTuple):
    """Lower bounds of some plans at one factor, and the best plan there."""

    plan: np.ndarray  # [plan]
    reached: float  # by the best plan, and a tie more
    best: int  # its position


def best_at_factors(lanes: ParameterLanes) -> np.ndarray:
    """Return the positions of the plans that are best at some factor of some parameter.

    Arguments: lanes of an estimator that bounds its objective, with an odd number of factors, the
    one in the middle that of today.
    """
    every, last = np.arange(len(lanes)), len(lanes.factors) - 1
    each = [functools.partial(evaluated, lanes, path) for path in lanes.paths]
    today = bounds_at(each[0], every, last // 2, [])

    def along(evaluate: Evaluate) -> np.ndarray:
        low, high = (bounds_at(evaluate, every, end, [today.best]) for end in (0, last))
        below = _between(evaluate, every, (0, last // 2), low, today)
        return np.concatenate([below, _between(evaluate, every, (last // 2, last), today, high)])

    return np.unique(np.concatenate([*by_threads(along, each, len(each))]))


def _between(
    evaluate: Evaluate, positions: np.ndarray, ends: tuple[int, int], low: Bounds, high: Bounds
) -> np.ndarray:
    """Return which of some plans are best at a factor of an interval, from bounds at its ends."""
    first, last = ends
    left = np.minimum(low.plan, high.plan) <= max(low.reached, high.reached)
    positions = positions[left]
    low, high = (end._replace(plan=end.plan[left]) for end in (low, high))
    known = [low.best, high.best]
    if last - first <= SHORT or len(positions) * (last - first) <= FEW:
        _, places, value = evaluate(positions, range(first, last + 1), known)
        least = value.min(axis=0)
        won = np.argmax(value <= least + TIE * np.abs(least), axis=0)  # the first that ties
        return positions[places[np.unique([won, value.argmin(axis=0)])]]
    middle = (first + last) // 2
    here = bounds_at(evaluate, positions, middle, known)
    below = _between(evaluate, positions, (first, middle), low, here)
    return np.concatenate([below, _between(evaluate, positions, (middle, last), here, high)])


def bounds_at(
    evaluate: Evaluate, positions: np.ndarray, factor: int, known: Sequence[int]
) -> Bounds:
    """Return the bounds of some plans at one factor, and the best of them."""
    bounds, left, value = evaluate(positions, [factor], known)
    best, least = int(positions[left[value.argmin()]]), float(value.min())
    return Bounds(bounds[:, 0], least + SLACK * abs(least), best)


def evaluated(
    lanes: ParameterLanes,
    path: str,
    positions: np.ndarray,
    factors: Sequence[int],
    known: Sequence[int],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of some plans, and the objectives of those that can be best at a factor.

    Arguments: increasing positions, and those among them of good plans; without any, plans of the
    least bounds are evaluated first.
    Returns: bounds [plan, factor], places of what is evaluated, its objectives [place, factor].
    """
    question, some = lanes.question, lanes.ready
    if len(positions) < len(lanes):  # of all plans the distinct rows are known
        some = subset(some, [positions])
    column = float(get_at(question.inputs, path)) * lanes.factors[list(factors)]
    objectives = direct_objectives(question, some, {path: column})
    reads = bound_reads(question.estimator, question.recipe, structure(question.inputs))
    ((first, number),) = some.rows_of_each(reads.fields)
    bounds = objectives(first, bound=True)
    places = np.searchsorted(positions, known)
    if not len(known):
        chosen = np.zeros(len(bounds), bool)
        chosen[np.argpartition(bounds, min(KNOWN, len(bounds)) - 1, axis=0)[:KNOWN]] = True
        places = np.flatnonzero(chosen[number])
    reached = objectives(places).min(axis=0)
    low = bounds <= reached + SLACK * np.abs(reached)
    left = np.flatnonzero(np.any(low, axis=1)[number])
    return bounds[number], left, objectives(left)
