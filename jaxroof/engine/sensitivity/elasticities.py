"""Exact elasticities of a result in every parameter, over whole grids."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import AxisValues, spread
from jaxroof.engine.grid.chunks import programs
from jaxroof.engine.grid.dataset import Columns, attributes, stack_choices
from jaxroof.engine.grid.evaluate import place_rows, ravel_grid
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.tabulate import table_axes, tabulate
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import check_searches
from jaxroof.engine.search.search import best_of_each, search_dataset, winning_inputs
from jaxroof.engine.sensitivity.derivatives import one_sided_slopes
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import is_quantity, leaves
from jaxroof.settings import paths_of
from jaxroof.structure import map_numbers, results

MEANINGS = {
    "elasticity": "Share that the result changes by for an increase of the parameter by one",
    "elasticity_below": "The same for a decrease, which differs on a ridge",
    "tie": "The point lies on a ridge: two terms tie, and the two sides have different slopes",
}


def elasticities(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    parameters: Sequence[str] | None = None,
    of: str | None = None,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the elasticities of a result at every point of a grid, exact by derivative.

    e = d ln(result) / d ln(parameter), at a fixed plan

    An increase of a parameter by 1 % changes the result by e %. Where the inputs hold no plan, a
    search first picks the best plan of each point (by ``objective`` under ``where``); the result
    is differentiated at that plan. Whole numbers (layers, hidden, a degree) are treated as real
    numbers: a rounded quotient has the slope of the exact quotient (``relaxed``).

    Arguments: ``parameters`` are dotted paths of the inputs (default: every number of the
    machine); ``of`` names a result (default: the objective); ``axes`` and ``settings`` as in
    ``search`` and ``tabulate``.
    Returns: what ``search`` or ``tabulate`` returns, with ``elasticity`` over the axes and
    ``parameter``. On a kink, where two terms tie, ``elasticity`` is that of an increase,
    ``elasticity_below`` that of a decrease and ``tie`` is true. NaN where no plan fits.
    Raises: InputError for an unknown parameter or result (with the nearest name), and for axes
    that this estimator cannot evaluate.
    """
    chosen = {**(settings or {}), **more}
    _, inputs, recipe, axes = ask(estimator, inputs, recipe, chosen, axes)
    found: list[tuple[Any, Any, np.ndarray, tuple[str, ...]]] = []  # recipe, points, held, dims
    if estimator.candidates is None or getattr(inputs, "plan", None) is not None:
        if objective is not None or where:
            raise InputError("objective, where: of a search; expected inputs without a plan")
        inputs, every, report = table_axes(estimator, inputs, recipe, axes)
        name, paths = (
            _result(estimator, report, of),
            known_parameters(estimator, inputs, parameters),
        )
        data = tabulate(estimator, inputs, recipe, axes=every)
        for one, grid in programs(every, recipe):
            shape = tuple(len(axis) for axis in grid)
            points = ravel_grid(spread(inputs, grid), shape)
            points = place_rows(estimator, points, one, math.prod(shape))
            found.append((one, points, np.ones(shape, bool), tuple(axis.name for axis in grid)))
    else:
        read, asked = check_searches(
            estimator, inputs, recipe, axes=axes, where=where, objective=objective
        )
        every, inputs = list(read), asked[0].inputs
        name = _result(estimator, asked[0].report, of or objective)
        paths = known_parameters(estimator, inputs, parameters)
        pairs = best_of_each(asked)
        data = search_dataset(every, pairs)
        for question, best in pairs:
            dims = tuple(axis.name for axis in question.axes)
            points = winning_inputs(question, best)
            found.append((question.recipe, points, best.held[..., 0], dims))
    columns = [
        _columns(estimator, one, points, paths, name, held, dims)
        for one, points, held, dims in found
    ]
    return _joined(data, stack_choices(every, columns), paths, inputs, name)


def default_parameters(estimator: Estimator, inputs: Any) -> tuple[str, ...]:
    """Return the paths of all numbers of the machine, or of all real inputs without a machine.

    Dates are left out: one per cent of a year's number says nothing.
    """
    held = [(path, f) for path, f, _ in leaves(inputs) if f.metadata["unit"] != "year"]
    machine = tuple(path for path, _ in held if path.startswith(f"{estimator.machine}."))
    return machine or tuple(path for path, field in held if not field.metadata["whole"])


def known_parameters(
    estimator: Estimator, inputs: Any, asked: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the requested parameters, checked, or the default ones where none are given."""
    asked = default_parameters(estimator, inputs) if asked is None else asked
    paths = [asked] if isinstance(asked, str) else asked
    held = [path for path, _, _ in leaves(inputs)]
    plan = [f"plan.{name}" for name in estimator.plan_fields]
    for path in paths:
        if not isinstance(path, str):
            raise refusal("parameters", f"expected dotted paths, given {shown(path)}")
        if path in held or path in plan:
            continue
        what = f"parameter of {estimator.name or 'the estimator'}"
        known = dict.fromkeys([*held, *plan])
        near = [name for name in known if name.rpartition(".")[2] == path.rpartition(".")[2]]
        if not near and path in {name.rpartition(".")[0] for name in held}:
            raise refusal(path, f"a record, not a number; expected {path}.FIELD")
        raise unknown("", path, what, near or known)
    if not paths:
        raise refusal(
            "parameters", f"none given; expected dotted paths, such as {estimator.machine}.FIELD"
        )
    for path in paths:
        if list(paths).count(path) > 1:
            raise refusal("parameters", f"{path}: given twice; expected each once")
    return tuple(paths)


def _result(estimator: Estimator, report: Any, asked: str | None) -> str:
    """Return the name of the result to differentiate: the objective or the first time."""
    numbers = {n: v for n, v in results(report).items() if v.dtype != bool}
    if asked is None and not estimator.objective:
        units = {f.name: f.metadata["unit"] for f in dataclasses.fields(report) if is_quantity(f)}
        times = [name for name in numbers if units.get(name) == "s"]
        if len(numbers) > 1 and not times:
            raise refusal("of", f"expected a result, one of {', '.join(numbers)}")
        return (times or list(numbers))[0]
    name = asked or estimator.objective
    if name not in numbers:
        raise unknown("of", name, "result", numbers)
    return name


def at_plan(
    estimator: Estimator, inputs: Any, recipe: Any, paths: tuple[str, ...], name: str
) -> xr.Dataset:
    """Return only the elasticities of a result at one point, whose plan is given."""
    columns = _columns(estimator, recipe, inputs, paths, name, np.ones((), bool), ())
    return _joined(xr.Dataset(), columns, paths, inputs, name)


def _columns(
    estimator: Estimator,
    recipe: Any,
    points: Any,
    paths: tuple[str, ...],
    name: str,
    held: np.ndarray,
    dims: tuple[str, ...],
) -> Columns:
    """Return the elasticities at the points that have a plan, NaN at the others."""
    rows, count = np.flatnonzero(held), held.size
    some = map_numbers(lambda leaf: leaf[rows] if np.ndim(leaf) else leaf, points)
    shape = (*held.shape, len(paths))
    above, below = np.full((count, len(paths)), np.nan), np.full((count, len(paths)), np.nan)
    tie = np.zeros((count, len(paths)), bool)
    if len(rows):
        found = one_sided_slopes(estimator, recipe, some, paths, name)
        scale = np.where(found.value == 0.0, 1.0, found.value)[:, None]
        above[rows], below[rows], tie[rows] = found.above / scale, found.below / scale, found.tie
    values = {"elasticity": above, "elasticity_below": below, "tie": tie}
    return {key: ((*dims, "parameter"), v.reshape(shape)) for key, v in values.items()}


def _joined(
    data: xr.Dataset, columns: Columns, paths: tuple[str, ...], inputs: Any, name: str
) -> xr.Dataset:
    """Return the data with the elasticities and the metadata of each parameter."""
    for key, (dims, values) in columns.items():
        about = attributes({"unit": "1", "doc": MEANINGS[key]})
        data[key] = xr.Variable(dims, values, about)
    declared = dict(paths_of(type(inputs)))
    fields = [declared[path].metadata for path in paths]
    relaxed = {"long_name": "A whole number, taken as real: a continuous relaxation"}
    data = data.assign_coords(
        parameter=xr.Variable("parameter", list(paths), {"long_name": "Dotted path"}),
        parameter_units=xr.Variable("parameter", [field["unit"] for field in fields]),
        relaxed=xr.Variable("parameter", [bool(f["whole"]) for f in fields], relaxed),
    )
    return data.assign_attrs(question="elasticities", of=name)
