"""How the best result over all plans changes with each parameter, and where the plan changes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.dual import slope_of
from jaxroof.engine.grid.dataset import attributes, dataset, field_metadata, provenance
from jaxroof.engine.grid.dependencies import axes_that_move, dependencies
from jaxroof.engine.search.candidates import read_paths
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.pareto import pareto
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.engine.sensitivity.derivatives import with_slopes
from jaxroof.engine.sensitivity.elasticities import known_parameters
from jaxroof.engine.sensitivity.parameter_lanes import (
    cost_of,
    plans_that_fit,
    share_saved,
)
from jaxroof.engine.sensitivity.switches import (
    NOTHING,
    BestPlans,
    Switches,
    best_plans,
    most_factor,
    switches,
)
from jaxroof.errors import InputError, refusal, shown
from jaxroof.estimator import Estimator
from jaxroof.records import field_at, get_at, leaves, replace_at
from jaxroof.structure import structure

HALF = 16  # factors on either side of the current value
MEANINGS = {
    "parameter": ("1", "Dotted path of what is moved"),
    "factor": ("1", "Value as a multiple of today's"),
    "switch_parameter": ("1", "Dotted path of what is moved"),
    "switch_factor": ("1", "Where another plan takes over, as a multiple of today's value"),
    "switch_value": ("SI", "Where another plan takes over"),
    "switch_order": ("1", "Number of the switch, counted from today on its side"),
    "switch_until": ("1", "Where the next plan takes over or the span ends, as a multiple"),
    "switch_gain": ("1", "Share of the cost of today's plan that the new one saves at the end"),
}


def response(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    parameters: Sequence[str] | None = None,
    span: float = 16.0,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the best result over all plans for each parameter, and every switch of the best plan.

    Each parameter varies by itself from 1/span to span times its current value, and the best plan
    is chosen again at each value. Where the cost (the objective, or its reciprocal where more is
    better) is convex and does not fall in each parameter or in its reciprocal, switches are exact:
    they are the points where the lower envelope of all plans that fit passes from one plan to the
    next. Costs are checked for it; where it does not hold, the attribute ``switches`` is "sampled":
    the best plan is exact at every factor, and a plan that is best only between two is not seen.
    Rounds are bounded: ``switches_open`` counts the intervals that were not searched to the end.

    Arguments: ``parameters`` are dotted paths (default: every number of the machine); paths that
    decide which plans exist, change the need or the limit of plans, or do not change the objective
    are left out; ``where``, ``objective`` and ``settings`` as in ``search``.
    Returns: a Dataset. Over (parameter, factor): the objective of the best plan, the objective of
    the current plan (``_kept``), and the best plan's fields. Over ``switch``: where another plan
    takes over (``switch_factor``, ``switch_value``), its fields, where it ends (``switch_until``),
    and the share of the current plan's cost that it saves there (``switch_gain``: 0 where both
    tie; the plan of less need is then named, as in a search). NaN and -1 where no plan fits, or
    where the parameter cannot take the value.
    Raises: InputError for an invalid search, an unknown parameter, or a span not above 1.
    """
    if estimator.sizing is not None:
        raise InputError(f"{estimator.name}: its plans are programs of their own; use search")
    chosen = {**(settings or {}), **more}
    question = check_search(
        estimator, inputs, recipe, where=where, objective=objective, settings=chosen
    )
    if not 1.0 < span <= 1e6:
        raise refusal("span", f"expected a factor above 1 and at most 1e6, given {shown(span)}")
    paths = _paths(question, parameters)
    factors = span ** (np.arange(-HALF - 1, HALF + 2) / HALF)
    ready = plans_that_fit(question)
    plans = ready.plans[0].plans
    if not len(ready.plans[0]):
        return _dataset(question, paths, factors[1:-1], plans, None, NOTHING)
    lanes, best, won, known = best_plans(question, ready, paths, factors)
    found = switches(lanes, best, won)
    data = _dataset(question, paths, factors[1:-1], lanes.plans, best, found)
    return data.assign_attrs(switches=known, switches_open=best.open)


def _paths(question: SearchProblem, asked: Sequence[str] | None) -> tuple[str, ...]:
    """Return the parameters that change the objective but neither the list of plans nor limits."""
    estimator, inputs = question.estimator, question.inputs
    given = known_parameters(estimator, inputs, asked)
    found = dependencies(estimator, question.recipe, structure(inputs)).results
    moving = found[question.objective] - read_paths(estimator, question.recipe, inputs)
    if estimator.limit is not None:
        moving -= set(limiting(estimator, inputs))
    paths = tuple(p for p in given if p in moving and float(get_at(inputs, p)) > 0.0)
    if not paths:
        text = f"none of {', '.join(given)} moves {question.objective} at the plans that there are"
        raise refusal("parameters", f"{text}; expected a rate or a latency")
    return paths


def _dataset(
    question: SearchProblem,
    paths: Sequence[str],
    factors: np.ndarray,
    plans: Mapping[str, np.ndarray],
    best: BestPlans | None,
    found: Switches,
) -> xr.Dataset:
    """Return the response as a Dataset with the metadata of its parameters and plans."""
    name, inputs = question.objective, question.inputs
    shape = (len(paths), len(factors))
    cost, kept, plan = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, -1)
    if best is not None:
        held = factors <= most_factor(question, paths)[:, None]
        plan, kept = np.where(held, best.by_factor(best.plan), -1), best.by_factor(best.kept)
        cost = np.where(plan >= 0, best.by_factor(best.cost), np.nan)
        kept = np.where(held & (best.today >= 0), kept, np.nan)
    value = np.array([float(get_at(inputs, path)) for path in paths])
    fields = {f: column.astype(np.int64) for f, column in plans.items()}
    grid, row = ("parameter", "factor"), found.row
    columns = {
        name: (grid, cost_of(question, cost)),
        f"{name}_kept": (grid, cost_of(question, kept)),
        **{f: (grid, np.append(column, -1)[plan]) for f, column in fields.items()},
        "switch_parameter": np.array(paths)[row],
        "switch_factor": found.factor,
        "switch_value": value[row] * found.factor,
        "switch_order": found.order(),
        "switch_until": found.until,
        "switch_gain": found.gain,
        f"switch_{name}": cost_of(question, found.cost),
        **{f"switch_{f}": column[found.plan] for f, column in fields.items()},
    }
    columns = {n: c if isinstance(c, tuple) else (("switch",), c) for n, c in columns.items()}
    there = best is not None and best.today >= 0
    today = {f: int(c[best.today]) for f, c in fields.items()} if best and there else None
    attrs = provenance(
        question.estimator,
        inputs,
        question.recipe,
        question="response",
        objective=name,
        where=[str(c) for c in question.where],
        plan=today,
    )
    known = field_metadata(question.estimator.plan, question.report)
    meanings: dict[str, Mapping[str, Any]] = {**known}
    meanings |= {n: {"unit": unit, "doc": doc} for n, (unit, doc) in MEANINGS.items()}
    meanings |= {f"switch_{n}": meaning for n, meaning in known.items()}
    meanings[f"{name}_kept"] = {
        **known[name],
        "doc": f"{known[name]['doc'].rstrip('.')}, today's plan kept",
    }
    data = dataset(columns, (), inputs, meanings, attrs)
    over = {"parameter": list(paths), "factor": factors}
    return data.assign_coords(
        {n: xr.Variable(n, column, attributes(meanings[n])) for n, column in over.items()}
    )


ULPS = 4  # floats by which rounding may shift a quotient
STEPS = {
    "place": ("1", "Place on the staircase: 0 is today's plan, 1 the next step up"),
    "limit": ("", "What the step needs"),
    "value": ("", "Least value of the parameter that holds the step"),
    "change": ("", "That value less today's"),
    "gain": ("1", "Share of the cost of today's plan that the step saves, or costs where negative"),
}


def capacity_steps(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return what more capacity gains and what less of it costs, relative to the given machine.

    Each step is a plan of the Pareto front from ``pareto``. It is the best plan from its ``value``
    of the capacity up to that of the next step.

    Arguments: as in ``search``.
    Returns: a Dataset over ``step`` (``place`` 0 is the current plan, 1 the next step up, -1 the
    next down). It holds the plan and its results, the ``limit`` that it needs, and the least
    ``value`` of the capacity at which it fits; attrs name this ``parameter``, to which the limit
    is proportional. ``change`` is relative to the current value; ``gain`` is the share of the
    current plan's cost that is saved. Where no plan fits the given machine, step 1 is the first
    that would fit, and gains are NaN.
    Raises: InputError for an invalid search, and for plans that nothing limits.
    """
    chosen = {**(settings or {}), **more}
    question = check_search(
        estimator, inputs, recipe, where=where, objective=objective, settings=chosen
    )
    path = _capacity(question)
    data = pareto(estimator, inputs, recipe, where=where, objective=objective, settings=chosen)
    need = data[estimator.need].values
    value = _holding(question, path, need)
    today = float(get_at(question.inputs, path))
    cost = cost_of(question, data[question.objective].values)
    here = int(np.sum(need <= data[f"{estimator.need}_limit"].values)) - 1
    gain = share_saved(cost, cost[here] if here >= 0 else np.nan)
    place = np.arange(len(cost)) - max(here, -1)
    found = {"place": place, "limit": need, "value": value, "change": value - today, "gain": gain}
    unit = field_at(question.inputs, path).metadata["unit"]
    meanings = {n: {"unit": u or unit, "doc": doc} for n, (u, doc) in STEPS.items()}
    columns = {name: (("step",), column) for name, column in found.items()}
    steps = dataset(columns, (), question.inputs, meanings, data.attrs)
    rest = data.drop_vars(["fits", f"{estimator.need}_limit", "plans_legal"])
    return steps.merge(rest.rename(step_number="step")).assign_attrs(data.attrs, parameter=path)


def limiting(estimator: Estimator, inputs: Any) -> list[str]:
    """Return the paths of the inputs that the limit of plans depends on."""
    assert estimator.limit is not None
    paths = [path for path, _, _ in leaves(inputs)]
    return [
        paths[d] for d in sorted(axes_that_move(estimator.limit, inputs, [(p,) for p in paths])[1])
    ]


def _capacity(question: SearchProblem) -> str:
    """Return the path of the inputs that the limit of plans is proportional to.

    If there are several, the one in the unit of the limit: a capacity, not a utilized share.
    """
    estimator, inputs = question.estimator, question.inputs
    if estimator.limit is None:
        raise InputError(f"{estimator.name or 'estimator'}: nothing limits its plans")
    bound = estimator.limit
    limit, found = float(bound(inputs)), {}
    for path in limiting(estimator, inputs):
        value = float(get_at(inputs, path))
        moved = bound(with_slopes(inputs, [path], np.eye(1)))
        if value > 0.0 and abs(slope_of(moved).item() - limit) <= 1e-9 * abs(limit):
            found[path] = field_at(inputs, path).metadata["unit"]
    if not found:
        raise InputError(f"{estimator.name or 'estimator'}: its limit is no capacity of the inputs")
    unit = field_metadata(question.report)[estimator.need]["unit"]
    return next((path for path, one in found.items() if one == unit), next(iter(found)))


def _holding(question: SearchProblem, path: str, need: np.ndarray) -> np.ndarray:
    """Return the least value of a parameter at which a plan of each need fits, exact to the bit."""
    inputs = question.inputs

    def limit(value: Any) -> np.ndarray:
        assert question.estimator.limit is not None
        return np.asarray(question.estimator.limit(replace_at(inputs, path, value)))

    def fits(value: np.ndarray) -> np.ndarray:
        return need <= limit(value)

    today = get_at(inputs, path)
    value = need / (limit(today) / today)
    for _ in range(ULPS):
        value = np.where(fits(value), value, np.nextafter(value, np.inf))
    for _ in range(ULPS):
        below = np.nextafter(value, 0.0)
        value = np.where(fits(below), below, value)
    return value
