"""A search by NumPy: every plan on every machine of a chunk in one array, for small questions.

Parts are evaluated on the distinct rows of the plan fields that they read, machines broadcast.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from jaxroof.dual import Dual
from jaxroof.engine.grid.axes import Axis, spread
from jaxroof.engine.grid.chunks import Place, chunk_shape, iter_chunks
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.engine.search.candidates import PreparedPlans, subset, with_plans
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    plans_that_fit,
)
from jaxroof.estimator import FAR, TIE, reads
from jaxroof.plan_lists import Rows
from jaxroof.records import replace_all, with_named_absences
from jaxroof.structure import map_numbers, results, structure

CELLS = 1 << 16  # objectives evaluated at a time, so that they stay in the cache
HELD = 1 << 23  # objectives held at a time


def chunks_of_group(
    question: SearchProblem,
    kind: AxisRoles,
    group: ProblemGroup,
    region: Place | None = None,
    left: Sequence[np.ndarray] | None = None,
) -> Iterator[MachineChunk]:
    """Compare the plans of a group of problems on each chunk of limits and machines.

    Arguments: ``region`` of the grid, by default all of it; positions of the plans of each problem
    that are ``left`` to be compared there, by default all.
    """
    axes = [question.axes[d] for d in kind.limits + kind.machine]
    region = region or tuple(slice(0, len(axis)) for axis in axes)
    first, axes = len(kind.limits), cut(axes, region)
    some = group if left is None else dataclasses.replace(group, ready=subset(group.ready, left))
    most = max(int(some.ready.starts[-1]), 1)
    machines = chunk_shape([len(axis) for axis in axes[first:]], min(CELLS, max(1, HELD // most)))
    limits = chunk_shape([len(axis) for axis in axes[:first]], max(1, CELLS // math.prod(machines)))
    for lanes in iter_chunks(axes[first:], machines):
        objectives = grid_objectives(question, some, cut(axes[first:], lanes))
        for levels in iter_chunks(axes[:first], limits):
            place = (*levels, *lanes)
            here = cut(axes, place)
            found, values = _winners(question, some, objectives, here, first)
            if left is not None:
                every = zip(found, left, strict=True)
                found = np.stack([np.append(own, -1)[best] for best, own in every])
            compared = sum(map(len, some.ready.plans)) * math.prod(map(len, here))
            shifted = (
                slice(whole.start + part.start, whole.start + part.stop)
                for whole, part in zip(region, place, strict=True)
            )
            yield MachineChunk(tuple(shifted), found, question.sign * values, compared)


def cut(axes: Sequence[Axis], place: Place) -> list[Axis]:
    """Return the numbers of a part of axes."""
    return [
        Axis(axis.name, {path: column[some] for path, column in axis.columns.items()})
        for axis, some in zip(axes, place, strict=True)
    ]


def _winners(
    question: SearchProblem,
    group: ProblemGroup,
    objectives: Callable[..., np.ndarray],
    here: Sequence[Axis],
    limits: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plans of each problem and their values, [problem, rank, *axes]."""
    fits = plans_that_fit(question.estimator, group, here)
    position = np.full((len(fits), question.top, *fits.shape[1:]), -1, np.int64)
    values, lanes = np.full(position.shape, FAR), math.prod(fits.shape[1 + limits :])
    counts = fits.reshape(len(fits), -1).max(axis=1, initial=0)
    starts = zip(group.ready.starts, counts, strict=False)
    some = np.concatenate([start + np.arange(count) for start, count in starts])
    edges = itertools.pairwise(np.cumsum([0, *counts]))
    every = in_pieces(objectives, some, lanes)
    for q, (plans, (start, stop)) in enumerate(zip(group.ready.plans, edges, strict=True)):
        if stop > start:
            split = None if question.top == 1 or question.placements else plans.split
            found = firsts(question.top, every[start:stop], fits[q].reshape(-1, lanes), split)
            position[q], values[q] = (one.reshape(position.shape[1:]) for one in found)
    return position, values


def in_pieces(
    function: Callable[[np.ndarray], np.ndarray], positions: np.ndarray, lanes: int
) -> np.ndarray:
    """Return what a function gives for plans, in pieces that stay in the cache, a thread a core."""
    size = max(1, CELLS // lanes)
    pieces = [positions[i : i + size] for i in range(0, max(len(positions), 1), size)]
    return np.concatenate(list(by_threads(function, pieces, len(pieces))))


class Listed(Protocol):
    """Plans that are known by their positions in a list."""

    def at(
        self, positions: np.ndarray, fields: Collection[str] | None = None
    ) -> Mapping[str, np.ndarray]:
        """Return fields, by default all, of some plans."""

    def rows_of(self, fields: tuple[str, ...]) -> Rows:
        """Return the distinct rows of some fields."""


def tall(columns: Mapping[str, np.ndarray], rank: int) -> dict[str, np.ndarray]:
    """Return columns of plans as float64 before ``rank`` dimensions of machines."""
    shape = (-1, *(1,) * rank)
    return {field: column.astype(np.float64).reshape(shape) for field, column in columns.items()}


def objectives_of(
    question: SearchProblem, plans: Listed, inputs: Any, lanes: tuple[int, ...] = ()
) -> Callable[..., Any]:
    """Return a function of positions of plans -> sign * objective [plan, *lanes].

    With ``bound=True`` it returns lower bounds, with ``names`` these results, [plan, *lanes, name].
    ``varied`` are inputs by path that no part reads, a number or one for each plan. Inputs that are
    dual numbers give dual numbers.
    """
    estimator, recipe, rank = question.estimator, question.recipe, len(lanes)
    if executor_of(estimator, recipe, question.inputs, 0) != NUMPY:  # without machines
        return functools.partial(_listed, question, plans, inputs)
    bare = with_named_absences(dataclasses.replace(inputs, plan=None))
    rows = {name: plans.rows_of(reads(part)) for name, part in estimator.parts.items()}
    tables = {}
    with np.errstate(all="ignore"):
        for name, part in estimator.parts.items():
            some = plans.at(rows[name].first, reads(part))
            tables[name] = part(bare, recipe, **tall(some, rank))

    def objectives(
        positions: np.ndarray,
        bound: bool = False,
        varied: Mapping[str, Any] | None = None,
        names: Sequence[str] = (),
    ) -> Any:
        numbers = {name: one.number(positions) for name, one in rows.items()}
        read = bound_reads(estimator, recipe, structure(question.inputs)).numbers if bound else None
        places = itertools.count()

        def row(name: str, leaf: Any) -> Any:
            place = next(places)
            if read is not None and place not in read:
                return leaf  # that the bound does not read
            if isinstance(leaf, Dual):
                slope = leaf.slope if leaf.slope.shape[1] == 1 else leaf.slope[:, numbers[name]]
                return Dual(chosen(name, leaf.value), slope)
            return chosen(name, leaf)

        def chosen(name: str, leaf: Any) -> Any:
            return leaf[numbers[name]] if np.ndim(leaf) > rank and len(leaf) > 1 else leaf

        parts = {n: map_numbers(functools.partial(row, n), part) for n, part in tables.items()}
        assert estimator.plan is not None
        plan = estimator.plan(**tall(plans.at(positions), rank))
        each = {p: tall({p: v}, rank)[p] if np.ndim(v) else v for p, v in (varied or {}).items()}
        asked = with_named_absences(replace_all(bare, {**each, "plan": plan}))
        shape = (len(positions), *lanes)
        with np.errstate(all="ignore"):
            if names:
                some = results(estimator.step(asked, recipe, **parts))
                return np.stack([np.broadcast_to(some[name], shape) for name in names], axis=-1)
            if bound:
                assert estimator.lower_bound is not None
                found = question.sign * estimator.lower_bound(asked, recipe, **parts)
            else:
                found = estimator.aim(question.objective, question.sign, asked, recipe, parts)
        return found if isinstance(found, Dual) else np.broadcast_to(found, shape)

    return objectives


def _listed(
    question: SearchProblem,
    plans: Listed,
    inputs: Any,
    positions: np.ndarray,
    *_: Any,
    names: Sequence[str] = (),
    **__: Any,
) -> np.ndarray:
    """Return sign * objective of plans, or some results, by programs."""
    estimator, aim = question.estimator, question.objective
    if not len(positions):
        return np.empty((0, len(names)) if names else 0)
    asked, several = with_plans(estimator, inputs, plans.at(positions)), len(estimator.limits) > 1
    found = evaluate_points(estimator, question.recipe, asked, None if several or names else aim)
    if names:
        return np.stack([found[name] for name in names], axis=-1)
    return np.where(estimator.within(inputs, found), question.sign * found[aim], FAR)


def direct_objectives(
    question: SearchProblem, ready: PreparedPlans, columns: Mapping[str, np.ndarray]
) -> Callable[..., np.ndarray]:
    """Return ``grid_objectives`` of one problem, on lanes that differ in columns of its inputs."""
    group = ProblemGroup((), slice(0, 1), question.inputs, {}, ready)
    return grid_objectives(question, group, [Axis("lane", columns)])


def grid_objectives(
    question: SearchProblem, group: ProblemGroup, machine: Sequence[Axis]
) -> Callable[..., np.ndarray]:
    """Return a function of positions among all plans -> sign * objective [plan, lane].

    A lane is a point of the machine axes. With ``bound=True`` the function returns the estimator's
    lower bounds, with ``names`` these results, [plan, lane, name].
    """
    lanes = tuple(len(axis) for axis in machine)
    each = objectives_of(question, group.ready, spread(group.inputs, machine), lanes)

    def objectives(
        positions: np.ndarray, bound: bool = False, names: Sequence[str] = ()
    ) -> np.ndarray:
        values = each(positions, bound, group.varied_at(positions), names)
        shape = (len(positions), math.prod(lanes), *([len(names)] if names else ()))
        return np.reshape(values, shape)

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
