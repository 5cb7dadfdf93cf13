"""The best plans at every point of a grid: groups of problems, folded over chunks of machines."""

import dataclasses
import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis, points, replace_all, spread
from jaxroof.engine.grid.chunks import Place, Progress, chunk_shape, iter_chunks, padded_slice
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.candidates import (
    InputsKey,
    PreparedPlans,
    Sizes,
    SortedPlans,
    distinct_part_rows,
    pack_plans,
    prepare_plans,
    read_paths,
)
from jaxroof.engine.search.per_plan import search_per_plan
from jaxroof.engine.search.problem import AxisRoles, SearchProblem, axis_roles
from jaxroof.estimator import Estimator

LANES = 1024  # machines times limits per device in one call
CELLS = 1 << 23  # block minima, or plans of the second pass, per device in one call
QUESTIONS = 64  # problems per call; limits the memory of their padded plans


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """The winners of a search over the whole grid."""

    plans: dict[str, np.ndarray]  # [*axes, rank], -1 where fewer plans fit
    objective: np.ndarray  # [*axes, rank]
    legal: np.ndarray  # number of legal plans, [*axes]
    feasible: np.ndarray  # number of plans that fit the limit, [*axes]
    least_need: np.ndarray  # [*axes], NaN where there is no plan
    refused: dict[str, int]  # plans or choices refused by each rule, over all problems
    combinations: int  # pairs of a plan and a point that were compared


@dataclasses.dataclass(frozen=True, eq=False)
class ProblemGroup:
    """Problems that share one call, because their parts and their need are the same."""

    index: list[tuple[int, ...]]  # of each problem: first the outer, then the structural axes
    inputs: Any
    varied: dict[str, np.ndarray]
    ready: PreparedPlans


def best_plans(question: SearchProblem, progress: Progress | None = None) -> SearchResult:
    """Return the best plans at every point of the grid of a search."""
    found = _nothing_yet(question)
    if question.estimator.sizing is not None:
        return dataclasses.replace(found, combinations=search_per_plan(question, found, progress))
    kind, axes = axis_roles(question), question.axes
    groups = list(_groups(question, kind))
    first = {id(group.ready): place for place, group in reversed(list(enumerate(groups)))}
    # groups with the same plans run in sequence
    groups.sort(key=lambda group: first[id(group.ready)])
    machines = math.prod(len(axes[d]) for d in kind.machine + kind.limits)
    # one size for all groups, so that they share one compiled program
    sizes = functools.reduce(
        operator.or_, (distinct_part_rows(question.estimator, g.ready)[1] for g in groups)
    )
    total = sum(len(s) for g in groups for s in g.ready.plans) * machines
    done = 0
    for group in groups:
        for reason in group.ready.refused:
            for name, count in reason.items():
                found.refused[name] = found.refused.get(name, 0) + count
        for chunk in _chunks(question, kind, group, sizes):
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
        plans={f: np.full(ranked, -1, np.int64) for f in question.estimator.plan_fields},
        objective=np.full(ranked, np.nan),
        legal=np.zeros(shape, np.int64),
        feasible=np.zeros(shape, np.int64),
        least_need=np.full(shape, np.nan),
        refused={},
        combinations=0,
    )


@dataclasses.dataclass(frozen=True, eq=False)
class MachineChunk:
    """The winners of a group's problems on one chunk of the grid."""

    place: Place
    position: np.ndarray  # [problem, rank, *limits, *machine]
    objective: np.ndarray
    fits: np.ndarray  # [problem, *limits, *machine]


def _groups(question: SearchProblem, kind: AxisRoles) -> Iterator[ProblemGroup]:
    axes, estimator, recipe = question.axes, question.estimator, question.recipe
    inner = list(points([axes[d] for d in kind.structural]))
    known = read_paths(estimator, recipe, question.inputs)
    for index, values in points([axes[d] for d in kind.outer]):
        inputs = replace_all(question.inputs, values)
        base = InputsKey.of(inputs, known)
        for start in range(0, len(inner), QUESTIONS):
            some = inner[start : start + QUESTIONS]
            numbers = tuple(base.at(v, known) for _, v in some)
            yield ProblemGroup(
                index=[index + i for i, _ in some],
                inputs=inputs,
                varied={p: np.array([v[p] for _, v in some]) for p in some[0][1]},
                ready=prepare_plans(estimator, recipe, question.where, numbers),
            )


def _chunks(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup, sizes: Sizes
) -> Iterator[MachineChunk]:
    """Fold a group's plans over each chunk of limits and machines in turn."""
    limits, machine = ([question.axes[d] for d in dims] for dims in (kind.limits, kind.machine))
    axes, first = [*limits, *machine], len(limits)
    distinct, plans = pack_plans(question.estimator, group.ready, sizes)
    lead, size = plans.split.shape
    fold = _fold(question, kind, group, size)
    # block minima per lane, or values of the second pass per lane
    cells = max(size // fold.block, (2 * fold.looks + 1) * fold.block)
    shape, shard = _chunk_shape(axes, first, min(LANES, CELLS // cells))
    varied = {p: np.append(v, np.repeat(v[:1], lead - len(v))) for p, v in group.varied.items()}
    varied = folding.replicate(varied)
    waiting: list[tuple[Place, np.ndarray, Any]] = []
    for place in iter_chunks(axes, shape):
        here = padded_slice(axes, place, shape)
        lanes = spread(group.inputs, here[first:])
        fits = _fits(question.estimator, group, here)
        # plans beyond the largest limit of the call cannot win and are not folded
        reach = np.pad(fits.reshape(len(fits), -1).max(axis=1), (0, lead - len(fits)))
        rows = np.zeros((lead, *fits.shape[1:]), np.int64)
        rows[: len(fits)] = fits
        found = folding.best(
            fold,
            shard,
            lanes,
            varied,
            distinct,
            plans._replace(counts=reach),
            rows.reshape(lead, -1, *shape[first:]),
        )
        waiting.append((place, fits, found))
        if len(waiting) > 1:  # the devices compute one chunk while the previous one is read
            yield _read(question, shape, *waiting.pop(0))
    for held in waiting:
        yield _read(question, shape, *held)


def _read(
    question: SearchProblem, shape: list[int], place: Place, fits: np.ndarray, found: Any
) -> MachineChunk:
    """Return the winners of one call, without padding."""
    used = tuple(slice(0, s.stop - s.start) for s in place)
    inside = (slice(0, len(fits)), slice(None), *used)
    position, objective = (np.asarray(a).reshape(-1, question.top, *shape)[inside] for a in found)
    return MachineChunk(place, position, question.sign * objective, fits[(slice(None), *used)])


def _chunk_shape(axes: Sequence[Axis], first: int, lanes: int) -> tuple[list[int], int]:
    """Return a chunk's shape and the machine dimension that is split over the devices."""
    devices = folding.mesh().size
    sizes = [len(axis) for axis in axes]
    most = chunk_shape(sizes, max(1, lanes) * devices)
    # chunks as equal as possible, so that the last one needs little padding
    shape = [-(-size // -(-size // part)) for size, part in zip(sizes, most, strict=True)]
    if first == len(axes):
        return shape, 0
    shard = int(np.argmax(shape[first:]))
    shape[first + shard] = -(-shape[first + shard] // devices) * devices  # equal shares
    return shape, shard


def _fold(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup, size: int
) -> folding.FoldConfig:
    block = 16 if size <= 1 << 16 else 64
    per_split = not question.placements and question.top > 1
    largest = max(_largest_split(plans) for plans in group.ready.plans)
    # the plans of one split are adjacent, but may span several blocks
    straddle = 1 + -(-(largest - 1) // block) if per_split else 1
    return folding.FoldConfig(
        estimator=question.estimator,
        recipe=question.recipe,
        objective=question.objective,
        sign=question.sign,
        top=question.top,
        per_split=per_split,
        looks=min(question.top * straddle, -(-size // block)),
        block=block,
        rank=len(kind.machine),
    )


def _largest_split(plans: SortedPlans) -> int:
    return int(np.bincount(plans.split).max()) if len(plans) else 1


def _fits(estimator: Estimator, group: ProblemGroup, axes: Sequence[Axis]) -> np.ndarray:
    """Return how many plans of each problem fit, [problem, *axes]."""
    plans = group.ready.plans
    fits = np.empty((len(plans), *(len(axis) for axis in axes)), np.int64)
    if estimator.limit is None:
        fits.T[...] = [len(some) for some in plans]
        return fits
    questions = [Axis("question", group.varied)] if group.varied else []
    limit = np.asarray(estimator.limit(spread(group.inputs, [*questions, *axes])))
    for q, (some, most) in enumerate(zip(plans, np.broadcast_to(limit, fits.shape), strict=True)):
        fits[q] = np.searchsorted(some.need, most, side="right")
    return fits


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
    found.legal[at] = len(plans)
    if not len(plans):
        return
    for field, column in plans.plans.items():
        found.plans[field][at] = np.where(held, column[position], -1)
    found.objective[at] = np.where(held, objective, np.nan)
    found.feasible[at] = chunk.fits[q].transpose(turn)
    found.least_need[at] = plans.need[0]
