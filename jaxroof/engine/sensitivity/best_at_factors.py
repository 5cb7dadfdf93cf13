"""The plans that are best at some factor of some parameter, found by a lower bound.

The objective of a plan is monotone along each parameter of a machine. Between two factors no plan
is therefore below the lesser of its bounds at both, and the best plan is not above the larger of
the least objectives at both. A plan whose bound is above that is best nowhere in between. Long
intervals of many plans are halved; in others every factor is bounded, and what is left evaluated.
What is left is what can be below the plans that are best at both ends.
That a step goes one way along each parameter is a law of the estimators that have a bound, held by
their tests.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.executor import by_threads
from jaxroof.engine.search.bounded import SLACK
from jaxroof.engine.search.candidates import PreparedPlans, subset
from jaxroof.engine.search.direct import direct_objectives
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.estimator import TIE
from jaxroof.records import get_at
from jaxroof.structure import structure

SHORT = 5  # cells of an interval that is not halved, however many plans are left
FEW = 1 << 19  # plans times cells that are bounded sooner than halved
KNOWN = 64  # rows of the least bounds, whose plans are evaluated


class Bounds(NamedTuple):
    """Lower bounds of some plans at one factor, and the best plan there."""

    plan: np.ndarray  # [plan]
    reached: float  # by the best plan, and a tie more
    best: int  # its position


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
    today = _bounds(each[0], every, len(factors) // 2, [])
    found = by_threads(functools.partial(_along, today=today), each, len(each))
    return np.unique(np.concatenate([*found]))


def _along(one: Parameter, today: Bounds) -> np.ndarray:
    """Return the positions of the plans that are best at some factor of one parameter."""
    every, last = np.arange(len(one.ready.plans[0])), len(one.factors) - 1
    low, high = (_bounds(one, every, end, [today.best]) for end in (0, last))
    below = _between(one, every, (0, last // 2), low, today)
    return np.concatenate([below, _between(one, every, (last // 2, last), today, high)])


def _between(
    one: Parameter, positions: np.ndarray, ends: tuple[int, int], low: Bounds, high: Bounds
) -> np.ndarray:
    """Return which of some plans are best at a factor of an interval, from bounds at its ends.

    Returns: positions.
    """
    first, last = ends
    left = np.minimum(low.plan, high.plan) <= max(low.reached, high.reached)
    positions = positions[left]
    low, high = (end._replace(plan=end.plan[left]) for end in (low, high))
    known = [low.best, high.best]
    if last - first <= SHORT or len(positions) * (last - first) <= FEW:
        return positions[_best(one, positions, range(first, last + 1), known)]
    middle = (first + last) // 2
    here = _bounds(one, positions, middle, known)
    below = _between(one, positions, (first, middle), low, here)
    return np.concatenate([below, _between(one, positions, (middle, last), here, high)])


def _best(
    one: Parameter, positions: np.ndarray, factors: Sequence[int], known: Sequence[int]
) -> np.ndarray:
    """Return which of some plans are best at some factors: the least, and the first that ties."""
    _, left, value = _evaluated(one, positions, factors, known)
    least = value.min(axis=0)
    first = np.argmax(value <= least + TIE * np.abs(least), axis=0)
    return left[np.unique([first, value.argmin(axis=0)])]


def _bounds(one: Parameter, positions: np.ndarray, factor: int, known: Sequence[int]) -> Bounds:
    """Return the bounds of some plans at one factor, and the best of them."""
    bounds, left, value = _evaluated(one, positions, [factor], known)
    best, least = int(positions[left[value.argmin()]]), float(value.min())
    return Bounds(bounds[:, 0], least + SLACK * abs(least), best)


def _evaluated(
    one: Parameter, positions: np.ndarray, factors: Sequence[int], known: Sequence[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the bounds of some plans, and the objectives of those that can be best at a factor.

    Arguments: increasing positions, and those among them of good plans; without any, plans of the
    least bounds are evaluated first.
    Returns: bounds [plan, factor], places of what is evaluated, its objectives [place, factor].
    """
    question = one.question
    objectives, some = _objectives(one, positions, factors)
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


def _objectives(
    one: Parameter, positions: np.ndarray, factors: Sequence[int]
) -> tuple[Callable[..., np.ndarray], PreparedPlans]:
    """Return the objectives, or bounds, of some plans at some factors, and these plans.

    The function maps places among them to values [plan, factor].
    """
    ready, value = one.ready, float(get_at(one.question.inputs, one.path))
    # of all plans the distinct rows are known
    some = ready if len(positions) == len(ready.plans[0]) else subset(ready, [positions])
    lanes = {one.path: value * one.factors[list(factors)]}
    return direct_objectives(one.question, some, lanes), some
