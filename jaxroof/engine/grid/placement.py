"""The best placement for plans that have none."""

import functools
import math
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import AxisValues, paths_of
from jaxroof.engine.grid.evaluate import iter_pieces
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator, first_best
from jaxroof.records import leaves

PIECE = 1024  # points whose placements are compared at once


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
        for size, piece in iter_pieces(inputs, count, PIECE)
    ]
    whole = {
        field: np.concatenate([np.broadcast_to(getattr(p, field), (n,)) for n, p in plans])
        for field in estimator.placement
    }
    return estimator.with_placement(inputs, whole)
