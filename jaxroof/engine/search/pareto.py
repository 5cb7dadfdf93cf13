"""The Pareto front of the objective against the need or another result, as a staircase."""

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import AxisValues, points
from jaxroof.engine.grid.dataset import dataset, provenance
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import one_machine
from jaxroof.engine.search.problem import SearchProblem, check_searches
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import replace_all
from jaxroof.structure import results

LEGAL = "Plans that every rule of the split allows"


def pareto(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    against: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the Pareto-optimal plans, by increasing need: each step is one plan.

    A step is a legal plan, whether or not it fits the machine, such that no other legal plan needs
    no more and has an objective at least as good. The steps are the plans that a search returns as
    the limit varies. With ``against`` that result stands in the place of the need, and the steps
    are within every limit on other results. Ties within 1e-12 go to the plan that needs less, then
    to the plan with the smaller tuple of fields, as in ``search``.

    Arguments: as in ``search``; each point of ``axes`` has its own staircase.
    Returns: a Dataset over ``step_number``, the concatenated staircases of all points, with a
    coordinate for each axis. It has the plan fields, the results, whether the plan fits the machine
    (``fits``), its limit and the number of legal plans that were compared.
    Raises: InputError for an invalid grid, and for an estimator whose plans have no need.
    """
    every, asked = check_searches(
        estimator,
        inputs,
        recipe,
        axes=axes,
        where=where,
        objective=objective,
        settings={**(settings or {}), **more},
    )
    if not estimator.need and against is None:
        raise InputError(f"{estimator.name or 'estimator'}: its plans need nothing; use search")
    swept = _swept(asked[0], against)
    labels = dataset({}, every, asked[0].inputs, {}, {}).coords
    pieces = []
    for index, values in points(every):
        stairs = _staircase(asked[0], values, swept)
        at = {axis.name: place for axis, place in zip(every, index, strict=True)}
        size, here = stairs.sizes["step_number"], {}
        for name, one in labels.items():
            label = one.values[at[str(one.dims[0])]]
            here[name] = ("step_number", np.full(size, label, one.dtype), one.attrs)
        pieces.append(stairs.assign_coords(here))
    joined = xr.concat(pieces, "step_number", combine_attrs="override")
    joined.attrs = provenance(
        estimator,
        asked[0].inputs,
        asked[0].recipe,
        every,
        question="pareto" if swept == estimator.need else "against",
        objective=asked[0].objective,
        need=estimator.need,
        against=swept,
        where=[str(c) for c in asked[0].where],
    )
    # what a step is drawn and printed against
    told = json.loads(joined.attrs["roles"]) | {"need": swept}
    joined.attrs["roles"] = json.dumps(told)
    return joined


def _swept(question: SearchProblem, against: str | None) -> str:
    """Return the result that the objective is set against: the need, unless another is asked for.

    Raises: InputError for an unknown result, or the objective.
    """
    known = [n for n, value in results(question.report).items() if value.dtype != bool]
    known.remove(question.objective)
    name = question.estimator.need if against is None else against
    if name == question.objective:
        raise refusal("against", f"{name} is the objective; expected one of {', '.join(known)}")
    if name not in known:
        raise unknown("against", name, "result", known)
    return name


def _staircase(question: SearchProblem, values: Mapping[str, Any], swept: str) -> xr.Dataset:
    """Return the staircase at one point of the axes."""
    estimator, choices = question.estimator, vars(question.recipe) if question.recipe else {}
    chosen = {path: value for path, value in values.items() if path in choices}
    recipe = dataclasses.replace(question.recipe, **chosen) if chosen else question.recipe
    moved = {path: value for path, value in values.items() if path not in chosen}
    inputs = replace_all(question.inputs, moved)
    machine = one_machine(dataclasses.replace(question, inputs=inputs, recipe=recipe, axes=()))
    steps = machine.staircase() if swept == estimator.need else machine.frontier(swept)
    stairs = machine.reports(steps).rename(plan="step_number")
    found = stairs[[n for n in stairs.data_vars if stairs[n].dtype != bool]]
    about = {"units": "1", "long_name": "Whether the machine holds the plan"}
    found["fits"] = stairs["feasible"].astype(bool).assign_attrs(about)
    whole: dict[str, tuple[float, Any]] = {
        "plans_legal": (machine.plans.size, {"units": "1", "long_name": LEGAL})
    }
    if estimator.limit is not None:
        about = {**stairs[estimator.need].attrs, "long_name": "What a plan may need on the machine"}
        whole = {f"{estimator.need}_limit": (machine.limit, about), **whole}
    for limit in estimator.limits[1:]:
        about = {**stairs[limit.result].attrs, "long_name": f"Limit of {limit.result}"}
        bound = float(limit.of(inputs))
        whole |= {f"{limit.result}_limit": (bound, about)} if np.isfinite(bound) else {}
    for name, (value, about) in whole.items():
        found[name] = ("step_number", np.full(found.sizes["step_number"], value), about)
    return found
