"""Tabulate: every point of a grid, each term computed once for what it depends on."""

import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from jaxroof.engine.axes import Values, read_axes, settle, spread, touched
from jaxroof.engine.best import Progress, chunk_shape, cut, places
from jaxroof.engine.dataset import dataset, described, provenance
from jaxroof.engine.points import evaluated, results
from jaxroof.estimator import Estimator
from jaxroof.records import checked

CHUNK = 1 << 18  # points of one call


def tabulate(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: Mapping[str, Values | Mapping[str, Values]] | None = None,
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
    inputs, recipe = settle(inputs, recipe, settings)
    inputs = checked(inputs)
    shapes = jax.eval_shape(lambda i: estimator.evaluate(i, recipe), inputs)
    grid = read_axes(inputs, axes, results(shapes))
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
    columns = {
        name: (tuple(grid[d].name for d in sorted(moved[name])), values)
        for name, values in found.items()
    }
    attrs = provenance(estimator, inputs, recipe)
    return dataset(columns, grid, inputs, described(shapes), attrs)
