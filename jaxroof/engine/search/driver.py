"""The best plans at every point of a grid: groups of problems, folded over chunks of machines."""

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import points, replace_all
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.executor import JAX, NUMPY, executor_of
from jaxroof.engine.grid.size import NUMBER, check_lists, check_search
from jaxroof.engine.search import bounded, boxes, direct
from jaxroof.engine.search.candidates import plan_product
from jaxroof.engine.search.groups import (
    MachineChunk,
    ProblemGroup,
    fits_by_limit,
    problem_groups,
)
from jaxroof.engine.search.one_machine import OneMachine, one_machine
from jaxroof.engine.search.problem import (
    AxisRoles,
    SearchProblem,
    axis_roles,
    most_by_numpy,
)
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
    axes = question.axes
    whose = question.estimator, question.recipe, question.inputs
    if question.estimator.sizing is not None:  # its plans need programs of their own
        return _point_by_point(question, progress)
    if not axes and executor_of(*whose, 0, question.executor) == NUMPY:
        return _of_one_machine(one_machine(question))
    kind = axis_roles(question)
    outer, inner, lanes = (
        [len(axes[d]) for d in some]
        for some in (kind.outer, kind.structural, kind.limits + kind.machine)
    )
    groups = list(problem_groups(question, kind))
    along = [axes[d] for d in kind.limits + kind.machine]
    fits = [fits_by_limit(question.estimator, group, along) for group in groups]
    found = _nothing_yet(question, [*outer, math.prod(inner)], lanes, fits[0].shape[1:])
    for group in groups:
        _count(group, fits.pop(0), found)
    lists, starts = _lists(groups)
    groups.sort(key=lambda group: starts[id(group.ready)])  # those of the same plans in sequence
    machines = math.prod(len(axes[d]) for d in kind.machine + kind.limits)
    total = sum(len(s) for g in groups for s in g.ready.plans) * machines
    chunks = _way(question, kind, groups, total)
    done = evaluated = 0
    for group in groups:
        for chunk in chunks(group):
            _fill(group, chunk, starts[id(group.ready)], found)
            evaluated += chunk.compared
            done += sum(map(len, group.ready.plans)) * math.prod(
                s.stop - s.start for s in chunk.place
            )
            if progress is not None:
                progress(done, total)
    order = kind.outer + kind.structural + kind.limits + kind.machine
    found = _in_order(found, [*outer, *inner], lanes, order)
    return dataclasses.replace(found, lists=lists, combinations=total, evaluated=evaluated)


def _way(
    question: SearchProblem, kind: AxisRoles, groups: Sequence[ProblemGroup], total: int
) -> Callable[[ProblemGroup], Iterator[MachineChunk]]:
    """Return a function that finds the best plans of a group, by the way that is fastest."""
    whose = question.estimator, question.recipe, question.inputs
    if question.executor != JAX and bounded.is_worthwhile(question, groups):
        return functools.partial(bounded.chunks_of_group, question, kind)
    most = most_by_numpy(question, kind)
    if executor_of(*whose, total, question.executor, most) == NUMPY:
        return functools.partial(direct.chunks_of_group, question, kind)

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


def _nothing_yet(
    question: SearchProblem, problems: Sequence[int], lanes: Sequence[int], fits: Sequence[int]
) -> SearchResult:
    """Return arrays for the winners, without values; what no machine moves has size 1 there.

    ``lanes`` are the sizes of the dimensions of limits and machines, and ``fits`` those of them
    along which it changes what fits, 1 elsewhere.
    """
    each, ranked = (*problems, *(1 for _ in lanes)), (*problems, *lanes, question.top)
    return SearchResult(
        winner=np.empty(ranked, np.int32),
        lists=[{field: np.empty(0, np.int32) for field in question.estimator.plan_fields}],
        objective=np.empty(ranked),
        legal=np.empty(each, np.int64),
        feasible=np.empty((*problems, *fits), np.int64),
        least_need=np.empty(each),
        refused={},
        combinations=0,
        evaluated=0,
    )


def _point_by_point(question: SearchProblem, progress: Progress | None) -> SearchResult:
    """Return the best plans at every point of a grid, each point a search of its own."""
    found = _nothing_yet(question, [len(axis) for axis in question.axes], [], [])
    lists: list[Mapping[str, np.ndarray]] = []
    refused, total, before = Counter[str](), 0, 0
    every = list(points(question.axes))
    for done, (index, values) in enumerate(every, 1):
        inputs = replace_all(question.inputs, values)
        one = _of_one_machine(one_machine(dataclasses.replace(question, inputs=inputs, axes=())))
        found.winner[index] = np.where(one.winner >= 0, one.winner + before, -1)
        before += int((one.winner >= 0).sum())
        for name in ("objective", "legal", "feasible", "least_need"):
            getattr(found, name)[index] = getattr(one, name)
        lists += one.lists
        refused.update(one.refused)
        total += one.combinations
        if progress is not None:
            progress(done, len(every))
    found = dataclasses.replace(found, lists=lists, refused=dict(refused))
    return dataclasses.replace(found, combinations=total, evaluated=total)


def _lists(
    groups: Sequence[ProblemGroup],
) -> tuple[list[Mapping[str, np.ndarray]], dict[int, int]]:
    """Return the plans of all groups, each list once, and where each begins, by its identity."""
    lists = {id(group.ready): group.ready for group in groups}
    starts = np.cumsum([0, *(ready.starts[-1] for ready in lists.values())])
    begins = dict(zip(lists, starts[:-1].tolist(), strict=True))
    return [ready.every for ready in lists.values()], begins


def _count(group: ProblemGroup, fits: np.ndarray, found: SearchResult) -> None:
    """Write how many plans of a group are legal, refused and fit, and what the leanest needs."""
    ready = group.ready
    own: tuple[Any, ...] = (*group.outer, group.some)
    each = (-1, *(1,) * (fits.ndim - 1))  # problems along the first dimension
    found.feasible[own] = fits
    found.legal[own] = np.diff(ready.starts).reshape(each)
    least = [some.need[0] if len(some) else np.nan for some in ready.plans]
    found.least_need[own] = np.reshape(least, each)
    for reason in ready.refused:
        for name, count in reason.items():
            found.refused[name] = found.refused.get(name, 0) + count


def _fill(group: ProblemGroup, chunk: MachineChunk, start: int, found: SearchResult) -> None:
    """Write the chunk of a group's problems into arrays [*outer, problem, *limits, *machine].

    ``start`` is where the plans of the group begin among all.
    """
    at: tuple[Any, ...] = (*group.outer, group.some, *chunk.place)
    position, objective = (np.moveaxis(a, 1, -1) for a in (chunk.position, chunk.objective))
    starts = start + group.ready.starts[:-1]
    winner, best = found.winner[at], found.objective[at]
    np.add(position, starts.reshape(-1, *(1,) * (winner.ndim - 1)), out=winner, casting="unsafe")
    best[...] = objective
    if position.min(initial=0) < 0:
        winner[position < 0] = -1
        best[position < 0] = np.nan


def _in_order(
    found: SearchResult, problems: Sequence[int], lanes: Sequence[int], axes: Sequence[int]
) -> SearchResult:
    """Return the winners with one dimension per axis, in order.

    ``problems`` and ``lanes`` are the sizes of the dimensions so far, and ``axes`` their axes.
    """
    turn = np.argsort(axes).astype(int).tolist()

    def turned(array: np.ndarray, *rank: int) -> np.ndarray:
        own = array.reshape((*problems, *array.shape[array.ndim - len(lanes) - len(rank) :]))
        whole = np.broadcast_to(own, (*problems, *lanes, *rank))
        return whole.transpose(*turn, *range(len(axes), whole.ndim))

    top = found.objective.shape[-1]
    return dataclasses.replace(
        found,
        winner=turned(found.winner, top),
        objective=turned(found.objective, top),
        legal=turned(found.legal),
        feasible=turned(found.feasible),
        least_need=turned(found.least_need),
    )


def check_search_size(question: SearchProblem) -> None:
    """Check that the best plans of every point, and the lists of plans, fit in memory.

    The lists are those of the points that share no list with others; a sample says how long.
    Raises: TooLarge with the size, the limit and the way out.
    """
    estimator, fields = question.estimator, len(question.estimator.plan_fields)
    check_search(question.axes, question.top, fields, question.report)
    if estimator.sizing is not None:  # every plan of every point is evaluated by itself
        some = question.axes
    else:
        kind = axis_roles(question)
        some = tuple(question.axes[d] for d in kind.outer + kind.structural)

    def plans_at(values: Mapping[str, Any]) -> int:
        inputs = replace_all(dataclasses.replace(question.inputs, plan=None), values)
        return plan_product(estimator, inputs, question.recipe, question.where).size

    check_lists(some, NUMBER * (fields + len(results(question.report))), plans_at)
