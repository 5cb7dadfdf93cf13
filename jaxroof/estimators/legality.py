"""Rules for legal plans, and plans listed under them: columns of whole numbers, refusals counted.

A rule takes the inputs and plan fields by name and uses only %, //, comparisons, & and |.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from jaxroof.estimator import reads
from jaxroof.limits import check_memory, counted
from jaxroof.records import Number, quantity

POWER_OF_TWO = 2.0**40  # every power of two that occurs here divides it


@dataclasses.dataclass(frozen=True)
class Rule:
    """One reason to refuse a plan: its verdict in the report, its predicate and its messages."""

    name: str
    holds: Callable[..., Any]
    words: str  # the plans that it refuses, or those that it expects
    says: str = ""  # the verdict of a report, a sentence
    fact: str = ""  # the number that decides, such as "the model has {heads:.0f} heads"

    def allows(self, inputs: Any, plan: Mapping[str, Any]) -> Any:
        """Return whether the rule holds for plan fields; those that it does not read are free."""
        return self.holds(inputs, **{field: plan[field] for field in reads(self.holds)})


Flag = bool | Number  # an array of booleans
Made = TypeVar("Made", bound=type)


def with_verdicts(rules: Iterable[Rule], **more: str) -> Callable[[Made], Made]:
    """Return what adds to a class a field for every rule, for more verdicts, and for all of them.

    The last is ``feasible``, where there are more than the rules.
    """
    says = {rule.name: rule.says for rule in rules} | more
    says |= {"feasible": "Every verdict holds."} if more else {}

    def added(cls: Made) -> Made:
        cls.__annotations__ |= dict.fromkeys(says, Flag)
        for name, said in says.items():
            setattr(cls, name, quantity("1", said))
        return cls

    return added


def verdicts(
    every: Iterable[str], rules: Iterable[Rule], inputs: Any, **more: Any
) -> dict[str, Any]:
    """Return whether each rule holds for the plan of the inputs, more verdicts, and all of them.

    A rule that is not among ``rules`` holds.
    """
    found: dict[str, Any] = dict.fromkeys(every, True)
    found |= {rule.name: rule.allows(inputs, vars(inputs.plan)) for rule in rules} | more
    return {**found, "feasible": functools.reduce(operator.and_, found.values())}


def reasons_of(rules: Iterable[Rule]) -> Callable[[Any], dict[str, str]]:
    """Return a function of the recipe that says what each rule refuses, in words."""
    return lambda _: {rule.name: rule.words for rule in rules}


def pipeline_divides_layers(inputs: Any, *, pipeline: Any) -> Any:
    """Return whether every stage gets the same whole number of layers."""
    return inputs.model.layers % pipeline == 0


def data_divides_batch(inputs: Any, *, data: Any) -> Any:
    """Return whether every data rank gets the same whole number of sequences."""
    return inputs.global_batch % data == 0


# ---- Lists of plans -----------------------------------------------------------------------------

Columns = Mapping[str, np.ndarray]
ONE = np.array([1])
FEWER = "expected numbers with fewer divisors: fewer accelerators, a smaller batch"
PLAN = 500  # bytes of a plan while plans are listed, sorted and compared


def divisors(number: int) -> np.ndarray:
    """Return the positive divisors of a whole number, ascending.

    >>> divisors(12).tolist()
    [1, 2, 3, 4, 6, 12]
    """
    low = np.arange(1, int(number**0.5) + 1)
    low = low[number % low == 0]
    return np.unique(np.concatenate([low, number // low]))


def cross(rows: Columns, name: str, values: np.ndarray) -> Columns:
    """Return the product of the rows with all values of a new column.

    Raises: TooLarge where the product does not fit in memory.
    """
    count = len(next(iter(rows.values())))
    tried = counted(count * len(values), "plan")
    check_memory(f"{tried} to try", PLAN * count * len(values), FEWER)
    crossed = {field: np.repeat(column, len(values)) for field, column in rows.items()}
    return {**crossed, name: np.tile(values, count)}


def rows_where(rows: Columns, mask: np.ndarray) -> Columns:
    """Return the rows of a mask, or of an order."""
    return {field: column[mask] for field, column in rows.items()}


class Filter:
    """Rules that each apply once their fields are known, and the rows that each refused."""

    def __init__(self, inputs: Any, rules: Iterable[Rule]) -> None:
        self.inputs, self.left = inputs, list(rules)
        self.refused = {rule.name: 0 for rule in self.left}

    def keep(self, rows: Columns) -> Columns:
        """Return the rows that pass every rule whose fields are known now; count the others."""
        known = [rule for rule in self.left if set(reads(rule.holds)) <= set(rows)]
        for rule in known:
            self.left.remove(rule)
            allowed = np.asarray(rule.allows(self.inputs, rows))
            if not allowed.all():
                allowed = np.broadcast_to(allowed, len(next(iter(rows.values()))))
                self.refused[rule.name] += int(np.sum(~allowed))
                rows = rows_where(rows, allowed)
        return rows
