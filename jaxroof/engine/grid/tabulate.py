"""Tabulation of a grid: each term is computed only over the axes that it depends on."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    spread,
    unique_names,
)
from jaxroof.engine.grid.chunks import (
    Progress,
    chunk_shape,
    iter_chunks,
    padded_slice,
    programs,
    progress_share,
)
from jaxroof.engine.grid.dataset import (
    Columns,
    dataset,
    field_metadata,
    provenance,
    stack_choices,
)
from jaxroof.engine.grid.dependencies import axes_that_move, results_without_numbers
from jaxroof.engine.grid.evaluate import (
    evaluate_points,
    place_best,
    ravel_grid,
    with_any_placement,
    without_placement,
)
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.size import check_products, check_table
from jaxroof.errors import unknown
from jaxroof.estimator import Estimator
from jaxroof.structure import results, structure

CHUNK = 1 << 18  # points per call
PLACED = 1 << 13  # points per call where each has many placements to compare
PLACEMENTS = ("given", "best")


def tabulate(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    placement: str = "given",
    progress: Progress | None = None,
    executor: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return every result at every point of a grid, legal or not.

    A plan without a placement gets the best one at every point, whether or not the plan fits.

    Arguments: ``axes`` are as in ``search``, and may include plan fields (``"plan.tensor"``);
    ``placement`` is ``"given"`` to use the placement of the plan, or ``"best"`` to replace it;
    ``executor`` is ``"numpy"`` or ``"jax"`` (default: NumPy for small grids);
    ``settings`` and ``more`` are fields of the inputs or of the recipe.
    Returns: a Dataset of every result and of the plan's fields. Each variable has only the
    dimensions of the axes that it depends on.
    Raises: InputError for anything that is not a grid of this estimator's inputs.
    """
    chosen = {**(settings or {}), **more}
    asked = ask(estimator, inputs, recipe, chosen, axes)
    if placement not in PLACEMENTS:
        raise unknown("placement", str(placement), "placement", PLACEMENTS)
    if placement == "best":
        given = without_placement(estimator, asked.inputs, asked.axes)
        asked = asked._replace(inputs=given)
    recipe = asked.recipe
    inputs, every, shapes = table_axes(estimator, asked)
    answered = programs(every, recipe)
    parts = []
    for number, (one, grid) in enumerate(answered):
        told = progress_share(progress, number, len(answered))
        columns = _columns(estimator, inputs, one, grid, told, executor)
        parts.append({**_plan_columns(estimator, inputs, grid), **columns})
    attrs = provenance(estimator, inputs, recipe, every, question="table")
    meanings = field_metadata(estimator.plan, shapes)
    return dataset(stack_choices(every, parts), every, inputs, meanings, attrs)


def table_axes(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    axes: AxisValues | None = None,
) -> tuple[Any, list[Axis], Any]:
    """Return the completed inputs, the checked axes and the shapes of the results of a table."""
    _, inputs, recipe, read = ask(estimator, inputs, recipe, axes=axes)
    check_products(read, estimator.products)
    estimator.refuse_contradictions(spread(inputs, [axis for axis in read if axis.columns]))
    if estimator.is_placed(inputs):
        inputs = estimator.placed(inputs)
    placed = structure(with_any_placement(estimator, inputs))
    shapes = results_without_numbers(estimator, recipe, placed)
    return inputs, unique_names(read, results(shapes)), shapes


def _plan_columns(estimator: Estimator, inputs: Any, grid: Sequence[Axis]) -> Columns:
    """Return the plan fields that are constant over the grid; fields on an axis are coordinates."""
    plan = getattr(inputs, "plan", None)
    moved = {path for axis in grid for path in axis.columns}
    moved |= set() if estimator.is_placed(inputs) else {f"plan.{f}" for f in estimator.placement}
    still = [field for field in estimator.plan_fields if f"plan.{field}" not in moved]
    return {f: ((), np.asarray(getattr(plan, f), np.int64)) for f in still if plan is not None}


def _columns(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    grid: Sequence[Axis],
    progress: Progress | None,
    executor: str | None,
) -> Columns:
    """Return every result over a numeric grid, each with the dimensions that it depends on."""
    sizes = [len(axis) for axis in grid]
    shape = chunk_shape(sizes, CHUNK if estimator.is_placed(inputs) else PLACED)
    placed = with_any_placement(estimator, inputs)
    who = executor_of(estimator, recipe, placed, math.prod(sizes), executor)
    moved = axes_of_results(estimator, inputs, recipe, grid)
    chosen = () if estimator.is_placed(inputs) else estimator.placement
    check_table(grid, moved)
    found: dict[str, np.ndarray] = {}
    done, total = 0, math.prod(sizes)
    for place in iter_chunks(grid, shape):
        wide = spread(inputs, padded_slice(grid, place, shape))
        wide = place_best(estimator, wide, recipe, executor)
        values = {field: np.asarray(getattr(wide.plan, field), np.int64) for field in chosen}
        values |= _answer(estimator, recipe, wide, shape, who == NUMPY)
        for name, value in values.items():
            dims = sorted(moved[name])
            still = tuple(slice(None) if d in dims else slice(0, 1) for d in range(len(shape)))
            part = np.broadcast_to(value, shape)[still].reshape([shape[d] for d in dims])
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


def axes_of_results(
    estimator: Estimator, inputs: Any, recipe: Any, grid: Sequence[Axis]
) -> dict[str, set[int]]:
    """Return the axes that each result depends on, and those that the best placement depends on.

    The best placement depends on the axes that change the objective, the plan or any number that
    the candidates read.
    """

    def report(asked: Any) -> dict[str, Any]:
        return results(estimator.evaluate(asked, recipe))

    paths, known = [tuple(axis.columns) for axis in grid], with_any_placement(estimator, inputs)
    moved: dict[str, set[int]] = axes_that_move(report, known, paths)[1]
    if estimator.is_placed(inputs):
        return moved
    listed = {d for d, some in enumerate(paths) if any(p.startswith("plan.") for p in some)} | {
        d for d, some in enumerate(paths) if any(map(estimator.lists_anew, some))
    }
    choose = moved[estimator.objective] | listed
    fields = tuple(f"plan.{field}" for field in estimator.placement)
    paths = [(*some, *fields) if d in choose else some for d, some in enumerate(paths)]
    moved = axes_that_move(report, known, paths)[1]
    return {**moved, **dict.fromkeys(estimator.placement, choose)}


def _answer(
    estimator: Estimator, recipe: Any, wide: Any, shape: Any, by_numpy: bool
) -> dict[str, np.ndarray]:
    """Return the results at the points of a chunk."""
    found: Any
    if by_numpy:
        found = estimator.evaluate_checked(wide, recipe)
    elif estimator.sizing is not None:  # points need programs of different sizes
        columns = evaluate_points(estimator, recipe, ravel_grid(wide, shape))
        found = {name: values.reshape(shape) for name, values in columns.items()}
    else:
        from jaxroof.engine.grid.compiled import evaluate_jit

        found = evaluate_jit(estimator, recipe, wide)
    return {name: np.asarray(value) for name, value in results(found).items()}
