"""The plans that are best at some factor of some parameter, found by a lower bound.

The objective of a plan is monotone along each parameter of a machine. Between two factors no plan
is therefore below the lesser of its bounds at both, and the best plan is not above the larger of
what known plans reach at both. A plan whose bound is above that is best nowhere in between. Long
intervals of many plans are halved; in others every factor is bounded, and what is left evaluated.
That a step goes one way along each parameter is a law of the estimators that have a bound, held by
their tests.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.threads import by_threads
from jaxroof.engine.search.candidates import PreparedPlans, subset
from jaxroof.engine.search.direct import grid_objectives
from jaxroof.engine.search.groups import ProblemGroup
from jaxroof.engine.search.plans_left import SLACK, bound_rows
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.estimator import TIE
from jaxroof.records import get_at
from jaxroof.structure import structure

SHORT = 5  # cells of an interval that is not halved, however many plans are left
FEW = 1 << 19  # plans times cells that are bounded sooner than halved
KNOWN = 64  # rows of the least bounds, whose plans are evaluated


class Bounds(NamedTuple):
    """Lower bounds of some plans at some factors, and what the best known plan reaches there."""

    plan: np.ndarray  # [plan, factor]
    reached: np.ndarray  # [factor]

    def of(self, some: np.ndarray) -> "Bounds":
        """Return the bounds of some of the plans."""
        return Bounds(self.plan[some], self.reached)


class Parameter(NamedTuple):
    """A parameter of a problem's machine, and the factors that multiply it."""

    question: SearchProblem
    ready: PreparedPlans  # the plans that fit
    path: str
    factors: np.ndarray


def best_at_factors(
    question: SearchProblem, ready: PreparedPlans, paths: Sequence[str], factors: np.ndarray
) -> np.ndarray:
    """Return the positions of the plans that are best at some factor of some parameter.

    Arguments: a problem whose estimator bounds its objective, the plans that fit its machine, and
    an odd number of factors, the one in the middle that of today.
    """
    every = np.arange(len(ready.plans[0]))
    each = [Parameter(question, ready, path, factors) for path in paths]
    today = _bounds(each[0], every, [len(factors) // 2])
    found = by_threads(functools.partial(_along, today=today), each, len(each))
    return np.unique(np.concatenate([*found]))


def _along(one: Parameter, today: Bounds) -> np.ndarray:
    """Return the positions of the plans that are best at some factor of one parameter."""
    every, last = np.arange(len(one.ready.plans[0])), len(one.factors) - 1
    low, high = _bounds(one, every, [0]), _bounds(one, every, [last])
    below = _between(one, every, (0, last // 2), low, today)
    return np.concatenate([below, _between(one, every, (last // 2, last), today, high)])


def _between(
    one: Parameter, positions: np.ndarray, ends: tuple[int, int], low: Bounds, high: Bounds
) -> np.ndarray:
    """Return which of some plans are best at a factor of an interval, from bounds at its ends.

    Returns: positions.
    """
    first, last = ends
    most = np.maximum(low.reached, high.reached)
    left = np.all(np.minimum(low.plan, high.plan) <= most, axis=1)
    positions, low, high = positions[left], low.of(left), high.of(left)
    if last - first <= SHORT or len(positions) * (last - first) <= FEW:
        return positions[_best(one, positions, range(first, last + 1))]
    middle = (first + last) // 2
    here = _bounds(one, positions, [middle])
    below = _between(one, positions, (first, middle), low, here)
    return np.concatenate([below, _between(one, positions, (middle, last), here, high)])


def _best(one: Parameter, positions: np.ndarray, factors: Sequence[int]) -> np.ndarray:
    """Return which of some plans are best at some factors: the least, and the first that ties."""
    objectives, some = _objectives(one, positions, factors)
    here = _bounded(one.question, some, objectives)
    left = np.flatnonzero(np.any(here.plan <= here.reached, axis=1))
    value = objectives(left)
    least = value.min(axis=0)
    first = np.argmax(value <= least + TIE * np.abs(least), axis=0)
    return left[np.unique([first, value.argmin(axis=0)])]


def _bounds(one: Parameter, positions: np.ndarray, factors: Sequence[int]) -> Bounds:
    """Return the bounds of some plans at some factors."""
    objectives, some = _objectives(one, positions, factors)
    return _bounded(one.question, some, objectives)


def _bounded(
    question: SearchProblem, some: PreparedPlans, objectives: Callable[..., np.ndarray]
) -> Bounds:
    """Return the bounds of all of the plans whose objectives a function returns."""
    reads = bound_reads(question.estimator, question.recipe, structure(question.inputs))
    (rows,) = bound_rows(some, reads.fields)
    bounds = objectives(rows.first, bound=True)
    least = np.argpartition(bounds, min(KNOWN, len(bounds)) - 1, axis=0)[:KNOWN]
    known = np.zeros(len(bounds), bool)
    known[least] = True
    reached = objectives(np.flatnonzero(known[rows.number])).min(axis=0)
    return Bounds(bounds[rows.number], reached + SLACK * np.abs(reached))


def _objectives(
    one: Parameter, positions: np.ndarray, factors: Sequence[int]
) -> tuple[Callable[..., np.ndarray], PreparedPlans]:
    """Return the objectives, or bounds, of some plans at some factors, and these plans.

    The function maps places among them to values [plan, factor].
    """
    ready, value = one.ready, float(get_at(one.question.inputs, one.path))
    # of all plans the distinct rows are known
    some = ready if len(positions) == len(ready.plans[0]) else subset(ready, [positions])
    group = ProblemGroup((), slice(0, 1), one.question.inputs, {}, some)
    lanes = Axis("lane", {one.path: value * one.factors[list(factors)]})
    return functools.partial(grid_objectives(one.question, group, [lanes]), 0), some
