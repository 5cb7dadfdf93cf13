"""Evaluation at a list of points: at once by NumPy, or in chunks by a compiled program."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import AxisValues, column_length, paths_of
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator, first_best, reads
from jaxroof.limits import check_memory, counted
from jaxroof.records import leaves, with_named_absences
from jaxroof.structure import map_numbers, results

PLACED = 1024  # points whose placements are compared at once
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


# ---- The best placement for plans that have none ------------------------------------------------


def _first(estimator: Estimator, recipe: Any, inputs: Any, executor: str | None) -> np.ndarray:
    shape = np.broadcast_shapes(*(np.shape(value) for _, _, value in leaves(inputs)))
    if executor_of(estimator, recipe, inputs, math.prod(shape), executor) == NUMPY:
        found: np.ndarray = first_best(estimator, recipe, inputs)
        return found
    from jaxroof.engine.grid.compiled import first_best_jit

    return np.asarray(first_best_jit(estimator, recipe, inputs))


def place_best(estimator: Estimator, inputs: Any, recipe: Any, executor: str | None = None) -> Any:
    """Return inputs whose plan has a placement at every point: its own, or the best.

    Leaves and placement fields are numbers, or arrays of one rank that broadcast.
    """
    estimator.refuse_contradictions(inputs)
    return estimator.placed(inputs, recipe, functools.partial(_first, executor=executor))


def without_placement(estimator: Estimator, inputs: Any, axes: AxisValues | None = None) -> Any:
    """Remove the placement from the plan of the inputs, so that the best one is chosen."""
    if estimator.placements is None or getattr(inputs, "plan", None) is None:
        raise InputError("placement: nothing to place; expected a plan with degrees of its own")
    for field in estimator.placement:
        if f"plan.{field}" in paths_of(axes):
            what = f"an axis gives plan.{field}; expected either of them"
            raise refusal("placement", what)
    return estimator.with_placement(inputs, dict.fromkeys(estimator.placement))


def with_any_placement(estimator: Estimator, inputs: Any) -> Any:
    """Return inputs whose plan has some placement, for use where only shapes matter."""
    if estimator.is_placed(inputs):
        return inputs
    return estimator.with_placement(inputs, dict.fromkeys(estimator.placement, np.float64(1.0)))


def place_rows(estimator: Estimator, inputs: Any, recipe: Any, count: int) -> Any:
    """Return ``count`` points whose plans all have a placement; leaves are numbers or columns."""
    if estimator.is_placed(inputs):
        return place_best(estimator, inputs, recipe)
    plans = [
        (size, place_best(estimator, piece, recipe).plan)
        for size, piece in iter_pieces(inputs, count, PLACED)
    ]
    whole = {
        field: np.concatenate([np.broadcast_to(getattr(p, field), (n,)) for n, p in plans])
        for field in estimator.placement
    }
    return estimator.with_placement(inputs, whole)
