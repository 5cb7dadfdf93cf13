"""Tabulate: every point of a grid, each term computed once for what it depends on."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxroof.engine.axes import Asked, Axis, read_axes, spread, touched
from jaxroof.engine.best import Progress, chunk_shape, cut, places, share
from jaxroof.engine.dataset import dataset, described, fixed, provenance, stacked
from jaxroof.engine.points import evaluated, results
from jaxroof.engine.question import recipes
from jaxroof.estimator import Estimator
from jaxroof.records import checked
from jaxroof.settings import settle

CHUNK = 1 << 18  # points of one call


def tabulate(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: Asked | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> xr.Dataset:
    """Return every result at every point of a grid, legal or not.

    Arguments: ``axes`` as in ``search``, plan fields included (``"plan.tensor"``); ``settings``
    are fields of the inputs or of the recipe.
    Returns: a Dataset over the axes; a result that an axis does not touch lacks its dimension.
    Raises: InputError for anything that is not a grid of this estimator's inputs.
    """
    recipe = estimator.recipe if recipe is None else recipe
    inputs, recipe = settle(inputs, recipe, settings, estimator.names)
    inputs = checked(inputs)
    shapes = jax.eval_shape(lambda i: estimator.evaluate(i, recipe), inputs)
    every = read_axes(inputs, axes, results(shapes), recipe, estimator.names)
    grid = [axis for axis in every if not axis.is_choice]
    chosen = recipes(every, recipe)
    parts = [
        _columns(estimator, inputs, one, grid, share(progress, number, len(chosen)))
        for number, one in enumerate(chosen)
    ]
    attrs = provenance(estimator, inputs, fixed(every, recipe))
    return dataset(stacked(every, parts), every, inputs, described(shapes), attrs)


def _columns(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    grid: Sequence[Axis],
    progress: Progress | None,
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return every result over a grid of numbers, each with the dimensions that touch it."""
    sizes = [len(axis) for axis in grid]
    shape = chunk_shape(sizes, CHUNK)

    def report(asked: Any) -> dict[str, Any]:
        return results(estimator.evaluate(asked, recipe))

    moved = touched(report, inputs, grid)
    found: dict[str, np.ndarray] = {}
    done, total = 0, math.prod(sizes)
    for place in places(grid, shape):
        wide = spread(inputs, cut(grid, place, shape))
        for name, value in results(evaluated(estimator, recipe, None, wide)).items():
            dims = sorted(moved[name])
            part = np.asarray(value).reshape([shape[d] for d in dims])
            here = tuple(slice(0, place[d].stop - place[d].start) for d in dims)
            full = np.empty([sizes[d] for d in dims], part.dtype)
            found.setdefault(name, full)[tuple(place[d] for d in dims)] = part[here]
        done += math.prod(s.stop - s.start for s in place)
        if progress is not None:
            progress(done, total)
    return {
        name: (tuple(grid[d].name for d in sorted(moved[name])), values)
        for name, values in found.items()
    }
