"""A search by NumPy: every plan on every machine of a chunk in one array, for small questions."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis, replace_all, spread
from jaxroof.engine.grid.chunks import Place, chunk_shape, iter_chunks, padded_slice
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.executor import by_threads
from jaxroof.engine.search.candidates import PreparedPlans, distinct_part_rows
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, plans_that_fit
from jaxroof.engine.search.problem import AxisRoles, SearchProblem
from jaxroof.estimator import FAR, TIE, reads
from jaxroof.records import with_named_absences
from jaxroof.structure import map_numbers, structure

CELLS = 1 << 16  # objectives evaluated at a time, so that they stay in the cache
HELD = 1 << 23  # objectives held at a time


def chunks_of_group(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Compare the plans of a group of problems on each chunk of limits and machines."""
    limits, machine = ([question.axes[d] for d in dims] for dims in (kind.limits, kind.machine))
    most = max(max(map(len, group.ready.plans)), 1)
    shape = chunk_shape([len(axis) for axis in machine], min(CELLS, max(1, HELD // most)))
    within = chunk_shape([len(axis) for axis in limits], max(1, CELLS // math.prod(shape)))
    for lanes in iter_chunks(machine, shape):
        there = padded_slice(machine, lanes, [some.stop - some.start for some in lanes])
        objectives = grid_objectives(question, group, there)
        for place in iter_chunks(limits, within):
            here = padded_slice(limits, place, [some.stop - some.start for some in place])
            at = (*place, *lanes)
            if kind.swept:
                cells = _bounds(question, group, [*here, *there], len(place))
                yield _cells(question, group, objectives, cells, at)
            else:
                yield _chunk(question, group, objectives, [*here, *there], at, len(place))


def _chunk(
    question: SearchProblem,
    group: ProblemGroup,
    objectives: Callable[..., np.ndarray],
    here: Sequence[Axis],
    place: Place,
    limits: int,
) -> MachineChunk:
    """Compare the plans of each problem on one chunk of so many axes of limits, and machines."""
    fits = plans_that_fit(question.estimator, group, here)
    position = np.full((len(fits), question.top, *fits.shape[1:]), -1, np.int64)
    objective = np.full(position.shape, FAR)
    for q, plans in enumerate(group.ready.plans):
        count = int(fits[q].max()) if fits[q].size else 0
        if not count:
            continue
        own = functools.partial(objectives, q)
        values = in_pieces(own, np.arange(count), math.prod(fits.shape[1 + limits :]))
        few = fits[q].reshape(-1, values.shape[1])
        split = None if question.top == 1 or question.placements else plans.split
        found = firsts(question.top, values, few, split)
        position[q], objective[q] = (some.reshape(position.shape[1:]) for some in found)
    compared = sum(map(len, group.ready.plans)) * math.prod(fits.shape[1:])
    return MachineChunk(place, position, question.sign * objective, compared)


def _bounds(
    question: SearchProblem, group: ProblemGroup, here: Sequence[Axis], limits: int
) -> list[np.ndarray]:
    """Return how many plans fit the first limit, and the bound of each other limit.

    Returns: arrays [problem, *limits, *machine].
    """
    fits = plans_that_fit(question.estimator, group, here)
    found, inputs = [fits], spread(group.inputs, here)
    for limit in question.estimator.limits[1:]:
        each = [
            limit.of(replace_all(inputs, {path: v[q] for path, v in group.varied.items()}))
            for q in range(len(fits))
        ]
        found.append(np.stack([np.broadcast_to(one, fits.shape[1:]) for one in each]))
    return [some.reshape(len(fits), math.prod(fits.shape[1 : 1 + limits]), -1) for some in found]


def _cells(
    question: SearchProblem,
    group: ProblemGroup,
    objectives: Callable[..., np.ndarray],
    bounds: Sequence[np.ndarray],
    place: Place,
) -> MachineChunk:
    """Compare the plans of each problem under every combination of limits at once."""
    shape = (len(bounds[0]), question.top, *bounds[0].shape[1:])
    position, objective = np.full(shape, -1, np.int64), np.full(shape, FAR)
    names = (question.objective, *(limit.result for limit in question.estimator.limits[1:]))
    for q, plans in enumerate(group.ready.plans):
        if not len(plans):
            continue
        every = np.arange(len(plans))
        values, *others = (objectives(q, every, name=name) for name in names)
        split = plans.split if question.top > 1 and not question.placements else None
        for lane in range(shape[-1]):
            results = [every + 1, *(some[:, lane] for some in others)]
            few = [some[q, :, lane] for some in bounds]
            found = best_within(question.sign * values[:, lane], results, few, question.top, split)
            position[q, :, :, lane], objective[q, :, :, lane] = found
    sizes = [some.stop - some.start for some in place]
    position, objective = (a.reshape(*shape[:2], *sizes) for a in (position, objective))
    compared = sum(map(len, group.ready.plans)) * math.prod(sizes)
    return MachineChunk(place, position, question.sign * objective, compared)


def best_within(
    values: np.ndarray,
    results: Sequence[np.ndarray],
    bounds: Sequence[np.ndarray],
    top: int = 1,
    split: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plans whose results are all within bounds, on a tie the first of these.

    A plan lies in the cell of the least bounds that hold it. The least value of each cell and of
    those with tighter bounds, a running minimum along each limit, is what is reached at every
    combination of bounds; plans that reach it in their own cell are compared exactly.
    Arguments: ``values`` [plan]; for each limit ``results`` [plan] and ``bounds`` [combination].
    Returns: positions (-1 where no plan is within) and values, [top, combination].
    """
    levels, at = zip(*(np.unique(some, return_inverse=True) for some in bounds), strict=True)
    cell = np.stack([np.searchsorted(*pair) for pair in zip(levels, results, strict=True)])
    sizes = [len(some) for some in levels]
    inside = np.flatnonzero(np.all(cell < np.array(sizes)[:, None], axis=0) & (values < FAR))
    position = np.full((top, len(bounds[0])), -1, np.int64)
    found = np.full(position.shape, FAR)
    if top > 1 or math.prod(sizes) > CELLS:  # one combination after another
        for c in range(len(bounds[0])):
            few = np.all([r <= b[c] for r, b in zip(results, bounds, strict=True)], axis=0)
            left = np.where(few, values, FAR)[:, None]
            ranked = firsts(top, left, np.array([[len(values)]]), split)
            position[:, c], found[:, c] = (some[:, 0, 0] for some in ranked)
        return position, np.where(position >= 0, found, FAR)
    least = np.full(sizes, FAR)
    np.minimum.at(least, tuple(cell[:, inside]), values[inside])
    for dimension in range(len(sizes)):
        np.minimum.accumulate(least, axis=dimension, out=least)
    reached, own = least[at], least[tuple(cell[:, inside])]
    for plan in inside[values[inside] <= own + TIE * np.abs(own)][::-1]:
        holds = np.all(cell[:, plan, None] <= np.stack(at), axis=0)
        wins = holds & (values[plan] <= reached + TIE * np.abs(reached))
        position[0, wins], found[0, wins] = plan, values[plan]
    return position, found


def in_pieces(
    function: Callable[[np.ndarray], np.ndarray], positions: np.ndarray, lanes: int
) -> np.ndarray:
    """Return what a function gives for plans, in pieces that stay in the cache, a thread a core."""
    size = max(1, CELLS // lanes)
    pieces = [positions[i : i + size] for i in range(0, max(len(positions), 1), size)]
    return np.concatenate(list(by_threads(function, pieces, len(pieces))))


def _tables(
    question: SearchProblem, ready: PreparedPlans, inputs: Any, rank: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return every part on the distinct rows of its plan fields, and the row of each plan."""
    estimator, together = question.estimator, ready.every
    found, _ = distinct_part_rows(estimator, ready)
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    tables = {}
    with np.errstate(all="ignore"):
        for name, part in estimator.parts.items():
            some = {field: together[field][found[name].first] for field in reads(part)}
            tables[name] = part(bare, question.recipe, **tall(some, rank))
    return tables, {name: rows.number for name, rows in found.items()}


def tall(columns: Mapping[str, np.ndarray], rank: int) -> dict[str, np.ndarray]:
    """Return columns of plans as float64 before ``rank`` dimensions of machines."""
    shape = (-1, *(1,) * rank)
    return {field: column.astype(np.float64).reshape(shape) for field, column in columns.items()}


def plan_objectives(
    question: SearchProblem,
    inputs: Any,
    plans: Mapping[str, np.ndarray],
    tables: Mapping[str, Any],
    rows: Mapping[str, np.ndarray],
    lanes: tuple[int, ...],
    bound: bool = False,
    name: str | None = None,
) -> np.ndarray:
    """Return what the search minimises, or its bound, for plans with their rows in the tables.

    ``name``: a result of that name instead, whatever the limits. Returns: [plan, *machine].
    """
    estimator, rank = question.estimator, len(lanes)
    some = bound_reads(estimator, question.recipe, structure(question.inputs)) if bound else None
    places = itertools.count()

    def row(name: str, leaf: Any) -> Any:
        place = next(places)
        if some is not None and place not in some.numbers:
            return leaf  # that the bound does not read
        return leaf[rows[name]] if np.ndim(leaf) > rank and len(leaf) > 1 else leaf

    parts = {name: map_numbers(functools.partial(row, name), part) for name, part in tables.items()}
    assert estimator.plan is not None
    plan = estimator.plan(**tall(plans, rank))
    asked = with_named_absences(dataclasses.replace(inputs, plan=plan))
    with np.errstate(all="ignore"):
        if bound:
            assert estimator.lower_bound is not None
            found = question.sign * estimator.lower_bound(asked, question.recipe, **parts)
        elif name is not None:
            found = estimator.result(name, asked, question.recipe, parts)
        else:
            whole = question.objective, question.sign, asked, question.recipe, parts
            found = estimator.aim(*whole)
    return np.broadcast_to(found, (len(next(iter(plans.values()))), *lanes))


def direct_objectives(
    question: SearchProblem, ready: PreparedPlans, columns: Mapping[str, np.ndarray]
) -> Callable[..., np.ndarray]:
    """Return ``grid_objectives`` of one problem, on lanes that differ in columns of its inputs."""
    group = ProblemGroup((), slice(0, 1), question.inputs, {}, ready)
    return functools.partial(grid_objectives(question, group, [Axis("lane", columns)]), 0)


def grid_objectives(
    question: SearchProblem, group: ProblemGroup, machine: Sequence[Axis]
) -> Callable[..., np.ndarray]:
    """Return a function (problem, positions of its plans) -> sign * objective [plan, lane].

    A lane is a point of the machine axes. With ``bound=True`` the function returns the estimator's
    lower bounds, with ``name`` a result.
    """
    inputs, lanes = spread(group.inputs, machine), tuple(len(axis) for axis in machine)
    tables, rows = _tables(question, group.ready, inputs, len(lanes))

    def objectives(
        problem: int, positions: np.ndarray, bound: bool = False, name: str | None = None
    ) -> np.ndarray:
        asked = replace_all(inputs, {path: v[problem] for path, v in group.varied.items()})
        plans, start = group.ready.plans[problem].plans, group.ready.starts[problem]
        some = {field: column[positions] for field, column in plans.items()}
        mine = {name: number[start + positions] for name, number in rows.items()}
        values = plan_objectives(question, asked, some, tables, mine, lanes, bound, name)
        return values.reshape(len(positions), math.prod(lanes))

    return objectives


def _first(values: np.ndarray, fits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the first plans that fit each limit, on a tie the first of these.

    The least objective of the first n plans, for every n, serves all limits.
    Arguments: ``values`` [plan, lane]; ``fits`` [limit, lane]: how many plans fit.
    Returns: positions (-1 where none fits) and objectives, [limit, lane].
    """
    if fits.min(initial=len(values)) >= len(values):  # every plan fits everywhere
        least = values.min(axis=0)
        first = np.argmax(values <= least + TIE * abs(least), axis=0)
        some = least < FAR
        best = np.where(some, np.take_along_axis(values, first[None], axis=0)[0], 0.0)
        return np.broadcast_to(np.where(some, first, -1), fits.shape), np.broadcast_to(
            best, fits.shape
        )
    running, lane = np.minimum.accumulate(values, axis=0), np.arange(fits.shape[1])
    last = np.maximum(fits - 1, 0)
    least = running[last, lane]
    enough = least + TIE * abs(least)
    low, high = np.zeros_like(last), last  # the first plan that is good enough is between them
    for _ in range(int(last.max()).bit_length()):
        middle = (low + high) // 2
        found = running[middle, lane] <= enough
        low, high = np.where(found, low, middle + 1), np.where(found, middle, high)
    some = (fits > 0) & (least < FAR)
    return np.where(some, high, -1), np.where(some, values[high, lane], 0.0)


def firsts(
    top: int, values: np.ndarray, fits: np.ndarray, split: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for the best ``top`` plans, each of another split, [top, limit, lane]."""
    if top == 1:
        position, objective = _first(values, fits)
        return position[None], objective[None]
    count, lanes = values.shape
    distinct, which = np.unique(fits, axis=0, return_inverse=True)
    position, objective = np.full((top, *distinct.shape), -1), np.zeros((top, *distinct.shape))
    for limit, few in enumerate(distinct):
        left = np.where(np.arange(count)[:, None] < few, values, FAR)
        for rank in range(top):
            first, at = _first(left, np.full((1, lanes), count))
            position[rank, limit], objective[rank, limit] = first[0], at[0]
            if split is None:
                np.put_along_axis(left, first, FAR, axis=0)
            else:
                left = np.where(split[:count, None] == split[first], FAR, left)
    which = which.reshape(-1)  # of another shape in NumPy 2.0
    return position[:, which], objective[:, which]
