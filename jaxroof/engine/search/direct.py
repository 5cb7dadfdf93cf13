"""A search by NumPy: every plan on every machine of a chunk in one array, for small questions."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis, column_length, replace_all, spread
from jaxroof.engine.grid.chunks import Place, chunk_shape, iter_chunks, padded_slice
from jaxroof.engine.grid.dependencies import bound_reads
from jaxroof.engine.search.candidates import PreparedPlans, distinct_part_rows
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, plans_that_fit
from jaxroof.engine.search.problem import AxisRoles, SearchProblem
from jaxroof.estimator import TIE, reads
from jaxroof.records import with_named_absences
from jaxroof.structure import map_numbers, structure

CELLS = 1 << 17  # objectives held at a time, so that they stay in the cache
FAR = 1e300  # larger than any objective


def chunks_of_group(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Compare the plans of a group of problems on each chunk of limits and machines."""
    limits, machine = ([question.axes[d] for d in dims] for dims in (kind.limits, kind.machine))
    axes, first = [*limits, *machine], len(limits)
    most = max(max(map(len, group.ready.plans)), 1)
    shape = chunk_shape([len(axis) for axis in axes], max(1, CELLS // most))
    for place in iter_chunks(axes, shape):
        here = padded_slice(axes, place, [some.stop - some.start for some in place])
        yield _chunk(question, group, here, first, place)


def _chunk(
    question: SearchProblem, group: ProblemGroup, here: Sequence[Axis], first: int, place: Place
) -> MachineChunk:
    """Compare the plans of each problem on one chunk of limits and machines."""
    fits = plans_that_fit(question.estimator, group, here)
    inputs = spread(group.inputs, here[first:])
    tables, rows = _tables(question, group.ready, inputs, len(here) - first)
    starts = group.ready.starts
    position = np.full((len(fits), question.top, *fits.shape[1:]), -1, np.int64)
    objective = np.full(position.shape, FAR)
    for q, plans in enumerate(group.ready.plans):
        count = int(fits[q].max()) if fits[q].size else 0
        if not count:
            continue
        asked = replace_all(inputs, {path: values[q] for path, values in group.varied.items()})
        mine = {name: number[starts[q] : starts[q] + count] for name, number in rows.items()}
        lanes = fits.shape[1 + first :]
        some = {field: column[:count] for field, column in plans.plans.items()}
        values = _objectives(question, asked, some, tables, mine, lanes)
        split = plans.split[:count] if question.top > 1 and not question.placements else None
        position[q], objective[q] = _best(question.top, values, fits[q], split)
    compared = sum(map(len, group.ready.plans)) * math.prod(fits.shape[1:])
    return MachineChunk(place, position, question.sign * objective, compared)


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
            tables[name] = part(bare, question.recipe, **_tall(some, rank))
    return tables, {name: rows.number for name, rows in found.items()}


def _tall(columns: Mapping[str, np.ndarray], rank: int) -> dict[str, np.ndarray]:
    """Return columns of plans as float64 before ``rank`` dimensions of machines."""
    shape = (-1, *(1,) * rank)
    return {field: column.astype(np.float64).reshape(shape) for field, column in columns.items()}


def _objectives(
    question: SearchProblem,
    inputs: Any,
    plans: Mapping[str, np.ndarray],
    tables: Mapping[str, Any],
    rows: Mapping[str, np.ndarray],
    lanes: tuple[int, ...],
    bound: bool = False,
) -> np.ndarray:
    """Return what the search minimises, or its bound, for plans with their rows in the tables.

    Returns: [plan, *machine].
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
    plan = estimator.plan(**_tall(plans, rank))
    asked = with_named_absences(dataclasses.replace(inputs, plan=plan))
    with np.errstate(all="ignore"):
        if bound:
            assert estimator.lower_bound is not None
            found = estimator.lower_bound(asked, question.recipe, **parts)
        else:
            found = estimator.result(question.objective, asked, question.recipe, parts)
    values = question.sign * found
    return np.broadcast_to(values, (len(next(iter(plans.values()))), *lanes))


def direct_objectives(
    question: SearchProblem, ready: PreparedPlans, inputs: Any, bound: bool = False
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from positions of one problem's plans to sign * objective [plan, lane].

    With ``bound``: to the estimator's lower bound of the objective.

    Leaves of the inputs are numbers or columns over the lanes.
    """
    tables, rows = _tables(question, ready, inputs, 1)
    (plans,) = ready.plans
    lanes = (column_length(inputs),)

    def objectives(positions: np.ndarray) -> np.ndarray:
        some = {field: column[positions] for field, column in plans.plans.items()}
        mine = {name: number[positions] for name, number in rows.items()}
        return _objectives(question, inputs, some, tables, mine, lanes, bound)

    return objectives


def grid_objectives(
    question: SearchProblem, group: ProblemGroup, machine: Sequence[Axis]
) -> Callable[..., np.ndarray]:
    """Return a function (problem, positions of its plans) -> sign * objective [plan, lane].

    A lane is a point of the machine axes. With ``bound=True`` the function returns the estimator's
    lower bounds.
    """
    inputs, lanes = spread(group.inputs, machine), tuple(len(axis) for axis in machine)
    tables, rows = _tables(question, group.ready, inputs, len(lanes))

    def objectives(problem: int, positions: np.ndarray, bound: bool = False) -> np.ndarray:
        asked = replace_all(inputs, {path: v[problem] for path, v in group.varied.items()})
        plans, start = group.ready.plans[problem].plans, group.ready.starts[problem]
        some = {field: column[positions] for field, column in plans.items()}
        mine = {name: number[start + positions] for name, number in rows.items()}
        values = _objectives(question, asked, some, tables, mine, lanes, bound)
        return values.reshape(len(positions), -1)

    return objectives


def _best(
    top: int, values: np.ndarray, fits: np.ndarray, split: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plans among those that fit, best first, ties to the first position.

    Arguments: ``values`` [plan, *machine], ``fits`` [*limits, *machine]: how many plans fit.
    Returns: positions (-1 where fewer plans fit) and objectives, [top, *limits, *machine].
    """
    count, lanes = len(values), math.prod(values.shape[1:])
    limit = fits.reshape(-1, lanes)
    flat = values.reshape(count, 1, lanes)
    here = np.arange(count)[:, None, None] < limit[None]
    left = np.where(here, flat, FAR)
    found, best = [], []
    for _ in range(top):
        least = left.min(axis=0)
        first = np.argmax(left <= least + TIE * abs(least), axis=0)
        some = least < FAR
        at = np.take_along_axis(left, first[None], axis=0)[0]
        found.append(np.where(some, first, -1))
        best.append(np.where(some, at, 0.0))
        if top > 1 and split is not None:
            left = np.where(split[:, None, None] == split[first][None], FAR, left)
        elif top > 1:
            np.put_along_axis(left, first[None], FAR, axis=0)
    shape = (top, *fits.shape)
    return np.array(found).reshape(shape), np.array(best).reshape(shape)
