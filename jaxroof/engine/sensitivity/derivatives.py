"""Exact slopes of a result at many points, to both sides of a kink.

Dual numbers give them in NumPy where there are few points, compiled programs where there are many.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dual import slope_of, value_of
from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.evaluate import iter_pieces
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.sensitivity.moved_inputs import scale_parameters, with_slopes
from jaxroof.estimator import Estimator
from jaxroof.records import field_at, leaves, replace_at
from jaxroof.structure import results

CELLS = 1 << 16  # values and slopes that NumPy computes at a time
FEW = 64  # points of which a program is compiled for all directions
EPSILON = 1e-10  # relative to a parameter: a point closer to a kink than this counts as on it
SAME = 1e-6  # relative to the result: slopes that differ by less count as equal
SLIGHT = 1e-8  # relative to the result: least jump, all parameters moved, of a kink


class OneSided(NamedTuple):
    """A result and its one-sided slopes, d value / d ln(parameter)."""

    value: np.ndarray  # [points]
    above: np.ndarray  # [points, parameters], for an increase of the parameter
    below: np.ndarray  # [points, parameters], for a decrease
    tie: np.ndarray  # [points, parameters], true where they differ: the point lies on a kink


def slopes(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    paths: Sequence[str],
    name: str,
    ways: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a result and its slopes d value / d ln(parameter) at every point.

    Leaves of ``inputs``, the plan's included, are scalars or columns of one length. On a kink the
    slope is that of one side (see ``one_sided_slopes``). ``ways`` [way, parameter] holds
    directions; slopes are taken along them instead of along each parameter.
    Returns: value [points], slopes [points, parameters].
    """
    ways = np.eye(len(paths)) if ways is None else ways
    count = column_length(inputs)
    if executor_of(estimator, recipe, inputs, count * (1 + len(ways))) == NUMPY:
        return _by_numpy(estimator, recipe, inputs, paths, name, ways, count)
    from jaxroof.engine.sensitivity import compiled_slopes

    return compiled_slopes.slopes(estimator, recipe, inputs, paths, name, ways)


def _by_numpy(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    paths: Sequence[str],
    name: str,
    ways: np.ndarray,
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    values, each = [], []
    for size, piece in iter_pieces(inputs, count, max(1, CELLS // (1 + len(ways)))):
        moved = with_slopes(piece, paths, ways)
        found = results(estimator.evaluate_checked(moved, recipe))[name]
        values.append(np.broadcast_to(value_of(found), (size,)))
        each.append(np.broadcast_to(slope_of(found), (len(ways), size)).T)
    return np.concatenate(values), np.concatenate(each)


def one_sided_slopes(
    estimator: Estimator, recipe: Any, inputs: Any, paths: Sequence[str], name: str
) -> OneSided:
    """Return a result and its slopes to both sides, which differ where the point is on a kink.

    A kink is a point where two terms tie for the maximum. It is detected by comparing the slopes
    just before and just behind the point, along a direction that moves all parameters unequally.
    At a kink each parameter is then moved slightly by itself. A whole number is differentiated as
    a real number but not moved, since its quotients would round to another whole number. It has
    one slope.
    """
    free = np.array([not field_at(inputs, path).metadata["whole"] for path in paths])
    way = free * (1.0 + np.arange(len(paths)) / len(paths))
    value, slope, jump = _slopes_and_jump(estimator, recipe, inputs, paths, name, way)
    above, below = slope.copy(), slope.copy()
    scale = np.maximum(np.abs(value), np.finfo(float).tiny)
    ridge = np.flatnonzero(jump > SLIGHT * scale)
    if len(ridge):
        own = np.flatnonzero(free)
        some = _taken(inputs, np.repeat(ridge, len(own)), len(value))
        one = EPSILON * np.tile(np.eye(len(paths))[own], (len(ridge), 1))
        for side, sign in ((above, 1.0), (below, -1.0)):
            moved = scale_parameters(some, paths, 1.0 + sign * one)
            each = slopes(estimator, recipe, moved, paths, name)[1]
            each = each.reshape(len(ridge), len(own), len(paths))
            side[np.ix_(ridge, own)] = each[:, np.arange(len(own)), own]
    tie = np.abs(above - below) > SAME * scale[:, None]
    return OneSided(value, np.where(tie, above, slope), np.where(tie, below, slope), tie)


def _slopes_and_jump(
    estimator: Estimator, recipe: Any, inputs: Any, paths: Sequence[str], name: str, way: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a result, its slopes, and how much that along a direction changes across each point.

    Few points are asked for together with those on either side: one call costs less than three.
    """
    count, sides = column_length(inputs), np.array([0.0, -1.0, 1.0])
    if len(sides) * count <= FEW:
        moved = _taken(inputs, np.tile(np.arange(count), len(sides)), count)
        factors = 1.0 + EPSILON * np.repeat(sides, count)[:, None] * way
        moved = scale_parameters(moved, paths, factors)
        values, each = slopes(estimator, recipe, moved, paths, name)
        here, before, behind = np.split(each, len(sides))
        return values[:count], here, np.abs((behind - before) @ way)
    value, slope = slopes(estimator, recipe, inputs, paths, name)
    before, behind = (
        slopes(
            estimator,
            recipe,
            scale_parameters(inputs, paths, 1.0 + sign * EPSILON * way),
            paths,
            name,
            way[None],
        )[1][:, 0]
        for sign in sides[1:]
    )
    return value, slope, np.abs(behind - before)


def _taken(inputs: Any, rows: np.ndarray, count: int) -> Any:
    """Return the inputs at some of their points."""
    for path, _, value in list(leaves(inputs)):
        column = np.broadcast_to(np.asarray(value, np.float64), (count,))
        inputs = replace_at(inputs, path, column[rows])
    return inputs
