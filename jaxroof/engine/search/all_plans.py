"""Every plan of every point of a grid, legal or not, along one dimension; the legal ones alone."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    points,
    spread,
)
from jaxroof.engine.grid.dataset import attributes
from jaxroof.engine.grid.question import ask
from jaxroof.engine.grid.size import COPIES, NUMBER, check_lists
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.search.candidates import list_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.one_machine import reports
from jaxroof.engine.search.problem import (
    check_search,
    check_searchable,
    constraints_of,
    fit_flags,
    searchable_report,
)
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Candidates, Estimator
from jaxroof.missing import check_listed, naming_all
from jaxroof.records import replace_all
from jaxroof.structure import map_numbers

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
    if not refused:
        if axes:
            raise InputError("axes: not with refused=False; expected one call of it a point")
        return survey(estimator, inputs, recipe, where=where, settings=chosen)
    _, inputs, recipe, read = ask(estimator, inputs, recipe, chosen, axes)
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
    asked = check_search(estimator, inputs, recipe, where=where, settings=chosen)
    listed = list_plans(asked.estimator, asked.inputs, asked.recipe, asked.where)
    return reports(asked, listed.plans, listed.refused)


def list_all_plans(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
) -> AllPlans:
    """List every plan tried at every point of a grid; arguments are as in ``plans``.

    Raises: InputError for an estimator without plans, for an axis over choices or over the plan,
    and if none of all plans remains.
    """
    check_searchable(estimator)
    assert estimator.plan is not None
    _, inputs, recipe, read = ask(estimator, inputs, recipe, axes=axes)
    inputs = dataclasses.replace(inputs, plan=None)
    for axis in read:
        if axis.choices:
            what = f"chooses {', '.join(axis.choices)} of the recipe"
            raise refusal(axis.name, f"{what}; expected one sweep a choice")
    rules = constraints_of(estimator, where)
    with naming_all(estimator, inputs, recipe, searched=True):
        check_listed(estimator, inputs)
        searchable_report(estimator, inputs, recipe)
    columns: dict[str, list[np.ndarray]] = {}
    named = {path: (labels, at) for at, a in enumerate(read) for path, labels in a.labels.items()}
    known = {path: tuple(dict.fromkeys(labels)) for path, (labels, _) in named.items()}
    numbers: dict[str, list[np.ndarray]] = {path: [] for path in named}
    size = COPIES * NUMBER * (len(estimator.plan_fields) + sum(len(axis.values) for axis in read))

    def tried(values: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
        return _tried(estimator, replace_all(inputs, values), recipe, rules)

    check_lists(
        read, size, lambda values: len(next(iter(tried(values).values()))), "expected fewer points"
    )
    for index, values in points(read):
        rows = tried(values)
        count = len(next(iter(rows.values())))
        moved = {**values, **{f"plan.{field}": column for field, column in rows.items()}}
        for path, value in moved.items():
            columns.setdefault(path, []).append(np.broadcast_to(np.asarray(value, float), (count,)))
        for path, (names, at) in named.items():
            here = known[path].index(names[index[at]])
            numbers[path].append(np.full(count, here, np.int16))
    whole = {path: np.concatenate(parts) for path, parts in columns.items()}
    if not (whole and len(next(iter(whole.values())))):
        raise InputError("plans: none to try; expected inputs and rules that allow some")
    first = {f: whole[f"plan.{f}"][0] for f in estimator.plan_fields}
    inputs = dataclasses.replace(inputs, plan=estimator.plan(**first))
    labels = {path: (known[path], np.concatenate(numbers[path])) for path in named}
    return AllPlans(inputs, Axis(DIMENSION, whole), labels)


def _tried(
    estimator: Estimator, inputs: Any, recipe: Any, rules: tuple[Constraint, ...]
) -> Mapping[str, np.ndarray]:
    """Return the plans tried at one point, the legal ones if no other is tried."""
    if estimator.tried is None:
        return list_plans(estimator, inputs, recipe, rules).plans
    rows = estimator.tried(map_numbers(float, inputs), recipe)
    return Candidates(rows, {}).having(rules).plans


def evaluate_plans(
    estimator: Estimator, asked: AllPlans, recipe: Any, axis: Axis, part: slice, **options: Any
) -> xr.Dataset:
    """Evaluate some of the configurations, and add why each is refused.

    Returns: a Dataset of the results (floats are NaN where a rule refuses the plan), ``legal`` and
    ``reason``: the first rule that the plan violates, or the need that exceeds its limit.
    """
    data = tabulate(estimator, asked.inputs, recipe, axes=[axis], **options)
    data = _with_verdicts(estimator, data, asked.inputs, axis)
    for name, (labels, numbers) in asked.labels.items():
        about = _about(f"The {name}", flags=labels)
        data[name] = xr.Variable((DIMENSION,), numbers[part], about)
    return data.assign_attrs(question="every plan")


def _about(doc: str, **more: Any) -> dict[str, Any]:
    return attributes({"unit": "1", "doc": doc, **more})


def _with_verdicts(estimator: Estimator, data: xr.Dataset, inputs: Any, axis: Axis) -> xr.Dataset:
    """Add ``legal`` and ``reason`` to the results; floats become NaN where a rule refuses the plan.

    The result ``NEED_fits`` says whether a plan fits. Without it, the need is compared with the
    limit.
    """
    fits, whole = f"{estimator.need}_fits", fit_flags(estimator)
    count = data.sizes[DIMENSION]
    if fits not in data and estimator.need and estimator.limit is not None:
        limit = np.asarray(estimator.limit(spread(inputs, [axis])))
        within = np.broadcast_to(data[estimator.need].values <= limit, (count,))
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
