"""Machines under a cost model: the prices of their fields, the plans that fit, their slopes."""

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.dual import slope_of, value_of
from jaxroof.engine.grid.dataset import field_metadata
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.search.candidates import InputsKey, prepare_plans, read_paths, with_plans
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.driver import best_plans
from jaxroof.engine.search.problem import SearchProblem, check_search
from jaxroof.engine.sensitivity.derivatives import scale_parameters, slopes, with_slopes
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import checked_values, field_at, get_at, is_quantity, leaves
from jaxroof.structure import structure
from jaxroof.units import parse, show

KEYS = ("price", "per", "power", "with")  # allowed in one price
MOST = 1e12  # dollars; above this a cent is lost to rounding
CLOSE = 1e-9  # objectives that differ by less, relative, are the same
ROUNDING = 1e-13  # added to a least capacity, so that the plan fits in a search too


@dataclasses.dataclass(frozen=True, eq=False)
class CostModel:
    """The priced fields of a machine, in logarithms relative to the base machine.

    ``z = ln(value / base)`` where more costs more, ``z = ln(base / value)`` where less costs more
    (a power below 0). A larger z therefore always costs more.
    """

    paths: tuple[str, ...]
    together: tuple[tuple[str, ...], ...]  # each path with those that move in proportion to it
    way: np.ndarray  # 1, or -1 where less costs more
    cost: np.ndarray  # of the base [dollars]
    power: np.ndarray  # of exp(z), above 0
    low: np.ndarray  # least z of each
    high: np.ndarray  # greatest z of each
    fixed: float  # cost of every machine besides its fields [dollars]
    budget: float  # [dollars]
    times_cost: bool  # minimize cost times the result instead of the result

    @property
    def every(self) -> list[str]:
        """Return every path that a price moves, including those that move in proportion."""
        return [path for some in self.together for path in some]

    @property
    def field(self) -> np.ndarray:
        """Return, for each path of ``every``, the number of the field that it moves with."""
        return np.repeat(np.arange(len(self.together)), [len(some) for some in self.together])

    def costs(self, z: np.ndarray) -> np.ndarray:
        """Return the cost of each field [..., fields]."""
        return self.cost * np.exp(self.power * z)

    def spent(self, z: np.ndarray) -> np.ndarray:
        """Return the cost of a whole machine [...]."""
        return self.fixed + self.costs(z).sum(axis=-1)

    def factors(self, z: np.ndarray) -> np.ndarray:
        """Return the ratio of each field to that of the base [..., fields]."""
        return np.exp(self.way * z)

    def objective(self, result: Any, z: np.ndarray) -> Any:
        """Return the objective to minimize: the result, or its product with the cost."""
        return result * self.spent(z) if self.times_cost else result

    def moved(self, inputs: Any, z: np.ndarray) -> Any:
        """Return the inputs at z: scalar fields for one machine, columns where z has rows."""
        return scale_parameters(inputs, self.every, self.factors(z)[..., self.field])


def cost_model(
    estimator: Estimator,
    inputs: Any,
    *,
    prices: Mapping[str, Mapping[str, Any]],
    bounds: Mapping[str, Sequence[Any]],
    fixed: float = 0.0,
    budget: float | None = None,
    times_cost: bool = False,
) -> CostModel:
    """Return the priced fields of some inputs, checked.

    A field costs ``price * (value / per) ** power`` [dollars]. The default budget is the cost of
    the inputs.
    """
    if not prices:
        raise InputError("price: nothing to buy; expected a price of one field or more")
    seen: set[str] = set()
    rows = [_row(estimator, inputs, path, prices[path], bounds, seen) for path in prices]
    for path in bounds:
        if path not in prices:
            raise unknown("bounds", path, "field with a price", prices)
    cost, power, low, high = (
        np.array(column) for column in zip(*(r[1:] for r in rows), strict=True)
    )
    way = np.sign(power)
    fixed = _dollars("fixed", fixed, zero=True)
    found = CostModel(
        paths=tuple(prices),
        together=tuple(row[0] for row in rows),
        way=way,
        cost=cost,
        power=np.abs(power),
        low=np.where(way > 0, low, -high),
        high=np.where(way > 0, high, -low),
        fixed=fixed,
        budget=0.0,
        times_cost=times_cost,
    )
    least = float(found.spent(found.low))
    own = float(found.spent(np.zeros(len(way))))
    budget = _dollars("budget", own if budget is None else budget)
    if budget < least:
        what = f"expected at least the ${least:,.6g} of the least of every field"
        raise refusal("budget", f"{what}, given ${budget:,.6g}")
    return dataclasses.replace(found, budget=budget)


def _row(
    estimator: Estimator,
    inputs: Any,
    path: str,
    price: Mapping[str, Any],
    bounds: Mapping[str, Sequence[Any]],
    seen: set[str],
) -> tuple[tuple[str, ...], float, float, float, float]:
    """Return the paths that a price moves, the base's cost, the power and the bounds as logs."""
    where = f"price.{path}"
    if not isinstance(price, Mapping):
        raise refusal(where, f"expected a table with {', '.join(KEYS[:3])}, given {shown(price)}")
    for key in price:
        if key not in KEYS:
            raise unknown("", f"{where}.{key}", "key of a price", KEYS)
    for key in ("price", "per"):
        if key not in price:
            raise refusal(where, f"{key} is missing; expected dollars, and for how much of it")
    others = price.get("with", [])
    listed = isinstance(others, Sequence) and not isinstance(others, str)
    if not listed or not all(isinstance(one, str) for one in others):
        raise refusal(f"{where}.with", f"expected a list of paths, given {shown(others)}")
    moved = (path, *others)
    for one in moved:
        _buyable(estimator, inputs, one, seen)
        seen.add(one)
    base, field = float(get_at(inputs, path)), field_at(inputs, path)
    unit = field.metadata["unit"]
    dollars = _dollars(f"{where}.price", price["price"])
    per = parse(price["per"], unit, f"{where}.per")
    power = parse(price.get("power", 1.0), "1", f"{where}.power")
    if per <= 0 or power == 0:
        key, what = ("per", "an amount above 0") if per <= 0 else ("power", "other than 0")
        raise refusal(f"{where}.{key}", f"expected {what}")
    if path not in bounds:
        raise refusal(f"bounds.{path}", "missing; expected the least and the most of it")
    ends = bounds[path]
    if isinstance(ends, str) or not isinstance(ends, Sequence) or len(ends) != 2:
        what = f"expected two values, the least and the most, given {shown(ends)}"
        raise refusal(f"bounds.{path}", what)
    low, high = (
        float(checked_values(parse(end, unit, f"bounds.{path}"), field, f"bounds.{path}"))
        for end in ends
    )
    if not 0 < low <= high:
        raise refusal(f"bounds.{path}", f"expected the least first, above 0, given {shown(ends)}")
    steep = np.log(dollars) + power * np.log([base / per, low / per, high / per])
    if np.any(np.abs(steep) > np.log(MOST)):
        what = f"expected a cost between $1 / {MOST:g} and ${MOST:g} from bound to bound"
        raise refusal(where, what)
    return moved, dollars * (base / per) ** power, power, *np.log([low / base, high / base])


def _buyable(estimator: Estimator, inputs: Any, path: str, seen: set[str]) -> None:
    """Check that a field is given, is priced once, and varies continuously."""
    field = field_at(inputs, path)
    if not is_quantity(field):
        raise refusal(path, "a record, not a number; expected a path of one of its fields")
    given = {known: float(value) for known, _, value in leaves(inputs)}
    if path not in given:
        raise refusal(path, "not given; expected a machine that has it")
    if given[path] <= 0:
        raise refusal(path, "0 in this machine; expected a value above 0 to start from")
    if estimator.lists_anew(path) or field.metadata["whole"]:
        raise refusal(path, "moves in whole steps; expected a field that money moves smoothly")
    if path in seen:
        raise refusal(path, "priced twice; expected it once")


def _dollars(where: str, value: Any, *, zero: bool = False) -> float:
    """Return an amount of money, checked."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    dollars = float(value) if number else np.nan
    if not 0 <= dollars <= MOST or (dollars == 0 and not zero):
        least = "of at least 0" if zero else "above 0"
        what = f"at most {MOST:,.0f} dollars" if dollars > MOST else f"dollars {least}"
        raise refusal(where, f"expected {what}, given {shown(value)}")
    return dollars


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
    legal, kept = len(need), _within_others(task, plans)
    plans, need = {f: c[kept] for f, c in plans.items()}, need[kept]
    low = np.tile(market.low, (len(need), 1))
    needy, power, limit = _limit(task)
    if needy is not None:
        low[:, needy] = np.maximum(low[:, needy], np.log(need / limit) / power + ROUNDING)
    elif limit is not None:
        low[need > limit] = np.inf
    fits = (low <= market.high).all(axis=1) & (market.spent(low) <= market.budget)
    if not fits.any():
        raise _nothing(task, need.min(), needy, low[np.argmin(need)])
    return FeasiblePlans({f: c[fits] for f, c in plans.items()}, low[fits], needy, legal)


def _within_others(task: DesignProblem, plans: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return which plans are within every limit but the first on some machine of two.

    The machines are the least and the most within bounds; results move one way between them.
    """
    market, within = task.market, np.ones(len(next(iter(plans.values()), [0])), bool)
    if not task.searched:
        return within
    ends = [with_plans(task.estimator, market.moved(task.inputs, z[None]), plans)
            for z in (market.low, market.high)]  # fmt: skip
    for limit in task.estimator.limits[1:]:
        name = limit.result
        found = [evaluate_points(task.estimator, task.recipe, end, name)[name] for end in ends]
        within &= np.min(found, axis=0) <= limit.of(task.inputs)
    if not within.any():
        raise InputError("no plan is within every limit on any machine; expected wider limits")
    return within


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
    if not task.searched or not len(z):
        return np.zeros(len(z), np.int64)
    found = best_plans(search_problem(task, z)).plans
    return np.array([plans.row({f: c[i, 0] for f, c in found.items()}) for i in range(len(z))])


def search_problem(task: DesignProblem, z: np.ndarray) -> SearchProblem:
    """Return the search over some machines."""
    return check_search(
        task.estimator, task.inputs, task.recipe, axes={"machine": parameter_columns(task, z)},
        where=task.where, objective=task.name,
    )  # fmt: skip


def parameter_columns(task: DesignProblem, z: np.ndarray) -> dict[str, np.ndarray]:
    """Return the values of every path that a price moves, one column each over the machines."""
    moved = task.market.moved(task.inputs, z)
    return {path: get_at(moved, path) for path in task.market.every}
