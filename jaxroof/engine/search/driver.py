"""The best plans at every point of a grid: groups of problems, folded over chunks of machines."""

import dataclasses
import math
from typing import Any

import numpy as np

from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.search import direct
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, problem_groups
from jaxroof.engine.search.per_plan import search_per_plan
from jaxroof.engine.search.problem import AxisRoles, SearchProblem, axis_roles
from jaxroof.engine.search.size import check_search_size


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """The winners of a search over the whole grid."""

    plans: dict[str, np.ndarray]  # int32 [*axes, rank], -1 where fewer plans fit
    objective: np.ndarray  # [*axes, rank]
    legal: np.ndarray  # number of legal plans, [*axes]
    feasible: np.ndarray  # number of plans that fit the limit, [*axes]
    least_need: np.ndarray  # [*axes], NaN where there is no plan
    refused: dict[str, int]  # plans or choices refused by each rule, over all problems
    combinations: int  # pairs of a plan and a point that were compared


def best_plans(question: SearchProblem, progress: Progress | None = None) -> SearchResult:
    """Return the best plans at every point of the grid of a search."""
    check_search_size(question)
    found = _nothing_yet(question)
    if question.estimator.sizing is not None:
        _clear(found, ...)
        return dataclasses.replace(found, combinations=search_per_plan(question, found, progress))
    kind, axes = axis_roles(question), question.axes
    groups = list(problem_groups(question, kind))
    first = {id(group.ready): place for place, group in reversed(list(enumerate(groups)))}
    # groups with the same plans run in sequence
    groups.sort(key=lambda group: first[id(group.ready)])
    machines = math.prod(len(axes[d]) for d in kind.machine + kind.limits)
    total = sum(len(s) for g in groups for s in g.ready.plans) * machines
    executor = executor_of(
        question.estimator, question.recipe, question.inputs, total, question.executor
    )
    if executor == NUMPY:
        chunks = direct.machine_chunks(question, kind)
    else:
        from jaxroof.engine.search import folded, pruned

        way = pruned if pruned.is_worthwhile(question, kind, total) else folded
        chunks = way.machine_chunks(question, kind, groups)
    done = 0
    for group in groups:
        for reason in group.ready.refused:
            for name, count in reason.items():
                found.refused[name] = found.refused.get(name, 0) + count
        for chunk in chunks(group):
            for q in range(len(group.index)):
                _fill(kind, group, q, chunk, found)
            done += sum(map(len, group.ready.plans)) * math.prod(
                s.stop - s.start for s in chunk.place
            )
            if progress is not None:
                progress(done, total)
    return dataclasses.replace(found, combinations=total)


def _nothing_yet(question: SearchProblem) -> SearchResult:
    shape = tuple(len(axis) for axis in question.axes)
    ranked = (*shape, question.top)
    return SearchResult(
        plans={f: np.empty(ranked, np.int32) for f in question.estimator.plan_fields},
        objective=np.empty(ranked),
        legal=np.empty(shape, np.int64),
        feasible=np.empty(shape, np.int64),
        least_need=np.empty(shape),
        refused={},
        combinations=0,
    )


def _clear(found: SearchResult, at: Any) -> None:
    """Write that there is no plan at some points."""
    for column in found.plans.values():
        column[at] = -1
    found.objective[at] = found.least_need[at] = np.nan
    found.legal[at] = found.feasible[at] = 0


def _fill(
    kind: AxisRoles, group: ProblemGroup, q: int, chunk: MachineChunk, found: SearchResult
) -> None:
    """Write one problem's chunk into the arrays of the whole grid."""
    order = kind.limits + kind.machine  # the axis of each dimension of the chunk
    place = dict(zip(kind.outer + kind.structural, group.index[q], strict=True))
    steps: dict[int, Any] = {**place, **dict(zip(order, chunk.place, strict=True))}
    at = tuple(steps[d] for d in sorted(steps))
    turn = [int(i) for i in np.argsort(order)] if order else []
    position = np.moveaxis(chunk.position[q], 0, -1).transpose(*turn, len(order))
    objective = np.moveaxis(chunk.objective[q], 0, -1).transpose(*turn, len(order))
    plans, held = group.ready.plans[q], position >= 0
    if not len(plans):
        _clear(found, at)
        return
    found.legal[at] = len(plans)
    everywhere = bool(held.all())
    for field, column in plans.plans.items():
        chosen = column.take(position)  # the last plan where none fits
        found.plans[field][at] = chosen if everywhere else np.where(held, chosen, np.int32(-1))
    found.objective[at] = objective if everywhere else np.where(held, objective, np.nan)
    found.feasible[at] = chunk.fits[q].transpose(turn)
    found.least_need[at] = plans.need[0]
