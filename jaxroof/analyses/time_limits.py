"""Contributions to the time of the best plan, and the machine resource that limits each."""

import dataclasses
import functools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.analyses.resources import resources
from jaxroof.engine.grid.dataset import roles
from jaxroof.engine.grid.evaluate import pad_points
from jaxroof.engine.sensitivity.derivatives import scale_parameters
from jaxroof.estimator import Estimator, results
from jaxroof.estimators.published.step import published
from jaxroof.estimators.published.step_breakdown import contributions
from jaxroof.records import leaves, replace_at

# contributions to the objective, where an estimator gives them finer than its report's parts
CONTRIBUTIONS: dict[Estimator, Callable[[Any, Any], "OrderedDict[str, Any]"]] = {
    published: contributions
}
POINTS = 64  # values of a parameter per pass


def adding(estimator: Estimator, inputs: Any, recipe: Any) -> "OrderedDict[str, Any]":
    """Return the contributions to the objective under the plan of the inputs, by displayed name.

    They come from the estimator; else from the parts of the objective in its report, or its total.
    """
    if estimator in CONTRIBUTIONS:
        return CONTRIBUTIONS[estimator](inputs, recipe)
    report = estimator.evaluate(inputs, recipe)
    parts = [f for f in dataclasses.fields(report) if f.metadata["part_of"] == estimator.objective]
    parts = parts or [f for f in dataclasses.fields(report) if f.name == estimator.objective]
    names = [f.metadata["words"] or f.metadata["symbol"] or f.name.replace("_", " ") for f in parts]
    values = results(report)
    return OrderedDict((n, values[f.name]) for n, f in zip(names, parts, strict=True))


def limits_of(
    inputs: Any, recipe: Any, estimator: Estimator = published
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return the contributions to a step under the plan of the inputs, with seconds per resource.

    Leaves of the inputs are numbers or columns of one length, of at most ``POINTS``.
    Returns: names, seconds [points, names] and [points, names, limits]. The sum of the latter over
    limits equals the former; the sum over names equals the step time.
    """
    known = resources(roles(estimator, inputs, recipe)["resources"])
    paths = tuple(path for path, _, _ in leaves(inputs) if path in known.signs)
    columns = {path: np.atleast_1d(np.asarray(value)) for path, _, value in leaves(inputs)}
    count = max(len(column) for column in columns.values())
    for path, column in columns.items():
        wide = np.repeat(pad_points(column, POINTS), len(paths))  # a column of points x parameters
        inputs = replace_at(inputs, path, wide)
    times, slopes = _slopes(estimator, recipe, paths, inputs)
    by = [[known.signs[p] * (known.of[p] == limit) for limit in known.limits] for p in paths]
    shape = (POINTS, len(paths))
    own = [np.asarray(time).reshape(shape)[:count, 0] for time in times.values()]
    along = [np.asarray(slope).reshape(shape)[:count] for slope in slopes.values()]
    return list(times), np.stack(own, axis=1), np.stack(along, axis=1) @ np.array(by)


HURRY = {"xla_backend_optimization_level": 0}  # fast compilation, for a few short calls


@functools.partial(jax.jit, static_argnums=(0, 1, 2), compiler_options=HURRY)
def _slopes(
    estimator: Estimator, recipe: Any, paths: tuple[str, ...], inputs: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return every contribution, and its slopes with ln(parameter), columns points x parameters.

    Each parameter varies in its own entries of the columns: one pass for all of them.
    """
    each = jnp.tile(jnp.eye(len(paths)), (POINTS, 1))

    def seconds(change: jax.Array) -> Any:
        moved = scale_parameters(inputs, paths, 1.0 + change)
        return jax.tree.map(jnp.asarray, adding(estimator, moved, recipe))

    return jax.jvp(seconds, (jnp.zeros_like(each),), (each,))
