"""The best plans at every point of a grid: groups of problems, folded over chunks of machines."""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.executor import JAX, NUMPY, executor_of
from jaxroof.engine.grid.size import NUMBER, check_lists, check_search
from jaxroof.engine.search import bounded, boxes, direct, swept
from jaxroof.engine.search.candidates import plan_product
from jaxroof.engine.search.one_machine import OneMachine, one_machine
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    axis_roles,
    most_by_numpy,
    plans_that_fit,
    problem_groups,
)
from jaxroof.records import replace_all
from jaxroof.structure import results


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """The winners of a search over the whole grid."""

    winner: np.ndarray  # int32 [*axes, rank]: place in ``lists``, -1 where fewer plans fit
    lists: list[Mapping[str, np.ndarray]]  # fields of the legal plans, one list after another
    objective: np.ndarray  # [*axes, rank]
    legal: np.ndarray  # number of legal plans, [*axes]
    feasible: np.ndarray  # number of plans that fit the limit, [*axes]
    least_need: np.ndarray  # [*axes], NaN where there is no plan
    refused: dict[str, int]  # plans or choices refused by each rule, over all problems
    combinations: int  # pairs of a plan and a point that were compared
    evaluated: int  # of these, those that no bound passed over
    machine: OneMachine | None = None  # where there is only one

    @functools.cached_property
    def plans(self) -> dict[str, np.ndarray]:
        """Return the fields of the winners, int32 [*axes, rank], -1 where fewer plans fit."""
        nothing = np.array([-1], np.int32)  # at the last place, which is -1 too
        found = {}
        for field in self.lists[0]:
            column = np.concatenate([*(some[field] for some in self.lists), nothing])
            found[field] = column.take(self.winner)
        return found

    @property
    def held(self) -> np.ndarray:
        """Return where there is a plan, [*axes, rank]."""
        return self.winner >= 0


def best_plans(question: SearchProblem, progress: Progress | None = None) -> SearchResult:
    """Return the best plans at every point of the grid of a search."""
    check_search_size(question)
    axes, estimator = question.axes, question.estimator
    if not axes and (
        executor_of(estimator, question.recipe, question.inputs, 0, question.executor) == NUMPY
        or estimator.sizing is not None
    ):
        return _of_one_machine(one_machine(question))
    kind = axis_roles(question)
    groups = list(problem_groups(question, kind))
    outer, inner, lanes = (
        [len(axes[d]) for d in some]
        for some in (kind.outer, kind.structural, kind.limits + kind.machine)
    )
    along = [axes[d] for d in kind.limits + kind.machine]
    fits = [plans_that_fit(estimator, group, along, whole=False) for group in groups]
    # dimensions: outer, problem, limits, machine, rank; 1 where nothing moves along an axis
    problems = (*outer, math.prod(inner))
    winner = np.empty((*problems, *lanes, question.top), np.int32)
    objective = np.empty(winner.shape)
    legal, feasible, least, refused = _counts(groups, fits, problems)
    starts, lists, before = {}, [], 0
    for ready in {id(group.ready): group.ready for group in groups}.values():
        starts[id(ready)] = before
        lists.append(ready.every)
        before += int(ready.starts[-1])
    groups.sort(key=lambda group: starts[id(group.ready)])  # those of the same plans in sequence
    total = sum(int(group.ready.starts[-1]) for group in groups) * math.prod(lanes)
    chunks, done, evaluated = _way(question, kind, groups, total), 0, 0
    for group in groups:
        for chunk in chunks(group):
            at = (*group.place, *chunk.place)
            _fill(winner[at], objective[at], chunk, starts[id(group.ready)] + group.ready.starts)
            evaluated += chunk.compared
            points = math.prod(some.stop - some.start for some in chunk.place)
            done += int(group.ready.starts[-1]) * points
            if progress is not None:
                progress(done, total)
    order = kind.outer + kind.structural + kind.limits + kind.machine
    turn = np.argsort(order).astype(int).tolist()

    def turned(array: np.ndarray) -> np.ndarray:
        """Return an array with one dimension per axis, in order."""
        own = array.reshape((*outer, *inner, *array.shape[len(problems) :]))
        rank = own.shape[len(axes) :]
        whole = np.broadcast_to(own, (*outer, *inner, *lanes, *rank))
        return whole.transpose(*turn, *range(len(axes), whole.ndim))

    return SearchResult(
        turned(winner),
        lists,
        turned(objective),
        turned(legal),
        turned(feasible),
        turned(least),
        refused,
        total,
        evaluated,
    )


def _counts(
    groups: Sequence[ProblemGroup], fits: Sequence[np.ndarray], problems: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[str, int]]:
    """Return how many plans are legal and fit, what the leanest needs, and how many are refused."""
    one, refused = (1,) * (fits[0].ndim - 1), Counter[str]()
    legal, least = np.empty((*problems, *one), np.int64), np.empty((*problems, *one))
    feasible = np.empty((*problems, *fits[0].shape[1:]), np.int64)
    for group, fit in zip(groups, fits, strict=True):
        ready, at = group.ready, group.place
        feasible[at] = fit
        legal[at] = np.diff(ready.starts).reshape(-1, *one)
        needs = [some.need[0] if len(some) else np.nan for some in ready.plans]
        least[at] = np.reshape(needs, (-1, *one))
        for reason in ready.refused:
            refused.update(reason)
    return legal, feasible, least, dict(refused)


def _fill(
    winner: np.ndarray, objective: np.ndarray, chunk: MachineChunk, starts: np.ndarray
) -> None:
    """Write the winners of a chunk into arrays [problem, *limits, *machine, rank].

    ``starts`` is where the plans of each problem begin among all.
    """
    position, best = (np.moveaxis(a, 1, -1) for a in (chunk.position, chunk.objective))
    first = starts[:-1].reshape(-1, *(1,) * (winner.ndim - 1))
    np.add(position, first, out=winner, casting="unsafe")
    objective[...] = best
    if position.min(initial=0) < 0:
        winner[position < 0] = -1
        objective[position < 0] = np.nan


def _way(
    question: SearchProblem, kind: AxisRoles, groups: Sequence[ProblemGroup], total: int
) -> Callable[[ProblemGroup], Iterator[MachineChunk]]:
    """Return a function that finds the best plans of a group, by the way that is fastest."""
    whose = question.estimator, question.recipe, question.inputs
    if question.executor != JAX and not kind.swept and bounded.is_worthwhile(question, groups):
        return functools.partial(bounded.chunks_of_group, question, kind)
    most = most_by_numpy(question, kind)
    sized = question.estimator.sizing is not None
    if sized or executor_of(*whose, total, question.executor, most) == NUMPY:
        way = swept if kind.swept else direct
        return functools.partial(way.chunks_of_group, question, kind)

    def folds(group: ProblemGroup) -> Iterator[MachineChunk]:
        from jaxroof.engine.search import folded

        return folded.machine_chunks(question, kind, groups)(group)

    if boxes.is_worthwhile(question, kind, total):
        return functools.partial(boxes.chunks_of_group, question, kind, folds)
    return folds


def _of_one_machine(machine: OneMachine) -> SearchResult:
    """Return the best plans of a problem without axes."""
    question = machine.question
    best, values = machine.best(question.top)
    winner, objective = np.full(question.top, -1, np.int32), np.full(question.top, np.nan)
    winner[: len(best)] = np.arange(len(best))
    objective[: len(best)] = question.sign * values
    return SearchResult(
        winner=winner,
        lists=[machine.at(best)],
        objective=objective,
        legal=np.array(machine.plans.size),
        feasible=np.array(len(machine.fitting)),
        least_need=np.array(machine.need.min() if len(machine.need) else np.nan),
        refused=dict(machine.refused),
        combinations=machine.plans.size,
        evaluated=machine.evaluated,
        machine=machine,
    )


def check_search_size(question: SearchProblem) -> None:
    """Check that the best plans of every point, and the lists of plans, fit in memory.

    The lists are those of the points that share no list with others; a sample says how long.
    Raises: TooLarge with the size, the limit and the way out.
    """
    estimator, fields = question.estimator, len(question.estimator.plan_fields)
    check_search(question.axes, question.top, fields, question.report)
    kind = axis_roles(question)
    some = tuple(question.axes[d] for d in kind.outer + kind.structural)

    def plans_at(values: Mapping[str, Any]) -> int:
        inputs = replace_all(dataclasses.replace(question.inputs, plan=None), values)
        return plan_product(estimator, inputs, question.recipe, question.where).size

    check_lists(some, NUMBER * (fields + len(results(question.report))), plans_at)
