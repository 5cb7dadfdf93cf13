"""Machines under a cost model: the plans that fit them, their best plans and their slopes."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.dual import slope_of, value_of
from jaxroof.engine.codesign.cost_model import CostModel
from jaxroof.engine.grid.dataset import field_metadata
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.candidates import InputsKey, prepare_plans, read_paths
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.engine.sensitivity.derivatives import slopes
from jaxroof.engine.sensitivity.moved_inputs import with_slopes
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.records import field_at, get_at
from jaxroof.structure import structure
from jaxroof.units import show

CLOSE = 1e-9  # objectives that differ by less, relative, are the same
ROUNDING = 1e-13  # added to a least capacity, so that the plan fits in a search too


@dataclasses.dataclass(frozen=True, eq=False)
class DesignProblem:
    """The problem: minimize a result over the machines of a cost model and over plans."""

    estimator: Estimator
    inputs: Any  # of the base, without a plan where plans are searched
    recipe: Any
    name: str  # of the result to minimize
    market: CostModel
    where: tuple[Constraint, ...]
    starts: int

    @property
    def report(self) -> Any:
        """Return the report of the estimator, with shapes in place of values."""
        return dependencies(self.estimator, self.recipe, structure(self.inputs)).report

    @property
    def searched(self) -> bool:
        """Return whether plans are searched rather than given."""
        return self.estimator.candidates is not None and getattr(self.inputs, "plan", None) is None

    @property
    def lanes(self) -> int:
        """Return the number of machines per search, a constant so that one program serves all."""
        return max(self.starts, 2)


@dataclasses.dataclass(frozen=True, eq=False)
class FeasiblePlans:
    """Every plan that fits some machine within bounds and budget, and the least z it needs."""

    plans: Mapping[str, np.ndarray]  # no columns where the estimator has no plan
    low: np.ndarray  # least z at which the plan fits [plans, fields]
    needy: int | None  # the field whose least z depends on the need of the plan
    legal: int  # number of legal plans, whether they fit or not

    def row(self, plan: Mapping[str, Any]) -> int:
        """Return the row of a plan, -1 where it fits no machine."""
        same = np.ones(len(self.low), bool)
        for field, column in self.plans.items():
            same &= column == plan[field]
        return int(np.argmax(same)) if same.any() else -1


def value_and_slope(
    task: DesignProblem, plans: Mapping[str, np.ndarray], z: np.ndarray
) -> tuple[Any, Any]:
    """Return the result [points] and its slopes d value / dz [points, fields]."""
    market, inputs = task.market, task.market.moved(task.inputs, z)
    if plans:
        degrees = {field: column.astype(np.float64) for field, column in plans.items()}
        assert task.estimator.plan is not None
        inputs = dataclasses.replace(inputs, plan=task.estimator.plan(**degrees))
    value, along = slopes(task.estimator, task.recipe, inputs, task.market.every, task.name)
    starts = np.cumsum([0, *map(len, market.together)])[:-1]
    slope = market.way * np.add.reduceat(along, starts, axis=1)
    worse = np.flatnonzero((slope > CLOSE * np.abs(value)[:, None]).any(axis=0))
    if len(worse):
        what = "what costs more makes it worse; expected a price whose power has the other sign"
        raise refusal(market.paths[worse[0]], what)
    return value, slope


def feasible_plans(task: DesignProblem) -> FeasiblePlans:
    """Return the plans that fit some machine within bounds and budget."""
    market = task.market
    plans, need = _plans(task)
    low = np.tile(market.low, (len(need), 1))
    needy, power, limit = _limit(task)
    if needy is not None:
        low[:, needy] = np.maximum(low[:, needy], np.log(need / limit) / power + ROUNDING)
    elif limit is not None:
        low[need > limit] = np.inf
    fits = (low <= market.high).all(axis=1) & (market.spent(low) <= market.budget)
    if not fits.any():
        raise _nothing(task, need.min(), needy, low[np.argmin(need)])
    return FeasiblePlans({f: c[fits] for f, c in plans.items()}, low[fits], needy, len(need))


def _plans(task: DesignProblem) -> tuple[Mapping[str, np.ndarray], np.ndarray]:
    """Return every legal plan, or the given one, and the need of each."""
    estimator, recipe, inputs = task.estimator, task.recipe, task.inputs
    read = read_paths(estimator, recipe, inputs)
    for path in task.market.every:
        if path in read:
            raise refusal(path, "what a plan needs depends on it; expected a field of the machine")
    if task.searched:
        held = prepare_plans(estimator, recipe, task.where, (InputsKey.of(inputs, read),)).plans[0]
        if not len(held):
            raise InputError("no plan is legal; expected other constraints, gpus or batch")
        return held.plans, held.need
    given = {f: np.atleast_1d(get_at(inputs, f"plan.{f}")) for f in estimator.plan_fields}
    if not estimator.need:
        return given, np.zeros(1)
    return given, evaluate_points(estimator, recipe, inputs, estimator.need)[estimator.need]


def _limit(task: DesignProblem) -> tuple[int | None, float, float | None]:
    """Return the field that the limit is a power of (or None), the power and the base's limit."""
    limit, market = task.estimator.limit, task.market
    if limit is None:
        return None, 1.0, None

    ways = np.where(np.arange(len(market.way))[:, None] == market.field, market.way[:, None], 0.0)
    found = limit(with_slopes(task.inputs, market.every, ways))
    value = float(np.squeeze(value_of(found)))
    power = np.broadcast_to(slope_of(found), (len(ways), 1))[:, 0] / value
    moving = np.flatnonzero(power)
    if len(moving) > 1:
        both = " and ".join(market.paths[i] for i in moving)
        raise refusal(both, "both move what plans may need; expected a price of one of them")
    if not len(moving):
        return None, 1.0, value
    return int(moving[0]), float(power[moving[0]]), value


def _nothing(task: DesignProblem, need: float, needy: int | None, low: np.ndarray) -> InputError:
    """Return the error that no plan fits within bounds and budget, with the least need."""
    market = task.market
    if needy is None:
        name, limit = str(task.estimator.need), float(_limit(task)[2] or 0.0)
        unit = str(field_metadata(task.report).get(name, {"unit": "1"})["unit"])
        least, there = (show(float(f"{amount:.4g}"), unit) for amount in (need, limit))
        what = f"the leanest needs {least} of {name}, there is {there}"
        return InputError(f"no plan fits: {what}; expected more of it, or a price of it")
    path, unit = market.paths[needy], field_at(task.inputs, market.paths[needy]).metadata["unit"]
    least, most = (
        show(float(f"{float(get_at(task.inputs, path)) * np.exp(z):.4g}"), unit)
        for z in (low[needy], market.high[needy])
    )
    if low[needy] <= market.high[needy]:
        what = f"expected at least ${market.spent(low):,.6g}"
        return InputError(
            f"budget: ${market.budget:,.6g} buys no machine that holds a plan; {what}"
        )
    what = f"the leanest needs {least}, the most allowed is {most}"
    return refusal(f"bounds.{path}", f"exclude every plan: {what}")


def best_plan_rows(task: DesignProblem, plans: FeasiblePlans, z: np.ndarray) -> np.ndarray:
    """Return the row of the best plan of each machine, -1 where no plan fits."""
    if not task.searched:
        return np.zeros(len(z), np.int64)
    rows: list[int] = []
    for start in range(0, len(z), task.lanes):
        some = z[start : start + task.lanes]
        found = best_plans(search_problem(task, some)).plans
        rows += [
            plans.row({f: column[i, 0] for f, column in found.items()}) for i in range(len(some))
        ]
    return np.array(rows)


def search_problem(task: DesignProblem, z: np.ndarray) -> SearchProblem:
    """Return the search over some machines; the last is repeated to fill the lanes."""
    lanes = np.concatenate([z, np.repeat(z[-1:], task.lanes - len(z), axis=0)])
    return check_search(
        task.estimator, task.inputs, task.recipe, axes={"machine": parameter_columns(task, lanes)},
        where=task.where, objective=task.name,
    )  # fmt: skip


def parameter_columns(task: DesignProblem, z: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of every path that a price moves, one column each over the machines."""
    moved = task.market.moved(task.inputs, z)
    return {path: get_at(moved, path) for path in task.market.every}
