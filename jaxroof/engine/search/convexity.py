"""The law that pruning needs: an objective convex in some coordinate of each parameter, checked.

A coordinate z of a parameter x is 1 / x, x or ln x. Which of them a parameter needs is found from
values of the objective, never from names: the one in which the objective is convex and bends least.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dual import Dual
from jaxroof.engine.grid.axes import Axis, replace_all
from jaxroof.engine.search.direct import tall
from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.engine.search.groups import ProblemGroup
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.estimator import reads
from jaxroof.records import with_named_absences
from jaxroof.structure import map_numbers

SEGMENTS = 256  # between machines of the grid
ROUNDING = 4e-12  # relative: a middle this far above the mean of its ends is rounding


class Coordinate(NamedTuple):
    """A coordinate z of a parameter x."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]  # x -> z
    back: Callable[[np.ndarray], np.ndarray]  # z -> x
    slope: Callable[[np.ndarray], np.ndarray]  # x -> dx / dz
    zero: bool  # whether x may be 0


COORDINATES = (
    Coordinate("1 / x", lambda x: 1.0 / x, lambda z: 1.0 / z, lambda x: -x * x, zero=False),
    Coordinate("x", lambda x: x, lambda z: z, np.ones_like, zero=True),
    Coordinate("ln x", np.log, np.exp, lambda x: x, zero=False),
)
LOGARITHM = COORDINATES[-1]


def objectives(
    question: SearchProblem,
    group: ProblemGroup,
    problem: np.ndarray,
    position: np.ndarray,
    columns: Mapping[str, Any],
    rank: int = 0,
) -> Any:
    """Return sign * objective of listed plans on listed machines, by NumPy.

    Shapes: ``problem``, ``position`` (of the plan in the sorted list of its problem) [plan];
    ``columns`` (path -> the machine's value) [*machine] of ``rank`` dimensions -> [plan, *machine];
    of rank 0, each plan has its own machine [plan]. Columns of dual numbers give dual numbers.
    """
    estimator, recipe = question.estimator, question.recipe
    assert estimator.plan is not None
    at = group.ready.starts[problem] + position
    plans = {field: column[at] for field, column in group.ready.every.items()}
    varied = tall({path: values[problem] for path, values in group.varied.items()}, rank)
    bare = with_named_absences(replace_all(group.inputs, {**columns, **varied, "plan": None}))
    plan = estimator.plan(**tall(plans, rank))
    parts = {}
    with np.errstate(all="ignore"):
        for name, part in estimator.parts.items():
            own = {field: plans[field] for field in reads(part)}
            first, number = distinct_rows([*own.values()]) if rank and own else (slice(None), None)
            found = part(bare, recipe, **tall({f: c[first] for f, c in own.items()}, rank))
            if number is not None:
                found = map_numbers(functools.partial(_rows, number, rank), found)
            parts[name] = found
        asked = dataclasses.replace(bare, plan=plan)
        return question.sign * estimator.result(question.objective, asked, recipe, parts)


def _rows(number: np.ndarray, rank: int, leaf: Any) -> Any:
    """Return listed rows of a number of a part, with its slopes."""
    if isinstance(leaf, Dual):
        slope = leaf.slope if leaf.slope.shape[1] == 1 else leaf.slope[:, number]
        return Dual(_rows(number, rank, leaf.value), slope)
    return leaf[number] if np.ndim(leaf) > rank and len(leaf) > 1 else leaf


def convex_coordinates(
    question: SearchProblem, group: ProblemGroup, axes: Sequence[Axis], moving: Sequence[str]
) -> dict[str, Coordinate] | None:
    """Return a coordinate for each parameter in which the objective of every plan is convex.

    f((z + w) / 2) <= (f(z) + f(w)) / 2

    Sampled: plans of all problems of the group, on segments between machines of the grid, along
    each parameter alone and along all. None if no choice of coordinates passes.
    Arguments: the machine axes, and the paths among their columns that move the objective.
    """
    bends = functools.partial(_bends, question, group, axes)
    low = {p: float(c.min()) for axis in axes for p, c in axis.columns.items() if p in moving}
    chosen: dict[str, Coordinate] = {}
    for path in low:
        found = [(bends({path: c}), c) for c in COORDINATES if low[path] > 0.0 or c.zero]
        convex = [(bend.sum(), c) for bend, c in found if bend.min() >= -ROUNDING]
        if convex:
            chosen[path] = min(convex, key=lambda one: one[0])[1]
    if len(chosen) == len(low) and bends(chosen).min() >= -ROUNDING:
        return chosen
    chosen = dict.fromkeys(low, LOGARITHM)
    some = all(value > 0.0 for value in low.values())
    return chosen if some and bends(chosen).min() >= -ROUNDING else None


def _bends(
    question: SearchProblem,
    group: ProblemGroup,
    axes: Sequence[Axis],
    along: Mapping[str, Coordinate],
) -> np.ndarray:
    """Return by how much the mean of the ends of segments exceeds the middle, over the objective.

    Half of the segments are between neighbours on each axis; only the parameters ``along`` move.
    """
    draw = np.random.default_rng(0)
    lengths = np.array([len(plans) for plans in group.ready.plans])
    problem = draw.choice(np.flatnonzero(lengths), SEGMENTS)
    position = draw.integers(lengths[problem])
    first, middle, last = {}, {}, {}
    for axis in axes:
        i = draw.integers(len(axis), size=SEGMENTS)
        near = np.clip(i + draw.integers(-2, 3, size=SEGMENTS), 0, len(axis) - 1)
        j = np.where(np.arange(SEGMENTS) % 2 == 0, near, draw.integers(len(axis), size=SEGMENTS))
        for path, column in axis.columns.items():
            first[path] = middle[path] = last[path] = column[i]
            if path in along:
                last[path], z = column[j], along[path].of
                middle[path] = along[path].back(0.5 * (z(column[i]) + z(column[j])))
    ends = {path: np.concatenate([first[path], middle[path], last[path]]) for path in first}
    found = objectives(question, group, np.tile(problem, 3), np.tile(position, 3), ends)
    three = found.reshape(3, -1)
    scale = np.maximum(np.abs(three).max(axis=0), np.finfo(float).tiny)
    bend = (0.5 * (three[0] + three[2]) - three[1]) / scale
    return np.where(np.isfinite(bend), bend, -np.inf)
