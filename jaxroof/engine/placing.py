"""Plans of one's own, each in its best placement."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.axes import Axis, points, replace_all
from jaxroof.engine.points import at_points
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.records import get_at, leaves, replace_at

MOST = 100_000  # points whose placements are listed one by one


def placed(
    estimator: Estimator, inputs: Any, recipe: Any, grid: Sequence[Axis]
) -> dict[str, np.ndarray]:
    """Return every result over a grid of plans, each in the placement that is best for it.

    The best is the first of those with the least objective, fitting or not. The fields of the
    placement come with the results, over the whole grid.
    Raises: InputError for an estimator or inputs without plans, or for too large a grid.
    """
    if estimator.placements is None or getattr(inputs, "plan", None) is None:
        raise InputError("placement: nothing to place; expected a plan with degrees of its own")
    shape = tuple(len(axis) for axis in grid)
    if np.prod(shape) > MOST:
        raise refusal("placement", f"expected at most {MOST:,} points, given {np.prod(shape):,}")
    asked = [replace_all(inputs, values) for _, values in points(grid)]
    listed = [estimator.placements(one, recipe) for one in asked]
    counts = [len(next(iter(columns.values()))) for columns in listed]
    rows = _rows(asked, listed, counts)
    found = at_points(estimator, recipe, rows)
    starts = np.append(0, np.cumsum(counts))
    objective = found[estimator.objective]
    best = [a + int(np.argmin(objective[a:b])) for a, b in itertools.pairwise(starts)]
    fields = {field: np.concatenate([columns[field] for columns in listed]) for field in listed[0]}
    return {name: values[best].reshape(shape) for name, values in {**found, **fields}.items()}


def _rows(
    asked: Sequence[Any], listed: Sequence[Mapping[str, np.ndarray]], counts: Sequence[int]
) -> Any:
    """Return inputs whose leaves are columns over every placement of every point."""
    rows = asked[0]
    for path, _, _ in list(leaves(rows)):
        values = np.array([float(get_at(one, path)) for one in asked])
        rows = replace_at(rows, path, np.repeat(values, counts))
    for field in listed[0]:
        column = np.concatenate([columns[field] for columns in listed]).astype(np.float64)
        rows = replace_at(rows, f"plan.{field}", column)
    return rows
