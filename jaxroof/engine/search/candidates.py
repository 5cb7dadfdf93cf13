"""The plans of a problem: listed, constrained, sorted by need, and reduced to distinct rows."""

import dataclasses
import functools
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from jaxroof.engine.grid.chunks import padded_size
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, by_threads, executor_of
from jaxroof.engine.search.constraints import Constraint
from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Candidates, Estimator, reads
from jaxroof.records import Absent, leaves, replace_at, with_named_absences
from jaxroof.structure import Structure, structure

PLANS, ROWS = 256, 16  # least padded number of plans, and of distinct rows of a part
MOST_BYTES = 1 << 28  # of all lists that are kept; the latest stays, however long it is
# splits evaluated at a time: as many as the cache holds, and no power of two, since rows that lie
# one apart would then fall on the same lines of it
PIECE = 12_000


class Sized(Protocol):
    """A list of plans that knows its bytes."""

    @property
    def nbytes(self) -> int:
        """Return the bytes that it keeps."""


Found = TypeVar("Found", bound=Sized)


class KeptLists:
    """The latest results of functions of hashable arguments, as many as the bytes allow."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.found: OrderedDict[Any, Sized] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, function: Callable[..., Found]) -> Callable[..., Found]:
        """Return a function that lists anew only what is not kept."""

        @functools.wraps(function)
        def once(*asked: Any) -> Found:
            key = (function, *asked)
            with self.lock:
                if key in self.found:
                    self.found.move_to_end(key)
                    return self.found[key]  # type: ignore[return-value]
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
    plans = {field: column.astype(np.int32) for field, column in whole.items()}
    free = [field for field in fields if field in found.product]
    product = {field: np.asarray(found.product[field], np.int32) for field in free}
    for column in (*plans.values(), *product.values()):
        column.setflags(write=False)
    return Candidates(plans, found.refused, product)


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
        if kinds is self.plans:  # every plan is a split of its own
            return np.arange(len(self), dtype=np.int32)
        return distinct_rows([*kinds.values()])[1]

    def at(self, positions: np.ndarray | slice) -> "SortedPlans":
        """Return the plans at increasing positions."""
        some = {field: column[positions] for field, column in self.plans.items()}
        return SortedPlans(some, self.need[positions], self.kinds)


def sorted_by_need(
    estimator: Estimator, inputs: Any, plans: Candidates, need: np.ndarray
) -> SortedPlans:
    """Return the plans of one problem written out, sorted by their known need."""
    fields = plans.whole()
    order = _order(fields, need)
    ordered = {field: column[order] for field, column in fields.items()}
    return SortedPlans(ordered, need[order], functools.partial(estimator.kinds, inputs))


def _order(plans: Mapping[str, np.ndarray], need: np.ndarray) -> np.ndarray:
    """Return the order of plans by need, ties in the order of the fields."""
    fields = [plans[field] for field in plans]
    if _rises(fields):
        return np.argsort(need, kind="stable")
    return np.lexsort([*reversed(fields), need])


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
class PreparedPlans:
    """The plans of several problems: listed, constrained and sorted by need."""

    plans: list[SortedPlans]
    refused: list[Mapping[str, int]]
    every: Mapping[str, np.ndarray]  # the fields of all plans, one problem after another
    made: dict[Any, Any] = dataclasses.field(default_factory=dict)  # of these plans, by what it is

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        """Return what is made of these plans; it is kept as long as they are."""
        if what not in self.made:
            self.made[what] = make()
        return self.made[what]

    @property
    def nbytes(self) -> int:
        """Return the bytes of the columns, and of as many that are made of them."""
        columns = [*self.every.values(), *(some.need for some in self.plans)]
        return 2 * sum(column.nbytes for column in columns)

    @functools.cached_property
    def starts(self) -> np.ndarray:
        """Return where each problem's plans begin among all, and where the last one's end."""
        return np.cumsum([0, *map(len, self.plans)])


def subset(ready: PreparedPlans, left: Sequence[np.ndarray]) -> PreparedPlans:
    """Return the plans at some positions of each problem, in order."""
    plans = [some.at(here) for some, here in zip(ready.plans, left, strict=True)]
    every = {field: np.concatenate([p.plans[field] for p in plans]) for field in ready.every}
    return PreparedPlans(plans, ready.refused, every)


@dataclasses.dataclass(frozen=True, eq=False)
class NeededPlans:
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
    inputs = asked.inputs()
    found = plan_product(estimator, inputs, recipe, where)
    columns = [*found.plans.values()]
    if not _rises(columns):
        order = np.lexsort(columns[::-1])
        found = found._replace(plans={f: column[order] for f, column in found.plans.items()})
    return NeededPlans(found, needs_of(estimator, recipe, inputs, found))


class ProductRows(NamedTuple):
    """The distinct rows of some fields of plans that are a product."""

    first: np.ndarray  # position of the first plan of each row
    number: Callable[[np.ndarray], np.ndarray]  # positions of plans -> their rows


def product_rows(plans: Candidates, fields: Sequence[str]) -> ProductRows:
    """Return the distinct rows of some fields."""
    own = [plans.plans[field] for field in fields if field in plans.plans]
    none = np.zeros(min(plans.rows, 1), int), np.zeros(plans.rows, np.int32)
    first, number = distinct_rows(own) if own else none
    counts = [len(values) if f in fields else 1 for f, values in plans.product.items()]
    places = np.ix_(first, *map(np.arange, counts))
    wide = np.broadcast_arrays(*places)
    inner = math.prod(plans.shape[1:])
    steps = [math.prod(plans.shape[at + 2 :]) for at in range(len(counts))]

    def number_of(positions: np.ndarray) -> np.ndarray:
        found = number[positions // inner]
        for count, step, length in zip(counts, steps, plans.shape[1:], strict=True):
            if count > 1:
                found = found * count + (positions // step % length).astype(np.int32)
        return found

    return ProductRows(np.ravel_multi_index(wide, plans.shape).ravel(), number_of)


@kept
def prepare_plans(
    estimator: Estimator, recipe: Any, where: tuple[Constraint, ...], asked: tuple[InputsKey, ...]
) -> PreparedPlans:
    """Return the sorted plans of several problems; ``asked`` has the key of each.

    A key has 1 for every number that neither the listing nor the need reads. Machines that differ
    only in rates therefore share one cached result.
    """
    needed = [needed_plans(estimator, recipe, where, one) for one in asked]
    plans = [
        sorted_by_need(estimator, numbers.inputs(), some.plans, some.need)
        for numbers, some in zip(asked, needed, strict=True)
    ]
    refused = [some.plans.refused for some in needed]
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


class Sizes(NamedTuple):
    """The padded sizes of packed plans; calls of equal sizes share one compiled program."""

    questions: int
    plans: int
    rows: tuple[int, ...]  # distinct rows of each part


class PartRows(NamedTuple):
    """The distinct rows of the plan fields that a part reads, and the row of each plan."""

    first: np.ndarray
    number: np.ndarray


def distinct_part_rows(
    estimator: Estimator, ready: PreparedPlans
) -> tuple[dict[str, PartRows], Sizes]:
    """Return the distinct rows of each part over several problems, and the sizes to pad to."""
    found: tuple[dict[str, PartRows], Sizes] = ready.once(
        estimator, functools.partial(_part_rows, estimator, ready)
    )
    return found


def _part_rows(estimator: Estimator, ready: PreparedPlans) -> tuple[dict[str, PartRows], Sizes]:
    rows = {
        name: PartRows(*distinct_rows([ready.every[f] for f in reads(part)]))
        for name, part in estimator.parts.items()
    }
    longest = max(len(q) for q in ready.plans)
    counts = tuple(padded_size(len(r.first), ROWS) for r in rows.values())
    return rows, Sizes(padded_size(len(ready.plans), 1), padded_size(longest, PLANS), counts)


def shared_sizes(estimator: Estimator, groups: Iterable[PreparedPlans]) -> Sizes:
    """Return sizes that hold the plans of each group, so that all share one compiled program."""
    questions, plans, rows = zip(
        *(distinct_part_rows(estimator, g)[1] for g in groups), strict=True
    )
    return Sizes(max(questions), max(plans), tuple(map(max, zip(*rows, strict=True))))


def needs_of(estimator: Estimator, recipe: Any, inputs: Any, plans: Candidates) -> np.ndarray:
    """Return the need of each plan of one problem, split by split where it depends on no part."""
    if not estimator.need or plans.size == 0:
        return np.zeros(plans.size)
    alone = estimator.alone.get(estimator.need)
    small = executor_of(estimator, recipe, inputs, plans.rows) == NUMPY
    if small and alone is not None and not reads(alone):
        return by_split(functools.partial(_need, estimator, recipe, inputs), plans)
    every = with_plans(estimator, inputs, plans.whole())
    return evaluate_points(estimator, recipe, every, estimator.need)[estimator.need]


def with_plans(estimator: Estimator, inputs: Any, plans: Mapping[str, np.ndarray]) -> Any:
    """Return inputs with plans as columns of numbers."""
    assert estimator.plan is not None
    columns = {field: column.astype(np.float64) for field, column in plans.items()}
    return dataclasses.replace(inputs, plan=estimator.plan(**columns))


def _need(
    estimator: Estimator, recipe: Any, inputs: Any, fields: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the need of columns of plans, which broadcast."""
    asked = with_named_absences(with_plans(estimator, inputs, fields))
    with np.errstate(all="ignore"):
        return np.asarray(estimator.result(estimator.need, asked, recipe, {}))


def by_split(function: Callable[[dict[str, np.ndarray]], Any], plans: Candidates) -> np.ndarray:
    """Return a function of all plans, each field of their product along a dimension of its own.

    Arguments: ``function`` of float64 columns that broadcast.
    """
    values = (column.astype(np.float64) for column in plans.product.values())
    wide = {f: v[..., None] for f, v in zip(plans.product, np.ix_(*values), strict=True)}
    found, starts = np.empty(plans.shape), range(0, plans.rows, PIECE)

    def piece(start: int) -> Any:
        some = {f: column[start : start + PIECE] for f, column in plans.plans.items()}
        return function({f: column.astype(np.float64) for f, column in some.items()} | wide)

    for start, result in zip(starts, by_threads(piece, starts, len(starts)), strict=True):
        here = found[start : start + PIECE]
        np.moveaxis(here, 0, -1)[...] = result
    return found.ravel()
