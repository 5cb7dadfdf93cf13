"""What an estimator lists: its legal plans, their distinct rows, and the sizes of its programs."""

import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.limits import check_memory, counted

PLAN = 8  # bytes of a field of a plan, with its copy in another order
FEWER = "expected rules that leave fewer plans, or fewer accelerators"


LOOKUP = 1 << 20  # entries of a table that is looked up instead of sorting


class Rows(NamedTuple):
    """The distinct rows of some fields of plans."""

    first: np.ndarray  # position of the first plan of each row
    number: Callable[[Any], np.ndarray]  # positions of plans -> their rows
    every: Callable[[], np.ndarray]  # the rows of all plans


def distinct_rows(
    columns: Sequence[np.ndarray], length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (first index of each distinct row, index of the distinct row of each row).

    Rows of whole numbers are numbered as they first appear. ``length`` is needed without columns.

    >>> first, number = distinct_rows([np.array([4, 2, 4]), np.array([1, 1, 1])])
    >>> first.tolist(), number.tolist()
    ([0, 1], [0, 1, 0])
    """
    count = len(columns[0]) if length is None else length
    different, number = min(count, 1), np.zeros(count, np.int64)
    for column in columns:
        others, index = _renumbered(column)
        # renumber after each column, so that the products of counts stay small
        different, number = _renumbered(number * others + index)
    first = np.zeros(different if count else 0, np.int64)
    first[number[::-1]] = np.arange(count)[::-1]  # the first row is written last
    order = np.argsort(first)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    return first[order], rank[number]


def _renumbered(values: np.ndarray) -> tuple[int, np.ndarray]:
    """Return how many different whole numbers there are, and the rank of each."""
    most = int(values.max(initial=0))
    if most > 4 * len(values) + LOOKUP:  # too sparse for a table of all numbers
        different, index = np.unique(values, return_inverse=True)
        return len(different), index
    there = np.zeros(most + 1, np.int64)
    there[values] = 1
    rank = np.cumsum(there) - 1
    return int(rank[-1]) + 1, rank[values]


class Candidates(NamedTuple):
    """The legal plans, one column of whole numbers per field, and the counts of refused plans.

    ``product`` has the values of the last plan fields that are free: every combination of them goes
    with every plan, in the order of the fields. ``usual`` are values of fields of which a search
    tries others only where a constraint names the field.

    >>> found = Candidates({"data": np.array([1, 2])}, {}, {"stage": np.array([0, 1, 3])})
    >>> found.size, found.at(np.array([1, 5]))
    (6, {'data': array([1, 2]), 'stage': array([1, 3])})
    """

    plans: Mapping[str, np.ndarray]
    refused: Mapping[str, int]
    product: Mapping[str, np.ndarray] = types.MappingProxyType({})
    usual: Mapping[str, int] = types.MappingProxyType({})

    @property
    def rows(self) -> int:
        """Return the number of plans without the product."""
        return len(next(iter(self.plans.values())))

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the number of rows, and of values of each field of the product."""
        return (self.rows, *map(len, self.product.values()))

    @property
    def size(self) -> int:
        """Return the number of plans."""
        return math.prod(self.shape)

    def at(
        self, positions: np.ndarray, fields: Collection[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Return fields (by default all) of some plans, counted in the order of the fields."""
        row, *places = np.unravel_index(positions, self.shape)
        at = {**dict.fromkeys(self.plans, row), **dict(zip(self.product, places, strict=True))}
        columns = {**self.plans, **self.product}
        return {f: columns[f][at[f]] for f in columns if fields is None or f in fields}

    def _satisfying(self, rules: Iterable[Any]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return which rows satisfy constraints, and which values of each field of the product."""
        masks = {field: np.ones(len(values), bool) for field, values in self.product.items()}
        kept = np.ones(self.rows, bool)
        for rule in rules:
            if rule.field in masks:
                masks[rule.field] &= rule.holds(self.product)
            else:
                kept &= rule.holds(self.plans)
        return kept, masks

    def positions(self, rules: Iterable[Any]) -> np.ndarray:
        """Return the positions of the plans that satisfy constraints."""
        kept, masks = self._satisfying(rules)
        places = np.ix_(np.flatnonzero(kept), *map(np.flatnonzero, masks.values()))
        return np.ravel_multi_index(np.broadcast_arrays(*places), self.shape).ravel()

    def rows_of(self, fields: Collection[str]) -> "Rows":
        """Return the distinct rows of some fields."""
        first, number = distinct_rows([c for f, c in self.plans.items() if f in fields], self.rows)
        counts = [len(values) if f in fields else 1 for f, values in self.product.items()]
        wide = np.broadcast_arrays(*np.ix_(first, *map(np.arange, counts)))
        inner = math.prod(self.shape[1:])
        steps = [math.prod(self.shape[at + 2 :]) for at in range(len(counts))]

        def of_every() -> np.ndarray:
            found = number.reshape(-1, *(1 for _ in counts))
            for axis, count in enumerate(counts):
                if count > 1:
                    places = np.arange(count, dtype=np.int32)
                    found = found * count + places.reshape(-1, *(1 for _ in counts[axis + 1 :]))
            return np.broadcast_to(found, self.shape).ravel()

        def number_of(positions: np.ndarray) -> np.ndarray:
            found = number[positions // inner]
            for count, step, length in zip(counts, steps, self.shape[1:], strict=True):
                if count > 1:
                    found = found * count + (positions // step % length).astype(np.int32)
            return found

        return Rows(np.ravel_multi_index(wide, self.shape).ravel(), number_of, of_every)

    def whole(self) -> dict[str, np.ndarray]:
        """Return the fields of all plans."""
        bytes_of_all = PLAN * (len(self.plans) + len(self.product)) * self.size
        check_memory(counted(self.size, "plan"), bytes_of_all, FEWER)
        inner = math.prod(self.shape[1:])
        found = {field: np.repeat(column, inner) for field, column in self.plans.items()}
        wide = np.meshgrid(*self.product.values(), indexing="ij")
        free = zip(self.product, wide, strict=True)
        return {**found, **{field: np.tile(one.ravel(), self.rows) for field, one in free}}

    def having(self, rules: Sequence[Any]) -> "Candidates":
        """Return the plans that constraints leave, and how many they refuse."""
        if unnamed := self.usual.keys() - {rule.field for rule in rules}:
            usual = {field: np.array([self.usual[field]], np.int32) for field in unnamed}
            product = {field: usual.get(field, some) for field, some in self.product.items()}
            kept = np.ones(self.rows, bool)
            for field in unnamed & self.plans.keys():
                kept &= self.plans[field] == self.usual[field]
            plans = {field: column[kept] for field, column in self.plans.items()}
            return Candidates(plans, self.refused, product).having(rules)
        if not rules:
            return self
        kept, masks = self._satisfying(rules)
        product = {field: values[masks[field]] for field, values in self.product.items()}
        plans = {field: column[kept] for field, column in self.plans.items()}
        left = Candidates(plans, self.refused, product)
        return left._replace(refused={**self.refused, "where": self.size - left.size})


class ProgramSizes(NamedTuple):
    """The program sizes that points need, if an estimator's loop lengths depend on the inputs."""

    of: Callable[[Any], np.ndarray]  # inputs -> the sizes that each point needs, [points, sizes]
    fit: Callable[[Any, Any], Any]  # recipe, largest value of each size -> a recipe that fits
    exact: Callable[[Any, Any], Any]  # the same for these points only: loops of fixed length
    batch: Callable[[Any], int]  # recipe -> points of one call, enough to occupy a core
