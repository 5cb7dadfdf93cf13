"""A search at many bounds of limits that the machine moves: every plan is evaluated once for all.

An axis that moves the bound of one limit, and nothing else, moves no result. The plans are
evaluated without it, and every bound is answered from the cells of the plans (``cells.py``).
"""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis, spread
from jaxroof.engine.grid.chunks import chunk_shape, iter_chunks
from jaxroof.engine.search import direct
from jaxroof.engine.search.cells import cells_of, firsts
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    plans_that_fit,
)
from jaxroof.estimator import FAR, Limit
from jaxroof.records import replace_all


class SweptLimit(NamedTuple):
    """A limit whose bound an axis moves."""

    limit: Limit
    axis: Axis
    place: int  # of the axis among the machine axes

    def bounds(self, inputs: Any) -> np.ndarray:
        """Return the bound at each point of the axis."""
        return np.broadcast_to(self.limit.of(spread(inputs, [self.axis])), (len(self.axis),))


def chunks_of_group(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Compare the plans of a group of problems on chunks of machines, at all bounds at once."""
    levels, machine = ([question.axes[d] for d in some] for some in (kind.limits, kind.machine))
    places = sorted(kind.machine.index(d) for d in kind.swept)
    swept = [SweptLimit(kind.swept[kind.machine[at]], machine[at], at) for at in places]
    bare = [axis.at(np.arange(1)) if at in places else axis for at, axis in enumerate(machine)]
    bounds = math.prod(len(axis) for axis in [*levels, *(one.axis for one in swept)])
    most = direct.HELD // max(int(group.ready.starts[-1]), bounds, 1)
    shape = chunk_shape([len(axis) for axis in bare], min(direct.CELLS, max(1, most)))
    for lanes in iter_chunks(bare, shape):
        found = _winners(question, group, levels, direct.cut(bare, lanes), swept)
        position, values = (np.stack(some)[:, None] for some in zip(*found, strict=True))
        place = [slice(0, len(axis)) for axis in (*levels, *machine)]
        for at, some in enumerate(lanes, len(levels)):
            place[at] = place[at] if at - len(levels) in places else some
        yield MachineChunk(
            tuple(place),
            position,
            question.sign * values,
            int(group.ready.starts[-1]) * math.prod(position.shape[2:]),
        )


Winners = tuple[np.ndarray, np.ndarray]  # positions of plans, and values


def _winners(
    question: SearchProblem,
    group: ProblemGroup,
    levels: Sequence[Axis],
    here: Sequence[Axis],
    swept: Sequence[SweptLimit],
) -> Iterator[Winners]:
    """Yield the best plans of each problem and their values, [*levels, *machine].

    Arguments: levels of the first limit; some machines, of which swept axes have one point.
    """
    fits, shape = plans_that_fit(question.estimator, group, [*levels, *here]), [*map(len, here)]
    fits = fits.reshape(len(fits), -1, math.prod(shape))
    others = question.estimator.limits[1:]
    names = (question.objective, *(other.result for other in others))
    objectives = direct.grid_objectives(question, group, here)
    for q, (start, few) in enumerate(zip(group.ready.starts, fits, strict=False)):
        inputs = replace_all(group.inputs, {path: v[q] for path, v in group.varied.items()})
        some = start + np.arange(few.max(initial=0))
        every = direct.in_pieces(
            functools.partial(objectives, names=names), some, few.shape[1] * len(names)
        )
        value, results = question.sign * every[..., 0], every[..., 1:]
        of_swept = {}
        for number, other in enumerate(others):
            if other in [one.limit for one in swept]:
                of_swept[other] = results[..., number]
                continue
            bound = np.broadcast_to(other.of(spread(inputs, here)), shape).reshape(-1)
            value = np.where(results[..., number] <= bound, value, FAR)
        edges = [one.bounds(inputs) for one in swept]
        found = _at_bounds(value, few, [of_swept[one.limit] for one in swept], edges)
        yield _on_axes(found, [len(axis) for axis in levels], shape, swept)


def _at_bounds(
    value: np.ndarray,
    fits: np.ndarray,
    results: Sequence[np.ndarray],
    bounds: Sequence[np.ndarray],
) -> Winners:
    """Return the best plans at each bound of several limits, [level, *bounds, lane].

    Arguments: values [plan, lane]; how many plans fit [level, lane]; for each further limit the
    results [plan, lane] and the bounds.
    """
    count, lane = len(value), np.arange(fits.shape[1])
    filled = np.zeros((count + 1, len(lane)), np.int64)
    np.add.at(filled, (fits, lane), 1)
    cells, numbers = [np.cumsum(filled, axis=0)[:count]], []  # levels that a plan does not fit
    for result, edges in zip(results, bounds, strict=True):
        cell, number = cells_of(result, edges)
        cells.append(cell)
        numbers.append(number)
    found = firsts(value, cells, [len(fits), *map(len, bounds)])
    level = np.argsort(np.argsort(fits, axis=0, kind="stable"), axis=0, kind="stable")
    index = np.ix_(np.arange(len(fits)), *numbers, lane)
    index = (level.reshape(len(fits), *(1,) * len(numbers), len(lane)), *index[1:])
    position, values = (one[index] for one in found)
    return position, values


def _on_axes(
    found: Winners, levels: Sequence[int], shape: Sequence[int], swept: Sequence[SweptLimit]
) -> Winners:
    """Return winners [level, *bounds, lane] with a dimension for each axis, [*levels, *machine]."""
    places = [len(levels) + one.place for one in swept]
    bounds = [len(one.axis) for one in swept]
    kept = [n for at, n in enumerate(shape, len(levels)) if at not in places]
    start = range(len(levels), len(levels) + len(bounds))
    position, values = (
        np.moveaxis(one.reshape(*levels, *bounds, *kept), start, places) for one in found
    )
    return position, values
