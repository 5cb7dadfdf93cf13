"""The law that pruning needs: an objective convex in some coordinate of each parameter, checked.

A coordinate z of a parameter x is 1 / x, x or ln x. Which of them a parameter needs is found from
values of the objective, never from names: the one in which the objective is convex and bends least.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis, replace_all
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY
from jaxroof.engine.search.groups import ProblemGroup
from jaxroof.engine.search.problem import SearchProblem

SAMPLES = 48  # segments along each parameter alone
TOGETHER = 256  # segments between machines of the grid
ROUNDING = 4e-12  # relative: a middle this far above the mean of its ends is rounding

Columns = Mapping[str, np.ndarray]


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


def objectives_at(
    question: SearchProblem,
    group: ProblemGroup,
    problem: np.ndarray,
    position: np.ndarray,
    columns: Columns,
) -> np.ndarray:
    """Return sign * objective of listed plans on listed machines, evaluated in full.

    Shapes: ``problem``, ``position`` (of the plan in the sorted list of its problem) and
    ``columns`` (path -> the machine's value): all [point] -> [point].
    """
    if not len(problem):
        return np.zeros(0)
    at = group.ready.starts[problem] + position
    plan = {f: c[at].astype(np.float64) for f, c in group.ready.every.items()}
    varied = {path: values[problem] for path, values in group.varied.items()}
    assert question.estimator.plan is not None
    given = {**columns, **varied, "plan": question.estimator.plan(**plan)}
    inputs = replace_all(group.inputs, given)
    name = question.objective
    found = evaluate_points(question.estimator, question.recipe, inputs, name, NUMPY)[name]
    return question.sign * found


def convex_coordinates(
    question: SearchProblem, group: ProblemGroup, axes: Sequence[Axis], moving: Sequence[str]
) -> dict[str, Coordinate] | None:
    """Return a coordinate for each parameter in which the objective of every plan is convex.

    f((z + w) / 2) <= (f(z) + f(w)) / 2

    Sampled: plans of all problems of the group, segments along each parameter alone and between
    machines of the grid, long and short. None if no choice of coordinates passes.
    Arguments: the machine axes, and the paths among their columns that move the objective.
    """
    draw = np.random.default_rng(0)
    ends = {p: (c.min(), c.max()) for a in axes for p, c in a.columns.items() if p in moving}
    chosen = _each_alone(question, group, axes, ends, draw)
    if chosen is not None and _together(question, group, axes, chosen, draw):
        return chosen
    if any(low <= 0.0 for low, _ in ends.values()):
        return None
    chosen = dict.fromkeys(ends, LOGARITHM)
    return chosen if _together(question, group, axes, chosen, draw) else None


def _each_alone(
    question: SearchProblem,
    group: ProblemGroup,
    axes: Sequence[Axis],
    ends: Mapping[str, tuple[float, float]],
    draw: np.random.Generator,
) -> dict[str, Coordinate] | None:
    """Return the coordinate of each parameter in which the objective is convex and bends least."""
    chosen = {}
    for path, (low, high) in ends.items():
        problem, position = _some_plans(group, SAMPLES, draw)
        base = _some_machines(axes, SAMPLES, draw)
        best = np.inf
        for coordinate in COORDINATES:
            if low <= 0.0 and not coordinate.zero:
                continue
            z = coordinate.of(np.array([low, high]))
            (middle,) = coordinate.back(z.mean(keepdims=True))
            at = np.repeat([[low], [middle], [high]], SAMPLES, axis=1)
            bend = _bend(question, group, problem, position, [{**base, path: v} for v in at])
            if bend.min() >= -ROUNDING and bend.sum() < best:
                best, chosen[path] = float(bend.sum()), coordinate
        if path not in chosen:
            return None
    return chosen


def _together(
    question: SearchProblem,
    group: ProblemGroup,
    axes: Sequence[Axis],
    chosen: Mapping[str, Coordinate],
    draw: np.random.Generator,
) -> bool:
    """Return whether the objective is convex along segments between machines of the grid."""
    problem, position = _some_plans(group, TOGETHER, draw)
    first, last = {}, {}
    for axis in axes:
        i = draw.integers(len(axis), size=TOGETHER)
        near = np.clip(i + draw.integers(-2, 3, size=TOGETHER), 0, len(axis) - 1)
        j = np.where(np.arange(TOGETHER) % 2 == 0, near, draw.integers(len(axis), size=TOGETHER))
        for path, column in axis.columns.items():
            first[path], last[path] = column[i], column[j]
    middle = dict(first)
    for path, coordinate in chosen.items():
        z = 0.5 * (coordinate.of(first[path]) + coordinate.of(last[path]))
        middle[path] = coordinate.back(z)
    bend = _bend(question, group, problem, position, [first, middle, last])
    return bool(bend.min() >= -ROUNDING)


def _bend(
    question: SearchProblem,
    group: ProblemGroup,
    problem: np.ndarray,
    position: np.ndarray,
    three: Sequence[Columns],
) -> np.ndarray:
    """Return by how much the mean of the ends exceeds the middle, relative to the objective."""
    columns = {path: np.concatenate([some[path] for some in three]) for path in three[0]}
    found = objectives_at(question, group, np.tile(problem, 3), np.tile(position, 3), columns)
    before, middle, behind = found.reshape(3, -1)
    scale = np.maximum(np.abs(found.reshape(3, -1)).max(axis=0), np.finfo(float).tiny)
    bend = (0.5 * (before + behind) - middle) / scale
    return np.where(np.isfinite(bend), bend, -np.inf)


def _some_plans(
    group: ProblemGroup, count: int, draw: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.array([len(plans) for plans in group.ready.plans])
    problem = draw.choice(np.flatnonzero(lengths), count)
    return problem, draw.integers(lengths[problem])


def _some_machines(
    axes: Sequence[Axis], count: int, draw: np.random.Generator
) -> dict[str, np.ndarray]:
    places = [draw.integers(len(axis), size=count) for axis in axes]
    return {p: c[i] for axis, i in zip(axes, places, strict=True) for p, c in axis.columns.items()}
