"""Contributions to the time of the best plan, and the machine resource that limits each."""

import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.analyses.resources import resources
from jaxroof.dual import slope_of, value_of
from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.chunks import pad_points
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.grid.evaluate import iter_pieces
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.sensitivity.moved_inputs import scale_parameters, with_slopes
from jaxroof.estimator import Estimator
from jaxroof.estimators.published.layer_report import contributions
from jaxroof.estimators.published.step import published
from jaxroof.records import leaves, replace_at
from jaxroof.structure import results

# contributions to the objective, where an estimator gives them finer than its report's parts
CONTRIBUTIONS: dict[Estimator, Callable[[Any, Any], "OrderedDict[str, Any]"]] = {
    published: contributions
}
POINTS = 64  # values of a parameter per pass, and points of one call of a program
LANES = 1 << 14  # points, times one and each parameter, that NumPy evaluates at once


def adding(estimator: Estimator, inputs: Any, recipe: Any) -> "OrderedDict[str, Any]":
    """Return the contributions to the objective under the plan of the inputs, by displayed name.

    They come from the estimator; else from the parts of the objective in its report, or its total.
    """
    if estimator in CONTRIBUTIONS:
        return CONTRIBUTIONS[estimator](inputs, recipe)
    report = estimator.evaluate_checked(inputs, recipe)
    parts = [f for f in dataclasses.fields(report) if f.metadata["part_of"] == estimator.objective]
    parts = parts or [f for f in dataclasses.fields(report) if f.name == estimator.objective]
    names = [f.metadata["words"] or f.metadata["symbol"] or f.name.replace("_", " ") for f in parts]
    values = results(report)
    return OrderedDict((n, values[f.name]) for n, f in zip(names, parts, strict=True))


def limits_of(
    inputs: Any, recipe: Any, estimator: Estimator = published
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the contributions to a step under the plan of the inputs, with seconds per resource.

    Leaves of the inputs are numbers or columns of one length.
    Returns: names, seconds [points, names] and [points, names, limits]. The sum of the latter over
    limits equals the former; the sum over names equals the step time.
    """
    known = resources(roles(estimator, inputs, recipe)["resources"])
    paths = tuple(path for path, _, _ in leaves(inputs) if path in known.signs)
    by = [[known.signs[p] * (known.of[p] == limit) for limit in known.limits] for p in paths]
    count, each = column_length(inputs), 1 + len(paths)
    by_numpy = executor_of(estimator, recipe, inputs, count * each) == NUMPY
    way, most = (_by_numpy, max(1, LANES // each)) if by_numpy else (_compiled, POINTS)
    pieces = [
        way(estimator, recipe, paths, piece, size)
        for size, piece in iter_pieces(inputs, count, most)
    ]
    own, along = (np.concatenate([piece[which] for piece in pieces]) for which in (1, 2))
    return pieces[0][0], own, along @ np.array(by)


# contributions by name, their seconds [points, names], and slopes [points, names, parameters]
Slopes = tuple[list[str], np.ndarray, np.ndarray]


def _by_numpy(
    estimator: Estimator, recipe: Any, paths: tuple[str, ...], inputs: Any, count: int
) -> Slopes:
    with np.errstate(all="ignore"):
        every = adding(estimator, with_slopes(inputs, paths, np.eye(len(paths))), recipe)
    own = [np.broadcast_to(value_of(time), (count,)) for time in every.values()]
    along = [np.broadcast_to(slope_of(time), (len(paths), count)).T for time in every.values()]
    return list(every), np.stack(own, axis=1), np.stack(along, axis=1)


def _compiled(
    estimator: Estimator, recipe: Any, paths: tuple[str, ...], inputs: Any, count: int
) -> Slopes:
    """Each parameter varies in its own entries of the columns: one pass for all of them."""
    import jax
    import jax.numpy as jnp

    for path, _, value in list(leaves(inputs)):
        column = pad_points(np.atleast_1d(np.asarray(value, np.float64)), POINTS)
        inputs = replace_at(inputs, path, np.repeat(column, len(paths)))
    each = jnp.tile(jnp.eye(len(paths)), (POINTS, 1))

    @jax.jit
    def slopes(inputs: Any) -> Any:
        def seconds(change: Any) -> Any:
            moved = scale_parameters(inputs, paths, 1.0 + change)
            return jax.tree.map(jnp.asarray, adding(estimator, moved, recipe))

        return jax.jvp(seconds, (jnp.zeros_like(each),), (each,))

    shaped = jax.tree.map(lambda values: values.reshape(POINTS, len(paths)), slopes(inputs))
    every, slope = ([np.asarray(some)[:count] for some in values.values()] for values in shaped)
    own = np.stack([seconds[:, 0] for seconds in every], axis=1)
    return list(shaped[0]), own, np.stack(slope, axis=1)
