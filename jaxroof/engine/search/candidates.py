"""The plans of a problem: listed, constrained, kept for the next question, and sorted by need."""

import dataclasses
import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.engine.search.constraints import Constraint
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Candidates, Estimator, reads
from jaxroof.plan_lists import Rows, distinct_rows
from jaxroof.records import Absent, leaves, replace_at, with_named_absences
from jaxroof.structure import Structure, structure

PLANS, ROWS = 256, 16  # least padded number of plans, and of distinct rows of a part
MOST_BYTES = 1 << 28  # of all lists that are kept; the latest stays, however long it is
# splits evaluated at a time: as many as the cache holds, and no power of two, since rows that lie
# one apart would then fall on the same lines of it
PIECE = 12_000

Found = TypeVar("Found")


class KeptLists:
    """The latest results of functions of hashable arguments, as many as the bytes allow.

    A result knows its ``nbytes``.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.found: OrderedDict[Any, Any] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, function: Callable[..., Found]) -> Callable[..., Found]:
        """Return a function that lists anew only what is not kept."""

        @functools.wraps(function)
        def once(*asked: Any) -> Found:
            key = (function, *asked)
            with self.lock:
                if key in self.found:
                    self.found.move_to_end(key)
                    return cast(Found, self.found[key])
            new = function(*asked)
            with self.lock:
                self.found[key] = new
                while len(self.found) > 1 and self.nbytes > self.most:
                    self.found.popitem(last=False)
            return new

        return once

    @property
    def nbytes(self) -> int:
        """Return the bytes of all lists that are kept."""
        return sum(some.nbytes for some in self.found.values())


kept = KeptLists()


def list_plans(
    estimator: Estimator, inputs: Any, recipe: Any, where: Sequence[Constraint] = ()
) -> Candidates:
    """Return the legal plans that satisfy the constraints, each with all its fields.

    Raises: InputError if the estimator has no plans to list.
    """
    found = plan_product(estimator, inputs, recipe, where)
    return Candidates(found.whole(), found.refused)


def plan_product(
    estimator: Estimator, inputs: Any, recipe: Any, where: Sequence[Constraint] = ()
) -> Candidates:
    """Return the legal plans that satisfy the constraints, as the product that they are.

    Raises: InputError if the estimator has no plans to list.
    """
    if estimator.candidates is None:
        raise InputError(f"{estimator.name or 'estimator'}: has no plans to search; use tabulate")
    known = frozenset(path for path, _, _ in leaves(inputs) if estimator.lists_anew(path))
    return _listed(estimator, recipe, InputsKey.of(inputs, known)).having(where)


class InputsKey(NamedTuple):
    """A hashable form of inputs whose leaves are all numbers, used as a cache key."""

    structure: Structure
    paths: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, inputs: Any, known: frozenset[str]) -> "InputsKey":
        """Return the key of the inputs: their values at the paths in ``known``, 1 elsewhere."""
        found = {path: value if path in known else 1.0 for path, _, value in leaves(inputs)}
        return cls(structure(inputs), tuple(found), floats(found.values()))

    def at(self, values: Mapping[str, Any], known: frozenset[str]) -> "InputsKey":
        """Return the key with new values at those of the given paths that are in ``known``."""
        new = list(self.values)
        for path in values.keys() & known & set(self.paths):
            new[self.paths.index(path)] = float(values[path])
        return self._replace(values=tuple(new))

    def inputs(self) -> Any:
        """Return the inputs that the key stands for."""
        return self.structure.build(self.values)


def floats(values: Iterable[Any]) -> tuple[float, ...]:
    """Return numbers and one-element arrays as floats."""
    return tuple(float(value) for value in values)


class Undeclared(Absent):
    """Placeholder, while plans are listed, for a number that is not declared as structural."""

    def refuse(self, *_: Any) -> Any:
        """Raise an InputError that names the path to declare."""
        what = "the candidates read it, and the estimator does not say so"
        raise refusal(self.path, f"{what}; expected it among structural")


@functools.lru_cache(maxsize=4)
def _listed(estimator: Estimator, recipe: Any, known: InputsKey) -> Candidates:
    assert estimator.candidates is not None
    inputs = known.inputs()
    for path, field, _ in list(leaves(inputs)):
        if not estimator.lists_anew(path):
            inputs = replace_at(inputs, path, Undeclared(path, field, type(inputs)))
    found = estimator.candidates(inputs, recipe)
    who = f"{estimator.name or 'estimator'}: candidates"
    if not isinstance(found, Candidates):
        raise refusal(who, f"a {type(found).__name__}; expected jaxroof.Candidates(plans, refused)")
    fields = estimator.plan_fields
    given = [*found.plans, *found.product]
    for name in set(given) - set(fields):
        raise unknown(f"{who}: column", name, "plan field", fields)
    if set(found.product) - set(fields[len(found.plans) :]):
        last = f"a product of {', '.join(found.product)}"
        raise refusal(who, f"{last}; expected the last plan fields, in order")
    if missing := [field for field in fields if field not in given]:
        each = f"expected one for each plan field: {', '.join(fields)}"
        raise refusal(who, f"no column for {' and '.join(missing)}; {each}")
    whole = {field: np.asarray(found.plans[field]) for field in fields if field in found.plans}
    if len({column.shape for column in whole.values()}) > 1 or next(iter(whole.values())).ndim != 1:
        raise refusal(who, "columns differ in length; expected a number a plan in each")
    for name, column in {**whole, **found.product}.items():
        values = np.asarray(column)
        if values.dtype.kind == "f" and (part := values % 1.0 != 0.0).any():
            raise refusal(who, f"{name}: {values[part][0]:g} of a plan; expected whole numbers")
    plans = {field: column.astype(np.int32) for field, column in whole.items()}
    if not _rises([*plans.values()]):
        order = np.lexsort([*plans.values()][::-1])
        plans = {field: column[order] for field, column in plans.items()}
    free = [field for field in fields if field in found.product]
    product = {field: np.sort(np.asarray(found.product[field], np.int32)) for field in free}
    for column in (*plans.values(), *product.values()):
        column.setflags(write=False)
    return Candidates(plans, found.refused, product, found.usual)


def _rises(columns: Sequence[np.ndarray]) -> bool:
    """Return whether each row is larger than the one before it, by its first different column."""
    equal = np.ones(max(len(columns[0]) - 1, 0), bool)
    for column in columns:
        before, after = column[:-1], column[1:]
        if np.any(equal & (after < before)):
            return False
        equal &= after == before
    return not equal.any()


@dataclasses.dataclass(frozen=True, eq=False)
class SortedPlans:
    """The plans of one problem by increasing need, ties in the order of the plan's fields."""

    plans: Mapping[str, np.ndarray]
    need: np.ndarray
    kinds: Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]  # by which they differ

    def __len__(self) -> int:
        return len(self.need)

    @functools.cached_property
    def split(self) -> np.ndarray:
        """Return a number for each plan; those that differ only in placement or name share it."""
        kinds = self.kinds(self.plans)
        return (
            distinct_rows([*kinds.values()])[1] if kinds is not self.plans else np.arange(len(self))
        )

    def at(self, positions: np.ndarray | slice) -> "SortedPlans":
        """Return the plans at increasing positions."""
        some = {field: column[positions] for field, column in self.plans.items()}
        return SortedPlans(some, self.need[positions], self.kinds)


@dataclasses.dataclass(frozen=True, eq=False)
class PreparedPlans:
    """The plans of several problems: listed, constrained and sorted by need."""

    plans: list[SortedPlans]
    refused: list[Mapping[str, int]]
    every: Mapping[str, np.ndarray]  # the fields of all plans, one problem after another
    made: dict[Any, Any] = dataclasses.field(default_factory=dict)  # of these plans, by what it is

    def once(self, what: Any, make: Callable[[], Found]) -> Found:
        """Return what is made of these plans; it is kept as long as they are."""
        if what not in self.made:
            self.made[what] = make()
        return cast(Found, self.made[what])

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns, and of as many that are made of them."""
        columns = [*self.every.values(), *(some.need for some in self.plans)]
        return 2 * sum(column.nbytes for column in columns)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Return where each problem's plans begin among all, and where the last one's end."""
        return np.cumsum([0, *map(len, self.plans)])

    def at(
        self, positions: np.ndarray, fields: Collection[str] | None = None
    ) -> dict[str, np.ndarray]:
        """Return fields, by default all, of some plans, by their positions among all."""
        return {f: c[positions] for f, c in self.every.items() if fields is None or f in fields}

    def rows_of(self, fields: tuple[str, ...]) -> Rows:
        """Return the distinct rows of some fields over all problems."""

        def rows() -> Rows:
            columns = [self.every[field] for field in fields]
            first, number = distinct_rows(columns, int(self.starts[-1]))
            return Rows(first, number.__getitem__, lambda: number)

        return self.once(fields, rows)

    def rows_of_each(self, fields: tuple[str, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the distinct rows of some fields of each problem: first plans, and numbers."""

        def rows() -> list[tuple[np.ndarray, np.ndarray]]:
            each = (([some.plans[f] for f in fields], len(some)) for some in self.plans)
            return [distinct_rows(*one) for one in each]

        return self.once(("each", fields), rows)


def subset(ready: PreparedPlans, left: Sequence[np.ndarray]) -> PreparedPlans:
    """Return the plans at some positions of each problem, in order."""
    plans = [some.at(here) for some, here in zip(ready.plans, left, strict=True)]
    every = {field: np.concatenate([p.plans[field] for p in plans]) for field in ready.every}
    return PreparedPlans(plans, ready.refused, every)


class NeededPlans(NamedTuple):
    """The plans of one problem in the order of their fields, and what each needs."""

    plans: Candidates
    need: np.ndarray

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns."""
        return self.need.nbytes + sum(column.nbytes for column in self.plans.plans.values())


@kept
def needed_plans(
    estimator: Estimator, recipe: Any, where: tuple[Constraint, ...], asked: InputsKey
) -> NeededPlans:
    """Return the plans of one problem, unsorted; arguments are as in ``prepare_plans``."""
    found = plan_product(estimator, asked.inputs(), recipe, where)
    return NeededPlans(found, needs_of(estimator, recipe, asked.inputs(), found))


@kept
def prepare_plans(
    estimator: Estimator, recipe: Any, where: tuple[Constraint, ...], asked: tuple[InputsKey, ...]
) -> PreparedPlans:
    """Return the sorted plans of several problems; ``asked`` has the key of each.

    A key has 1 for every number that neither the listing nor the need reads. Machines that differ
    only in rates therefore share one cached result.
    """
    found, plans = [needed_plans(estimator, recipe, where, one) for one in asked], []
    for one, some in zip(asked, found, strict=True):
        order = np.argsort(some.need, kind="stable")
        fields = {field: column[order] for field, column in some.plans.whole().items()}
        kinds = functools.partial(estimator.kinds, one.inputs())
        plans.append(SortedPlans(fields, some.need[order], kinds))
    refused = [some.plans.refused for some in found]
    if len(plans) == 1:
        return PreparedPlans(plans, refused, plans[0].plans)
    every = {f: np.concatenate([some.plans[f] for some in plans]) for f in plans[0].plans}
    ready = PreparedPlans(plans, refused, every)
    for q, (start, stop) in enumerate(itertools.pairwise(ready.starts)):
        views = {field: column[start:stop] for field, column in every.items()}
        plans[q] = dataclasses.replace(plans[q], plans=views)  # one copy of each column
    return ready


def read_paths(estimator: Estimator, recipe: Any, inputs: Any) -> frozenset[str]:
    """Return the input paths that the listing of the plans or their need depends on."""
    found = dependencies(estimator, recipe, structure(inputs)).results
    lists = (path for path, _, _ in leaves(inputs) if estimator.lists_anew(path))
    return frozenset(lists) | found.get(estimator.need, frozenset())


def with_plans(estimator: Estimator, inputs: Any, plans: Mapping[str, np.ndarray]) -> Any:
    """Return inputs with plans as columns of numbers."""
    assert estimator.plan is not None
    columns = {field: column.astype(np.float64) for field, column in plans.items()}
    return dataclasses.replace(inputs, plan=estimator.plan(**columns))


def needs_of(estimator: Estimator, recipe: Any, inputs: Any, plans: Candidates) -> np.ndarray:
    """Return the need of each plan of one problem.

    Where it depends on no part, each field of the product has a dimension of its own.
    """
    name = estimator.need
    if not name or plans.size == 0:
        return np.zeros(plans.size)
    alone = estimator.alone.get(name)
    small = executor_of(estimator, recipe, inputs, plans.rows) == NUMPY
    if not small or alone is None or reads(alone):
        every = with_plans(estimator, inputs, plans.whole())
        return evaluate_points(estimator, recipe, every, name)[name]
    product = zip(plans.product, np.ix_(*plans.product.values()), strict=True)
    wide = {field: values[..., None] for field, values in product}
    found, starts = np.empty(plans.shape), range(0, plans.rows, PIECE)

    def piece(start: int) -> Any:
        some = {f: column[start : start + PIECE] for f, column in plans.plans.items()}
        asked = with_named_absences(with_plans(estimator, inputs, some | wide))
        with np.errstate(all="ignore"):
            return estimator.result(name, asked, recipe, {})

    for start, result in zip(starts, by_threads(piece, starts, len(starts)), strict=True):
        np.moveaxis(found[start : start + PIECE], 0, -1)[...] = result
    return found.ravel()
