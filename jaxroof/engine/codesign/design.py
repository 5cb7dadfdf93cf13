"""Co-design: the best machine for a budget, optimized together with its plan."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.codesign.descent import BestMachine, best_machine
from jaxroof.engine.codesign.machines import (
    DesignProblem,
    FeasiblePlans,
    cost_model,
    feasible_plans,
    parameter_columns,
    search_problem,
    value_and_slope,
)
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.evaluate import evaluate_points, place_best
from jaxroof.engine.grid.question import ask
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.problem import constraints_of
from jaxroof.engine.search.search import best_of_each, search_dataset
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.limits import check_bound
from jaxroof.records import field_at, get_at
from jaxroof.structure import results

MACHINES = ("base", "best")
HELD = ("inside", "least", "most", "need")  # names of the flags 0 to 3
STARTS = 16  # descents
EDGE = 1e-9  # in z: a value closer to a bound than this counts as on it


def design(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    prices: Mapping[str, Mapping[str, Any]],
    bounds: Mapping[str, Sequence[Any]],
    budget: float | None = None,
    fixed: float = 0.0,
    minimise: str | None = None,
    times_cost: bool = False,
    starts: int = STARTS,
    where: str | Iterable[str | Constraint] = (),
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the best machine that a budget can buy, with the best plan on it.

    The machine of the inputs is the base. Where the inputs hold no plan, plans are searched. A
    descent alternates between the best plan of a machine and the best machine of that plan, from
    many starts. Every other plan is then ruled out by a lower bound, or solved for its own best
    machine.

    Arguments: ``prices`` maps each path to ``{"price": dollars, "per": "1 GB/s", "power": 1.0,
    "with": [paths that move in proportion]}``; the field costs ``price * (value / per) ** power``
    (a power below 0 where less costs more). ``bounds`` maps each path to its least and greatest
    value. ``budget`` is the most that a machine may cost in dollars (default: the cost of the
    base), of which ``fixed`` is spent on any machine. ``minimise`` names the result to minimize;
    with ``times_cost`` its product with the cost is minimized. ``starts`` is the number of
    descents; ``where`` and ``settings`` as in ``search``.
    Returns: a Dataset. Over ``machine`` (base, best): the results of a search on both. Over
    ``machine`` and ``field``: each field's ``value``, its cost (``spent``), its ``elasticity``
    (share of the result saved per share of the field) and ``saved_per_dollar``; on a kink these
    come from the active cuts, weighted by their multipliers. Over ``field``: its bounds, the bound
    that is active (``held``) and its ``multiplier``. Scalars: ``budget_value`` (objective saved
    per dollar added), the lower ``bound`` on the objective of all machines and plans, and the
    measures that prove it.
    Raises: InputError for an invalid price, bound or budget, and where no plan fits any machine
    within them.
    """
    task = design_problem(
        estimator, inputs, recipe, minimise, where, starts, {**(settings or {}), **more},
        prices=prices, bounds=bounds, budget=budget, fixed=fixed, times_cost=times_cost,
    )  # fmt: skip
    plans = feasible_plans(task)
    best = best_machine(task, plans)
    z = np.array([np.zeros(len(task.market.way)), best.optimum.z])
    _check_within(task, plans, best)
    data = _results(task, z)
    data = data.rename({"cost": "result_cost"} if "cost" in data else {})  # not of the machine
    data["cost"] = ("machine", task.market.spent(z), _about("dollar", "Cost of one machine"))
    _fields(data, task, plans, best, z)
    _proof(data, task, plans, best)
    data.attrs |= {
        "objective": task.name,
        "times_cost": str(times_cost).lower(),
        "prices": json.dumps(prices, default=str),
        "bounds": json.dumps(bounds, default=str),
        "where": json.dumps([str(one) for one in task.where]),
    }
    return data


def design_problem(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    minimise: str | None = None,
    where: str | Iterable[str | Constraint] = (),
    starts: int = STARTS,
    settings: Mapping[str, Any] | None = None,
    **priced: Any,
) -> DesignProblem:
    """Return the design problem, checked; ``priced`` are arguments of ``cost_model``."""
    _, inputs, recipe, _ = ask(estimator, inputs, recipe, settings)
    inputs = place_best(estimator, inputs, recipe)
    check_bound("starts", "starts", starts)
    if estimator.plan and estimator.candidates is None and inputs.plan is None:
        raise InputError(f"{estimator.name or 'estimator'}: lists no plans; expected one's own")
    task = DesignProblem(
        estimator=estimator,
        inputs=inputs,
        recipe=recipe,
        name=minimise or estimator.objective,
        market=cost_model(estimator, inputs, **priced),
        where=constraints_of(estimator, where),
        starts=starts,
    )
    known = field_metadata(task.report)
    lower = [n for n, value in results(task.report).items() if value.dtype != bool]
    lower = [n for n in lower if n not in known or known[n]["better"] == "lower"]
    if task.name not in lower:
        raise unknown("minimise", task.name, "result of which less is better", lower)
    return task


def _check_within(task: DesignProblem, plans: FeasiblePlans, best: BestMachine) -> None:
    """Check that the best plan of the best machine is within the limits besides the first.

    Machines are weighed as if the first were the only one. If the plan that wins then is within the
    others, no other machine and plan within all of them does better.
    """
    inputs = task.market.moved(task.inputs, best.optimum.z[None])
    if task.searched:
        row = {field: column[[best.row]] for field, column in plans.plans.items()}
        inputs = with_plans(task.estimator, inputs, row)
    for limit in task.estimator.limits[1:]:
        found = evaluate_points(task.estimator, task.recipe, inputs, limit.result)[limit.result]
        if np.any(found > limit.of(inputs)):
            what = "exceeded by the best plan of the machine that the budget buys"
            raise refusal(
                limit.result, f"{what}; a design holds no such limit; expected a wider one"
            )


def _results(task: DesignProblem, z: np.ndarray) -> xr.Dataset:
    """Return every result of the base and of the best machine."""
    if task.searched:
        asked = search_problem(task, z)
        data = search_dataset(asked.axes, best_of_each([asked]))
    else:
        axis = Axis("machine", parameter_columns(task, z))
        found = evaluate_points(task.estimator, task.recipe, task.market.moved(task.inputs, z))
        meanings = field_metadata(task.report)
        named = {name: (("machine",), values) for name, values in found.items()}
        data = dataset(named, [axis], task.inputs, meanings, {})
    data.attrs |= provenance(task.estimator, task.inputs, task.recipe, question="design")
    labels = xr.Variable("machine", list(MACHINES), {"long_name": "Machine"})
    return data.assign_coords(machine=labels)


def _fields(
    data: xr.Dataset, task: DesignProblem, plans: FeasiblePlans, best: BestMachine, z: np.ndarray
) -> None:
    """Add each field's value, cost, savings and active bound to the data."""
    market, optimum = task.market, best.optimum
    units = [field_at(task.inputs, path).metadata["unit"] for path in market.paths]
    base = np.array([float(get_at(task.inputs, path)) for path in market.paths])
    data.coords["field"] = ("field", list(market.paths), {"long_name": "Field that money moves"})
    others = [" ".join(some[1:]) for some in market.together]
    data.coords["field_with"] = ("field", others, {"long_name": "Fields that move in proportion"})
    data.coords["field_units"] = ("field", units, {"long_name": "Unit of the field"})
    own = optimum.mean.share * np.exp(-optimum.z) / optimum.value
    elasticity = np.array([_elasticity(task, data.isel(machine=0)), own])
    dollars = market.power * market.costs(z)  # per share of a field
    result = np.array([float(data[task.name][0]), optimum.value])
    share = dollars[1] / market.spent(optimum.z) * (optimum.worth + market.times_cost)
    low, unit = plans.low[best.row], data[task.name].attrs.get("units", "1")
    needed = low > market.low
    held = np.where(optimum.z <= low + EDGE, np.where(needed, 3, 1), 0)
    most = (optimum.z >= market.high - EDGE) & ((held == 0) | (own >= share))
    held = np.where(most, 2, held)
    both = ("machine", "field")
    ends = base * np.exp(market.way * np.array([market.low, market.high]))
    saved = elasticity * result[:, None] / dollars
    gives = np.where(held == 2, own - share, np.where(held > 0, share - own, 0.0))
    bounded = "Share of the objective saved per share that the bound gives way"
    found: list[tuple[str, Any, np.ndarray, str, str]] = [
        ("value", both, base * market.factors(z), "", "Value, in the unit of the field"),
        ("spent", both, market.costs(z), "dollar", "What the field costs"),
        ("elasticity", both, elasticity, "1", "Share of the result that a share saves"),
        (
            "saved_per_dollar",
            both,
            saved,
            f"{unit}/dollar",
            "What a dollar more in the field saves",
        ),
        ("lower", "field", ends.min(axis=0), "", "Least allowed"),
        ("upper", "field", ends.max(axis=0), "", "Most allowed"),
        ("held", "field", held.astype(np.int8), "1", "What holds the field of the best machine"),
        ("multiplier", "field", gives, "1", bounded),
    ]
    for name, dims, values, of, words in found:
        data[name] = (dims, values, _about(of, words))
    data.held.attrs |= {"flag_values": [*range(len(HELD))], "flag_meanings": " ".join(HELD)}


def _elasticity(task: DesignProblem, base: xr.Dataset) -> np.ndarray:
    """Return the elasticities at the base machine, NaN where no plan fits it."""
    if task.searched and not bool(base.feasible):
        return np.full(len(task.market.way), np.nan)
    fields = task.estimator.plan_fields
    own: Any = base if task.searched else vars(task.inputs.plan) if fields else {}
    degrees = {field: np.atleast_1d(np.asarray(own[field], float)) for field in fields}
    value, slope = value_and_slope(task, degrees, np.zeros((1, len(task.market.way))))
    return np.asarray(0.0 - slope[0] / value[0])


def _proof(data: xr.Dataset, task: DesignProblem, plans: FeasiblePlans, best: BestMachine) -> None:
    """Add the budget, its marginal value and the proof of optimality to the data."""
    market, optimum = task.market, best.optimum
    unit = data[task.name].attrs.get("units", "1")
    times = f"dollar {unit}" if market.times_cost else unit
    spent = float(market.spent(optimum.z))
    agree = "Objective where each start came to rest, NaN where nothing fits it"
    scalars: dict[str, tuple[Any, str, str]] = {
        "budget": (market.budget, "dollar", "Most that a machine may cost"),
        "fixed": (market.fixed, "dollar", "What every machine costs anyway"),
        "budget_active": (optimum.worth > EDGE, "1", "Whether more budget would be spent"),
        "budget_elasticity": (optimum.worth, "1", "Share of the objective that a share saves"),
        "budget_value": (
            optimum.worth * optimum.objective / spent,
            f"{times}/dollar",
            "What a dollar more of budget saves",
        ),
        "least_objective": (optimum.objective, times, "Objective of the best machine"),
        "bound": (best.bound, times, "Least that any machine and plan could reach"),
        "gap": (optimum.objective / best.bound - 1.0, "1", "Distance to that bound, relative"),
        "convex": (best.convex, "1", "Whether no cut was violated: the bound holds"),
        "cuts": (len(optimum.weights), "1", "Active cuts; more than one is a kink"),
        "plans_held": (len(plans.low), "1", "Plans that a machine within bounds and budget holds"),
        "plans_solved": (best.solved, "1", "Plans whose best machine was found"),
    }
    for name, (value, of, words) in scalars.items():
        data[name] = ((), value, _about(of, words))
    data["start_objective"] = ("descent", best.ends, _about(times, agree))


def _about(unit: str, words: str) -> dict[str, Any]:
    return {"units": unit, "long_name": words} if unit else {"long_name": words}
