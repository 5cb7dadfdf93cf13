"""The cost of a machine: the prices of its fields, parsed and checked."""

import dataclasses
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.sensitivity.moved_inputs import scale_parameters
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import checked_values, field_at, get_at, is_quantity, leaves
from jaxroof.units import parse

KEYS = ("price", "per", "power", "with")  # allowed in one price
MOST = 1e12  # dollars; above this a cent is lost to rounding


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
