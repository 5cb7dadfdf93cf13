"""Every plan of every point of a grid, legal or not, along one dimension; the legal ones alone."""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    fill_from_axes,
    points,
    read_axes,
    replace_all,
    spread,
)
from jaxroof.engine.grid.dataset import attributes, dataset, field_metadata, provenance
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.given_axes import resolved
from jaxroof.engine.grid.size import COPIES, NUMBER, check_lists
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.search.candidates import floats, list_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import (
    check_searchable,
    constraints_of,
    fit_flags,
    searchable_report,
)
from jaxroof.engine.search.search import FEASIBLE
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Candidates, Estimator
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
    refused: Mapping[str, int]  # how many plans each rule refused, where only legal ones are listed


def plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    refused: bool = True,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return every plan tried at each point of a grid, with the reason why each is refused.

    Arguments are as in ``search``; ``refused=False`` is ``survey``, of one point without axes.
    Returns: a Dataset over ``configuration`` of the values on the axes, the plan, its results (NaN
    where a rule refuses it), ``legal`` and ``reason``.
    Raises: InputError for anything that is not a grid of this estimator, or if there is no plan.
    """
    chosen = {**(settings or {}), **more}
    inputs, recipe, given, axes = resolved(estimator, inputs, recipe, chosen, axes)
    if not refused:
        if axes:
            raise InputError("axes: not with refused=False; expected one call of it a point")
        return legal_plans(estimator, inputs, recipe, constraints_of(estimator, where))
    read = read_axes(inputs, axes, recipe, estimator.names, given)
    listed = list_all_plans(estimator, inputs, recipe, axes=read, where=where)
    return evaluate_plans(estimator, listed, recipe, listed.axis, slice(None))


def survey(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    where: str | Iterable[str | Constraint] = (),
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return every legal plan of one machine, feasible or not, in the order of the plan's fields.

    Arguments are as in ``search``.
    Returns: a Dataset over ``plan``. Its attribute ``refused`` gives how many choices each rule
    refused.
    Raises: InputError for anything that is not a point of this estimator.
    """
    chosen = {**(settings or {}), **more}
    return plans(estimator, inputs, recipe, where=where, refused=False, settings=chosen)


def legal_plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    where: tuple[Constraint, ...],
    some: Mapping[str, np.ndarray] | None = None,
) -> xr.Dataset:
    """Return the legal plans of one point with their results, ``feasible`` among them.

    ``some`` are columns of those that are asked for; by default all.
    """
    listed = list_all_plans(estimator, inputs, recipe, where=where, refused=False)
    if some is not None:
        chosen = {f"plan.{field}": column.astype(float) for field, column in some.items()}
        listed = dataclasses.replace(listed, axis=Axis(DIMENSION, chosen))
    fields = listed.axis.columns
    found = evaluate_points(estimator, recipe, replace_all(listed.inputs, fields))
    if "feasible" not in found:
        found["feasible"] = _within(estimator, listed.inputs, found, len(listed.axis))
    columns = {path.removeprefix("plan."): some.astype(np.int64) for path, some in fields.items()}
    inputs = dataclasses.replace(listed.inputs, plan=None)
    report = searchable_report(estimator, inputs, recipe)
    about: dict[str, Any] = {
        "question": "legal plans",
        "where": [str(rule) for rule in where],
        "refused": listed.refused,
    }
    return dataset(
        {name: (("plan",), values) for name, values in {**columns, **found}.items()},
        (),
        inputs,
        {**FEASIBLE, **field_metadata(estimator.plan, report)},
        provenance(estimator, inputs, recipe, **about),
    )


def _within(estimator: Estimator, inputs: Any, found: Mapping[Any, Any], count: int) -> np.ndarray:
    """Return which plans fit the limit; all of them, if there is none."""
    if estimator.limit is None or not estimator.need:
        return np.ones(count, bool)
    need = np.asarray(found[estimator.need])
    return np.broadcast_to(need <= np.asarray(estimator.limit(inputs)), (count,))


def list_all_plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    refused: bool = True,
) -> AllPlans:
    """List every plan tried at every point of a grid; arguments are as in ``plans``.

    Raises: InputError for an estimator without plans, for an axis over choices or over the plan,
    and if none of all plans remains.
    """
    given = choices_of(recipe) if recipe is not None else ()
    recipe = estimator.recipe_of(inputs, recipe)
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
    counts: Counter[str] = Counter()
    _check_size(estimator, inputs, recipe, rules, read, refused)
    for index, values in points(read):
        asked = replace_all(inputs, values)
        rows, some, _ = _listed(estimator, asked, recipe, rules, refused=refused)
        counts.update(some)
        count = len(next(iter(rows.values())))
        moved = {**values, **{f"plan.{field}": column for field, column in rows.items()}}
        for path, value in moved.items():
            columns.setdefault(path, []).append(np.broadcast_to(np.asarray(value, float), (count,)))
        for path, (names, at) in named.items():
            here = known[path].index(names[index[at]])
            numbers[path].append(np.full(count, here, np.int16))
    whole = {path: np.concatenate(parts) for path, parts in columns.items()}
    if refused and not (whole and len(next(iter(whole.values())))):
        raise InputError("plans: none to try; expected inputs and rules that allow some")
    first = {f: next(iter(whole[f"plan.{f}"]), np.float64(1)) for f in estimator.plan_fields}
    inputs = dataclasses.replace(inputs, plan=estimator.plan(**first))
    labels = {path: (known[path], np.concatenate(numbers[path])) for path in named}
    return AllPlans(inputs, Axis(DIMENSION, whole), labels, counts)


def _check_size(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    rules: tuple[Constraint, ...],
    axes: Sequence[Axis],
    refused: bool,
) -> None:
    """Check that every plan of every point fits in memory, by a sample of the points."""
    columns = len(estimator.plan_fields) + sum(len(axis.values) for axis in axes)

    def plans_at(values: Mapping[str, Any]) -> int:
        asked = replace_all(inputs, values)
        plans = _listed(estimator, asked, recipe, rules, refused=refused).plans
        return len(next(iter(plans.values())))

    check_lists(axes, COPIES * NUMBER * columns, plans_at, "expected fewer points")


def _listed(
    estimator: Estimator, inputs: Any, recipe: Any, rules: tuple[Constraint, ...], *, refused: bool
) -> Candidates:
    """Return the plans tried at one point (the legal ones, if no other is tried or wanted)."""
    if estimator.tried is None or not refused:
        return list_plans(estimator, inputs, recipe, rules)
    for path, _, value in list(leaves(inputs)):
        inputs = replace_at(inputs, path, floats([value])[0])
    rows = estimator.tried(inputs, recipe)
    mask = np.ones(len(next(iter(rows.values()))), bool)
    for rule in rules:
        mask &= rule.holds(rows)
    return Candidates({field: column[mask] for field, column in rows.items()}, {})


def evaluate_plans(
    estimator: Estimator, asked: AllPlans, recipe: Any, axis: Axis, part: slice, **options: Any
) -> xr.Dataset:
    """Evaluate some of the configurations, and add why each is refused.

    Returns: a Dataset of the results (floats are NaN where a rule refuses the plan), ``legal`` and
    ``reason``: the first rule that the plan violates, or the need that exceeds its limit.
    """
    data = tabulate(estimator, asked.inputs, recipe, axes=[axis], **options)
    return add_labels(asked, add_verdicts(estimator, data, asked.inputs, axis), part)


def _about(doc: str, **more: Any) -> dict[str, Any]:
    return attributes({"unit": "1", "doc": doc, **more})


def add_labels(asked: AllPlans, data: xr.Dataset, part: slice) -> xr.Dataset:
    """Add the labels of the axes over records to the results of some configurations."""
    for name, (labels, numbers) in asked.labels.items():
        about = _about(f"The {name}", flags=labels)
        data[name] = xr.Variable((DIMENSION,), numbers[part], about)
    return data.assign_attrs(question="every plan")


def add_verdicts(estimator: Estimator, data: xr.Dataset, inputs: Any, axis: Axis) -> xr.Dataset:
    """Add ``legal`` and ``reason`` to the results; floats become NaN where a rule refuses the plan.

    The result ``NEED_fits`` says whether a plan fits. Without it, the need is compared with the
    limit.
    """
    fits, whole = f"{estimator.need}_fits", fit_flags(estimator)
    count = data.sizes[DIMENSION]
    if fits not in data and estimator.need and estimator.limit is not None:
        within = _within(estimator, spread(inputs, [axis]), data, count)
        about = _about(f"{estimator.need} is at most its limit")
        data = data.assign({fits: ((DIMENSION,), within, about)})
    flags = {str(n): v for n, v in data.data_vars.items() if v.dtype == bool}
    rules = [name for name in flags if name not in (fits, "feasible")]
    held = {n: np.broadcast_to(v.values, (count,)) for n, v in flags.items()}
    reason = np.zeros(count, np.int8)
    if fits in held:
        reason[~held[fits]] = 1
    for place, name in reversed(list(enumerate(rules, len(whole)))):
        reason[~held[name]] = place
    legal = reason < len(whole)
    changed = {
        str(name): (np.where(legal, v.values, np.nan), v.attrs)
        for name, v in data.data_vars.items()
        if v.dtype.kind == "f"
    }
    changed |= {name: (held[name], v.attrs) for name, v in flags.items()}
    if "feasible" not in changed:
        changed["feasible"] = reason == 0, _about("Every rule allows the plan, and it fits")
    changed["legal"] = legal, _about("Every rule allows the plan")
    changed["reason"] = reason, _about("Why it is refused", flags=(*whole, *rules))
    return data.assign({n: xr.Variable((DIMENSION,), *some) for n, some in changed.items()})
