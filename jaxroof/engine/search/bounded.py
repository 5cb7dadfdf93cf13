"""The plans that can be among the best, by a lower bound of the objective and by known plans.

An estimator may say what no objective of a plan is below (``Estimator.lower_bound``): l_p <= f_p.
If k plans that fit reach u on a machine, a plan with l_p > u is not among the best k there. Most
plans are passed over in this way, and what is left on any machine is evaluated exactly.

1. The bound reads few plan fields, so it is evaluated once for each distinct row of them.
2. Incumbents: the best plans on some machines, at some limits, among the rows of the least bounds.
   They are evaluated on all machines; the k-th best of those that fit is u, by limit and machine.
3. A row stays if its bound is at most u, ties included, on any machine where its first plan fits.

Plans are sorted by need, so what fits a limit is a prefix of the list, and of what is left of it.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.chunks import chunk_shape, iter_chunks
from jaxroof.engine.grid.dependencies import bound_reads, dependencies
from jaxroof.engine.search import direct
from jaxroof.engine.search.candidates import SortedPlans
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    plans_that_fit,
)
from jaxroof.estimator import FAR, TIE
from jaxroof.structure import structure

LEAST_PLANS = 4096  # fewer are compared sooner than they are bounded
MOST_TOP = 64  # best plans that are asked for, beyond which too many incumbents are needed
LANES = 1024  # machines times limits of one call
SAMPLED = 16  # machines, and limits, at which incumbents are sought
ROWS = (32, 512, 4096)  # of the least bounds, among which incumbents are sought, fewest first
SLACK = 4.0 * TIE  # relative: more than a tie of the search


def is_worthwhile(question: SearchProblem, groups: Sequence[ProblemGroup]) -> bool:
    """Return whether the estimator bounds the objective, and there are plans to pass over."""
    plans = max((len(some) for group in groups for some in group.ready.plans), default=0)
    return plans >= LEAST_PLANS and question.top <= MOST_TOP and is_bounded(question)


def chunks_of_group(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Pass over plans on each chunk of limits and machines, then search what is left exactly."""
    axes = [question.axes[d] for d in kind.limits + kind.machine]
    for region in iter_chunks(axes, chunk_shape([len(axis) for axis in axes], LANES)):
        left = plans_left(question, group, direct.cut(axes, region), len(kind.limits))
        yield from direct.chunks_of_group(question, kind, group, region, left)


def is_bounded(question: SearchProblem) -> bool:
    """Return whether the estimator bounds the objective from below, and NumPy can evaluate it."""
    estimator = question.estimator
    if estimator.lower_bound is None or question.objective != estimator.objective:
        return False
    shape = structure(question.inputs)
    return question.sign > 0.0 and dependencies(estimator, question.recipe, shape).on_numpy


def plans_left(
    question: SearchProblem, group: ProblemGroup, axes: Sequence[Axis], first: int
) -> list[np.ndarray]:
    """Return the positions of the plans of each problem that can be among the best anywhere.

    Arguments: ``axes``, as many of limits as ``first`` says, then of machines.
    """
    fits, machine = plans_that_fit(question.estimator, group, axes), axes[first:]
    lanes = math.prod(len(axis) for axis in machine)
    rank = max(1, sum(len(axis) > 1 for axis in machine))
    each = max(2, round(SAMPLED ** (1.0 / rank)))  # about as many points whatever the axes
    sampled = [_spaced(len(axis), each) for axis in machine]
    every = direct.grid_objectives(question, group, machine)
    few = [axis.at(places) for axis, places in zip(machine, sampled, strict=True)]
    some = direct.grid_objectives(question, group, few)
    at = np.arange(lanes).reshape([len(axis) for axis in machine])[np.ix_(*sampled)].reshape(-1)
    reads = bound_reads(question.estimator, question.recipe, structure(question.inputs))
    left = []
    for q, rows in enumerate(group.ready.rows_of_each(reads.fields)):
        limits = np.sort(fits[q].reshape(-1, lanes), axis=0)
        plans, start = group.ready.plans[q], group.ready.starts[q]
        exact = functools.partial(_from, every, start)
        few_lanes = functools.partial(_from, some, start)
        known = _incumbents(question, plans, rows, limits[:, at], few_lanes)
        reached = _reached(question, plans, known, limits, direct.in_pieces(exact, known, lanes))
        left.append(_left(rows, limits, reached, functools.partial(exact, bound=True)))
    return left


def _from(objectives: Callable[..., np.ndarray], start: int, some: np.ndarray, **more: Any) -> Any:
    return objectives(start + some, **more)


Rows = tuple[np.ndarray, np.ndarray]  # first plan of each distinct row, and the row of each plan
Objectives = Callable[[np.ndarray], np.ndarray]  # positions of plans -> values [plan, lane]


def _left(rows: Rows, limits: np.ndarray, reached: np.ndarray, bounds: Objectives) -> np.ndarray:
    """Return the positions of one problem's plans whose bound is not above what others reach.

    Arguments: ``limits``, how many plans fit [limit, lane], by increasing number, and what the best
    known plans reach at each.
    """
    lanes, most = limits.shape[1], int(limits.max(initial=0))
    first, number = rows
    stays = np.zeros(len(first), bool)

    def pass_by(some: np.ndarray) -> np.ndarray:
        lowest = (limits <= some[0]).sum(axis=0)  # the least limit that the first plan fits
        here = np.minimum(lowest, len(limits) - 1)
        known = np.where(lowest < len(limits), reached[here, np.arange(lanes)], -FAR)
        above: np.ndarray = np.all(bounds(some) > known, axis=1)
        return above

    fitting = first[: np.searchsorted(first, most)]
    if len(fitting):
        stays[: len(fitting)] = ~direct.in_pieces(pass_by, fitting, lanes)
    return np.flatnonzero(stays[number[:most]])


def _incumbents(
    question: SearchProblem,
    plans: SortedPlans,
    rows: Rows,
    limits: np.ndarray,
    objectives: Callable[..., np.ndarray],
) -> np.ndarray:
    """Return the positions of the best plans on some lanes, as far as the least bounds show them.

    Arguments: how many plans fit [limit, lane], and the objectives, or bounds, on these lanes.
    """
    (first, number), lanes = rows, limits.shape[1]
    limits = limits[_spaced(len(limits), SAMPLED)]
    least = direct.in_pieces(functools.partial(objectives, bound=True), first, lanes)
    for count in (max(number, question.top) for number in ROWS):
        chosen, bound = _least_rows(first, least, limits, count)
        known = np.flatnonzero(chosen[number])
        known = known[known < limits.max(initial=0)]
        values = direct.in_pieces(objectives, known, lanes)
        reached = _reached(question, plans, known, limits, values)
        if np.all(reached <= bound):  # no other row is better
            break
    best = np.zeros(len(known), bool)
    for fits, most in zip(limits, reached, strict=True):
        best |= np.any((values <= most) & (known[:, None] < fits), axis=1)
    return known[best]


def _least_rows(
    first: np.ndarray, bounds: np.ndarray, limits: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows have one of the least bounds, and the largest of these.

    Arguments: ``bounds`` [row, lane], ``limits`` [limit, lane].
    Returns: [row], and [limit, lane], far where no other row fits.
    """
    chosen, largest = np.zeros(len(bounds), bool), np.full(limits.shape, FAR)
    for level, lane in np.ndindex(limits.shape):
        fitting = bounds[: np.searchsorted(first, limits[level, lane]), lane]
        if len(fitting) > count:
            order = np.argpartition(fitting, count)
            largest[level, lane] = fitting[order[count]]
            chosen[order[:count]] = True
        else:
            chosen[: len(fitting)] = True
    return chosen, largest


def _spaced(count: int, most: int) -> np.ndarray:
    """Return at most so many whole numbers below ``count``, evenly spaced."""
    return np.linspace(0, count - 1, min(count, most)).astype(int)


def _reached(
    question: SearchProblem,
    plans: SortedPlans,
    known: np.ndarray,
    limits: np.ndarray,
    values: np.ndarray,
) -> np.ndarray:
    """Return what the best known plans reach, ties included: the k-th best that fits.

    Arguments: positions of the plans, how many fit [limit, lane], and the values [plan, lane].
    Returns: [limit, lane], far where fewer fit.
    """
    if not len(known):
        return np.full(limits.shape, FAR)
    split = None if question.top == 1 or question.placements else plans.split[known]
    position, found = direct.firsts(question.top, values, np.searchsorted(known, limits), split)
    reached = np.where(position[-1] >= 0, found[-1], FAR)
    return reached + SLACK * np.abs(reached)
