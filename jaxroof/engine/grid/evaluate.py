"""Evaluation at a list of points: at once by NumPy, or in chunks by a compiled program."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.estimator import Estimator, reads
from jaxroof.limits import check_memory, counted
from jaxroof.records import leaves, with_named_absences
from jaxroof.structure import map_numbers, results

PIECE = 1 << 15  # points that NumPy evaluates at a time, so that what it writes stays in the cache


def ravel_grid(wide: Any, shape: tuple[int, ...]) -> Any:
    """Flatten inputs over a grid to one column per array leaf; scalar leaves stay scalars."""
    points, columns = math.prod(shape), sum(np.ndim(v) > 0 for _, _, v in leaves(wide))
    what = f"{counted(points, 'point')} of {counted(columns, 'input')}"
    check_memory(what, 8 * points * columns, "expected fewer points")
    return map_numbers(
        lambda leaf: np.broadcast_to(leaf, shape).ravel() if np.ndim(leaf) else leaf, wide
    )


def evaluate_points(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    name: str | None = None,
    executor: str | None = None,
) -> dict[str, np.ndarray]:
    """Return the results, or one of them, at every point.

    Leaves of the inputs are numbers or columns of one length.
    """
    count = column_length(inputs)
    if executor_of(estimator, recipe, inputs, count, executor) == NUMPY:
        return _by_numpy(estimator, recipe, inputs, name, count)
    from jaxroof.engine.grid import compiled

    return compiled.evaluate_points(estimator, recipe, inputs, name)


def _by_numpy(
    estimator: Estimator, recipe: Any, inputs: Any, name: str | None, count: int
) -> dict[str, np.ndarray]:
    def report(sized: tuple[int, Any]) -> dict[str, np.ndarray]:
        size, piece = sized
        some = results(_report(estimator, recipe, piece, name)).items()
        return {r: np.broadcast_to(value, (size,)) for r, value in some if name in (None, r)}

    found: dict[str, list[np.ndarray]] = {}
    for some in by_threads(report, iter_pieces(inputs, count, PIECE), -(-count // PIECE)):
        for result, value in some.items():
            found.setdefault(result, []).append(value)
    return {result: np.concatenate(pieces) for result, pieces in found.items()}


def _report(estimator: Estimator, recipe: Any, inputs: Any, name: str | None) -> Any:
    """Return all results, or one without the others where that takes less."""
    if name is None or name not in estimator.alone:
        return estimator.evaluate_checked(inputs, recipe)
    with np.errstate(all="ignore"):
        inputs = with_named_absences(inputs)
        some = reads(estimator.alone[name])
        parts = estimator.evaluate_parts(inputs, recipe) if some else {}
        return {name: estimator.result(name, inputs, recipe, parts)}


def iter_pieces(inputs: Any, count: int, most: int) -> Iterator[tuple[int, Any]]:
    """Yield inputs over ``count`` points in pieces of at most ``most``, with the size of each."""
    for start in range(0, max(count, 1), most):
        size = min(most, count - start)
        rows = functools.partial(_rows, slice(start, start + size))
        yield size, map_numbers(rows, inputs)


def _rows(some: slice, leaf: Any) -> Any:
    return leaf[some] if np.ndim(leaf) else leaf
