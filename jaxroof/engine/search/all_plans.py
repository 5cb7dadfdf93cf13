"""Every plan of every point of a grid, legal or not, along one dimension."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    fill_from_axes,
    paths_of,
    points,
    read_axes,
    replace_all,
    spread,
)
from jaxroof.engine.grid.dataset import attributes
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.search.candidates import floats
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import (
    check_searchable,
    constraints_of,
    fit_flags,
    searchable_report,
)
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.missing import check_listed, naming_all
from jaxroof.records import checked, leaves, replace_at
from jaxroof.settings import choices_of

DIMENSION = "configuration"


@dataclasses.dataclass(frozen=True, eq=False)
class AllPlans:
    """All configurations of a problem: their numbers as one axis, and their labels."""

    inputs: Any
    axis: Axis
    # path of a record on an axis -> its labels, and the index of each configuration's label
    labels: Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return every plan tried at each point of a grid, with the reason why each is refused.

    Arguments are as in ``search``.
    Returns: a Dataset over ``configuration`` of the values on the axes, the plan, its results (NaN
    where a rule refuses it), ``legal`` and ``reason``.
    Raises: InputError for anything that is not a grid of this estimator, or if there is no plan.
    """
    chosen = {**(settings or {}), **more}
    inputs, recipe, given = estimator.resolve(inputs, recipe, chosen, paths_of(axes))
    read = read_axes(inputs, axes, recipe, estimator.names, given)
    listed = list_all_plans(estimator, inputs, recipe, axes=read, where=where)
    return evaluate_plans(estimator, listed, recipe, listed.axis, slice(None))


def list_all_plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
) -> AllPlans:
    """List every plan tried at every point of a grid; arguments are as in ``search``.

    Raises: InputError for an estimator without plans, for an axis over choices or over the plan,
    and if no plan remains.
    """
    given = choices_of(recipe) if recipe is not None else ()
    recipe = estimator.recipe if recipe is None else recipe
    check_searchable(estimator)
    assert estimator.plan is not None
    inputs = dataclasses.replace(checked(inputs), plan=None)
    read = read_axes(inputs, axes, recipe, estimator.names, given)
    for axis in read:
        if axis.choices:
            what = f"chooses {', '.join(axis.choices)} of the recipe"
            raise refusal(axis.name, f"{what}; expected one sweep a choice")
    inputs, rules = fill_from_axes(inputs, read), constraints_of(estimator, where)
    with naming_all(estimator, inputs, recipe, searched=True):
        check_listed(estimator, inputs)
        searchable_report(estimator, inputs, recipe)
    columns: dict[str, list[np.ndarray]] = {}
    named = {path: (labels, at) for at, a in enumerate(read) for path, labels in a.labels.items()}
    known = {path: tuple(dict.fromkeys(labels)) for path, (labels, _) in named.items()}
    numbers: dict[str, list[np.ndarray]] = {path: [] for path in named}
    for index, values in points(read):
        rows = _tried(estimator, replace_all(inputs, values), recipe, rules)
        count = len(next(iter(rows.values())))
        moved = {**values, **{f"plan.{field}": column for field, column in rows.items()}}
        for path, value in moved.items():
            columns.setdefault(path, []).append(np.broadcast_to(np.asarray(value, float), (count,)))
        for path, (names, at) in named.items():
            here = known[path].index(names[index[at]])
            numbers[path].append(np.full(count, here, np.int16))
    whole = {path: np.concatenate(parts) for path, parts in columns.items()}
    if not whole or not len(next(iter(whole.values()))):
        raise InputError("plans: none to try; expected inputs and rules that allow some")
    plan = estimator.plan(**{f: np.float64(whole[f"plan.{f}"][0]) for f in estimator.plan_fields})
    labels = {path: (known[path], np.concatenate(numbers[path])) for path in named}
    return AllPlans(dataclasses.replace(inputs, plan=plan), Axis(DIMENSION, whole), labels)


def _tried(
    estimator: Estimator, inputs: Any, recipe: Any, rules: tuple[Constraint, ...]
) -> Mapping[str, np.ndarray]:
    """Return the plans tried at one point, one column per plan field."""
    for path, _, value in list(leaves(inputs)):
        inputs = replace_at(inputs, path, floats([value])[0])
    if estimator.tried is not None:
        rows = estimator.tried(inputs, recipe)
    else:
        assert estimator.candidates is not None
        rows = estimator.candidates(inputs, recipe).plans
    mask = np.ones(len(next(iter(rows.values()))), bool)
    for rule in rules:
        mask &= rule.holds(rows)
    return {field: column[mask] for field, column in rows.items()}


def evaluate_plans(
    estimator: Estimator, asked: AllPlans, recipe: Any, axis: Axis, part: slice, **options: Any
) -> xr.Dataset:
    """Evaluate some of the configurations, and add why each is refused.

    Returns: a Dataset of the results (floats are NaN where a rule refuses the plan), ``legal`` and
    ``reason``: the first rule that the plan violates, or the need that exceeds its limit.
    """
    data = tabulate(estimator, asked.inputs, recipe, axes=[axis], **options)
    return add_labels(asked, add_verdicts(estimator, data, asked.inputs, axis), part)


def add_labels(asked: AllPlans, data: xr.Dataset, part: slice) -> xr.Dataset:
    """Add the labels of the axes over records to the results of some configurations."""
    for name, (labels, numbers) in asked.labels.items():
        about = attributes({"unit": "1", "doc": f"The {name}", "flags": labels})
        data[name] = xr.Variable((DIMENSION,), numbers[part], about)
    return data


def add_verdicts(estimator: Estimator, data: xr.Dataset, inputs: Any, axis: Axis) -> xr.Dataset:
    """Add ``legal`` and ``reason`` to the results; floats become NaN where a rule refuses the plan.

    The result ``NEED_fits`` says whether a plan fits. Without it, the need is compared with the
    limit.
    """
    fits, whole = f"{estimator.need}_fits", fit_flags(estimator)
    count = data.sizes[DIMENSION]
    if fits not in data and estimator.need and estimator.limit is not None:
        limit = np.asarray(estimator.limit(spread(inputs, [axis])))
        about = attributes({"unit": "1", "doc": f"{estimator.need} is at most its limit"})
        within = np.broadcast_to(~(data[estimator.need].values > limit), (count,))
        data = data.assign({fits: ((DIMENSION,), within, about)})
    flags = {n: v for n, v in data.data_vars.items() if v.dtype == bool}
    rules = [str(name) for name in flags if name not in (fits, "feasible")]
    held = {n: np.broadcast_to(data[n].values, (count,)) for n in flags}
    reason = np.zeros(count, np.int8)
    if fits in held:
        reason[~held[fits]] = 1
    for place, name in reversed(list(enumerate(rules, len(whole)))):
        reason[~held[name]] = place
    legal = reason < len(whole)
    changed: dict[str, xr.Variable] = {
        str(name): xr.Variable((DIMENSION,), np.where(legal, v.values, np.nan), v.attrs)
        for name, v in data.data_vars.items()
        if v.dtype.kind == "f"
    }
    changed |= {
        str(name): xr.Variable((DIMENSION,), held[name], v.attrs) for name, v in flags.items()
    }
    if "feasible" not in changed:
        about = attributes({"unit": "1", "doc": "Every rule allows the plan, and it fits"})
        changed["feasible"] = xr.Variable((DIMENSION,), reason == 0, about)
    doc = {"unit": "1", "doc": "Why it is refused"}
    changed["legal"] = xr.Variable(
        (DIMENSION,), legal, attributes({"unit": "1", "doc": "Every rule allows the plan"})
    )
    changed["reason"] = xr.Variable(
        (DIMENSION,), reason, attributes({**doc, "flags": (*whole, *rules)})
    )
    return data.assign(changed)
