"""The interface between an estimator and the engine."""

import dataclasses
import functools
import importlib
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dependence import has_value
from jaxroof.errors import InputError, NotGiven, refusal
from jaxroof.lazy_jax import namespace
from jaxroof.missing import naming_all
from jaxroof.plan_lists import Candidates as Candidates
from jaxroof.plan_lists import ProgramSizes as ProgramSizes
from jaxroof.records import get_at, leaves, value_or, with_named_absences
from jaxroof.settings import carried, choices_of, choose
from jaxroof.structure import map_numbers, results

FEWEST = 16  # smallest number of placements that a program is compiled for
TIE = 1e-12  # relative; on a tie the plan that needs less memory wins, then the smaller
FAR = 1e300  # larger than any objective; finite, so that the arithmetic has no infinities


class Column(NamedTuple):
    """Values of a detail; its dimensions come after those that the inputs broadcast over."""

    values: Any
    dims: tuple[str, ...] = ()
    about: Mapping[str, Any] | None = None  # attributes, by default those of the field it fills
    label: bool = False  # whether it names the places along a dimension


class Rows(NamedTuple):
    """What a detail gives: columns by name, and attributes of the whole."""

    columns: Mapping[str, Column]
    attrs: Mapping[str, Any] = {}


@dataclasses.dataclass(frozen=True, eq=False)
class Detail:
    """Results along a further dimension, such as stage or operation, of one plan or of many.

    ``rows`` is a pure function of inputs, recipe and its own keyword-only options.
    """

    rows: Callable[..., Rows]
    report: tuple[type[Any], ...] = ()  # the records whose fields its columns are
    # raises InputError in words for inputs and a recipe that it does not take
    check: Callable[[Any, Any], None] | None = None
    one_by_one: bool = False  # whether ``rows`` takes numbers alone, not arrays


def details_in(module: str) -> Callable[[], Mapping[str, Detail]]:
    """Return a function that reads ``DETAILS`` of a module, which is imported when it is asked."""

    def details() -> Mapping[str, Detail]:
        found: Mapping[str, Detail] = importlib.import_module(module).DETAILS
        return found

    return details


class Limit(NamedTuple):
    """A result that must not exceed a bound.

    The bound is a path of the inputs, whose value None is no limit, or a function of the inputs.
    A limit that nobody can ``relax``, such as a queue that must not grow, holds by its nature.
    """

    result: str
    bound: str | Callable[[Any], Any]
    relax: bool = True

    def of(self, inputs: Any) -> Any:
        """Return the bound, infinite if there is none."""
        if isinstance(self.bound, str):
            return value_or(get_at(inputs, self.bound), np.inf)
        return self.bound(inputs)


@dataclasses.dataclass(frozen=True, eq=False)
class Estimator:
    """A pure function from a record of inputs to a record of results, in two levels.

    ``evaluate(inputs, recipe)`` first calls every part, then ``step(inputs, recipe, **parts)``. A
    part gets the inputs without their plan, and the plan fields that its keyword-only arguments
    name. It sees no other plan field, so the engine may evaluate it once for each distinct set of
    their values. An estimator of one function is ``Estimator(step=f)``; the other fields are for
    estimators that are searched.
    """

    step: Callable[..., Any]
    inputs: type[Any]
    plan: type[Any] | None = None  # the record of the fields that a search chooses
    recipe: Any = None  # the default recipe: a frozen, hashable record of structural choices
    parts: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    candidates: Callable[[Any, Any], Candidates] | None = None
    # paths that `candidates` reads: along such an axis plans are listed again
    structural: tuple[str, ...] = ()
    objective: str = ""  # the result that a search optimises by default
    need: str = ""  # the result that must not exceed ...
    limit: Callable[[Any], Any] | None = None  # ... this function of the inputs without their plan
    # every limit, where there are several; the first is ``need`` and ``limit``, and no rate of a
    # machine should move it: plans are sorted by it once. Others may depend on the machine
    limits: tuple[Limit, ...] = ()
    # results that take less without the others: name -> function of inputs, recipe and, by name,
    # the parts that it reads
    alone: Mapping[str, Callable[..., Any]] = dataclasses.field(default_factory=dict)
    # (inputs, recipe, and parts by name) -> what no ``objective`` of the inputs is below
    lower_bound: Callable[..., Any] | None = None
    # plan fields that place the split on the machine, in printing order; `need` does not change
    placement: tuple[str, ...] = ()
    # plan fields that do not apply to a recipe: they are 1 in every plan, and not printed
    unused: Callable[[Any], Iterable[str]] | None = None
    machine: str = "system"  # path of the machine in the inputs: a record or a dotted path
    # every placement of each plan of the inputs, one column per placement field,
    # [*plans, placements]; a plan that gives no placement gets the best one
    placements: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # inputs and columns of plans -> columns that are equal where plans are one choice under
    # several names; the best of them stands for all
    alike: Callable[[Any, Mapping[str, np.ndarray]], Mapping[str, np.ndarray]] | None = None
    # recipe -> what each rule of `candidates` refuses, in words, by the name of the rule
    reasons: Callable[[Any], Mapping[str, str]] | None = None
    # inputs, recipe and fields of a plan -> why no legal plan has them, in words; empty if unknown
    why_not: Callable[[Any, Any, Mapping[str, int]], str] | None = None
    # fields that a plan of the user's has so, unless it or a constraint says otherwise
    usual: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # results of the best plan -> share by which others are too close to it to tell apart
    close: Callable[[Any], float] | None = None
    # every plan that a study tries, legal or not; by default the legal plans
    tried: Callable[[Any, Any], Mapping[str, np.ndarray]] | None = None
    # numbers of the inputs that, if given, must equal the product of these plan fields
    products: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    sizing: ProgramSizes | None = None
    name: str = ""
    # path of a record -> function that reads it by name; it may return (record, choices)
    names: Mapping[str, Callable[[str], Any]] = dataclasses.field(default_factory=dict)
    # paths that may stand without the name of their record: short name -> path
    shorthand: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # (settings, axes, machine) -> settings and axes without names that stand for several fields
    expand: Callable[..., tuple[dict[str, Any], dict[str, Any]]] | None = None
    stands: tuple[str, ...] = ()  # those names
    # (inputs, recipe) -> raises InputError where they contradict themselves
    check: Callable[[Any, Any], None] | None = None
    # results along a further dimension, by name; see ``details_in``
    details: Callable[[], Mapping[str, Detail]] = dict
    # (inputs, recipe) -> parts of the objective by displayed name, finer than those of the report
    contributions: Callable[[Any, Any], Mapping[str, Any]] | None = None
    # reasonable inputs, for help texts and for the tests that every estimator must pass
    example: Callable[[], Any] | None = None
    about: str = ""  # one sentence: the question it answers

    def __post_init__(self) -> None:
        if self.limits:
            object.__setattr__(self, "need", self.limits[0].result)
            object.__setattr__(self, "limit", self.limits[0].of)

    @property
    def plan_fields(self) -> tuple[str, ...]:
        """Return the names of the plan fields, none for an estimator without plans."""
        return tuple(f.name for f in dataclasses.fields(self.plan)) if self.plan else ()

    @property
    def short_names(self) -> dict[str, str]:
        """Return other names that users may type for plan fields: short name -> field."""
        named: dict[str, str] = {}
        for key in ("symbol", "words"):
            for field in dataclasses.fields(self.plan) if self.plan else ():
                if field.metadata[key] and (key == "symbol" or field.name not in self.placement):
                    named.setdefault(field.metadata[key], field.name)
        return {short: name for short, name in named.items() if short not in self.plan_fields}

    @property
    def shortest(self) -> dict[str, str]:
        """Return the shortest name of each plan field."""
        named = {field: short for short, field in reversed(self.short_names.items())}
        return {field: named.get(field, field) for field in self.plan_fields}

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """Return the words that the numbers of plan fields stand for: field -> words from 0."""
        fields = dataclasses.fields(self.plan) if self.plan else ()
        return {f.name: f.metadata["flags"] for f in fields if "flags" in f.metadata}

    @property
    def labelled(self) -> bool:
        """Return whether a machine by name has the capacity of its label, not that reported."""
        return getattr(self.names.get(self.machine), "keywords", {}).get("reported") is False

    def kinds(
        self, inputs: Any, plans: Mapping[str, np.ndarray], placed: bool = False
    ) -> Mapping[str, np.ndarray]:
        """Return columns that are equal where plans differ only in name or in placement.

        With ``placed`` the placement tells plans apart too.
        """
        kinds = plans if self.alike is None else self.alike(inputs, plans)
        if placed or not self.placement:
            return kinds
        return {field: column for field, column in kinds.items() if field not in self.placement}

    def unused_fields(self, recipe: Any) -> list[str]:
        """Return the plan fields that do not apply to a recipe, sorted."""
        return sorted(self.unused(recipe)) if self.unused else []

    def lists_anew(self, path: str) -> bool:
        """Return whether ``candidates`` reads the value at a dotted path."""
        return any(path == head or path.startswith(f"{head}.") for head in self.structural)

    def recipe_of(self, inputs: Any, recipe: Any = None, given: Collection[str] = ()) -> Any:
        """Return a recipe, or the estimator's with the choices that the records of inputs carry.

        Choices of records at the paths ``given`` are left out.
        """
        if recipe is not None or self.recipe is None:
            return recipe
        known, found = choices_of(self.recipe), self.recipe
        for path in self.names:
            held = {} if path in given else carried(getattr(inputs, path, None))
            found = choose(found, {name: value for name, value in held.items() if name in known})
        return found

    def evaluate(self, inputs: Any, recipe: Any = None) -> Any:
        """Return the results for inputs whose leaves broadcast: one plan, or a million.

        A plan without a placement gets the best one. Raises: InputError that names the needed
        numbers that are missing, or a number that contradicts the plan.

        >>> square = Estimator(step=lambda inputs, recipe: inputs * inputs, inputs=float)
        >>> float(square.evaluate(3.0))
        9.0
        """
        if self.plan is not None and inputs.plan is None:
            such = f"plan.{self.plan_fields[0]}"
            raise NotGiven(f"plan: not given; expected its fields, such as {such}", ["plan"])
        self.refuse_contradictions(inputs)
        return self.evaluate_checked(inputs, recipe)

    def evaluate_checked(self, inputs: Any, recipe: Any = None) -> Any:
        """Return the same for inputs that were checked, or that stand for no plan at all."""
        recipe = self.sized_recipe(inputs, self.recipe_of(inputs, recipe))
        with naming_all(self, inputs, recipe), np.errstate(all="ignore"):
            inputs = with_named_absences(self.placed(inputs, recipe))
            return self.report(inputs, recipe, self.evaluate_parts(inputs, recipe))

    def report(self, inputs: Any, recipe: Any, parts: Mapping[str, Any]) -> Any:
        """Return all results of a step; a plan beyond a further limit is not ``feasible``."""
        report = self.step(inputs, recipe, **parts)
        if len(self.limits) < 2 or not hasattr(report, "feasible"):
            return report
        held = report.feasible & self.within(inputs, results(report))
        return dataclasses.replace(report, feasible=held)

    def within(self, inputs: Any, found: Mapping[str, Any]) -> Any:
        """Return where results are within every limit but the first."""
        held = np.True_
        for limit in self.limits[1:]:
            held = held & (found[limit.result] <= limit.of(inputs))
        return held

    def sized_recipe(self, inputs: Any, recipe: Any) -> Any:
        """Return a recipe whose program fits the inputs; it is unchanged if they are traced."""
        if self.sizing is None:
            return recipe
        try:
            most = self.sizing.of(inputs).max(axis=0)
        except TypeError:
            if all(has_value(value) for _, _, value in leaves(inputs)):
                raise
            return recipe  # the tracing caller chooses the size
        return self.sizing.exact(self.sizing.fit(recipe, most), most)

    def evaluate_parts(self, inputs: Any, recipe: Any) -> dict[str, Any]:
        """Return the results of every part; each gets only the plan fields that it names."""
        if not self.parts:
            return {}
        inputs = with_named_absences(inputs)
        bare = dataclasses.replace(inputs, plan=None)
        return {
            name: part(bare, recipe, **{f: getattr(inputs.plan, f) for f in reads(part)})
            for name, part in self.parts.items()
        }

    def result(self, name: str, inputs: Any, recipe: Any, parts: Mapping[str, Any]) -> Any:
        """Return one result of a step whose parts are evaluated."""
        only = self.alone.get(name)
        if only is None:
            return getattr(self.step(inputs, recipe, **parts), name)
        return only(inputs, recipe, **{part: parts[part] for part in reads(only)})

    def aim(
        self, name: str, sign: float, inputs: Any, recipe: Any, parts: Mapping[str, Any]
    ) -> Any:
        """Return what a search minimises: sign x a result, far where a limit is exceeded.

        The first limit is left out: what fits it is a prefix of the plans, sorted by their need.
        """
        if len(self.limits) < 2:
            return sign * self.result(name, inputs, recipe, parts)
        found = results(self.step(inputs, recipe, **parts))
        within, value = self.within(inputs, found), sign * found[name]
        return namespace(within, value).where(within, value, FAR)

    def contradictions(self, inputs: Any) -> np.ndarray:
        """Return where the plan contradicts a number in ``products``; traced values pass."""
        plan, found = getattr(inputs, "plan", None), np.zeros((), bool)
        for path, fields in self.products.items() if plan is not None else ():
            number = value_or(get_at(inputs, path), None)
            if number is None:
                continue
            degrees = [getattr(plan, field) for field in fields]
            if all(has_value(value) for value in (number, *degrees)):
                found = found | (np.asarray(number) != math.prod(map(np.asarray, degrees)))
        return np.asarray(found)

    def refuse_contradictions(self, inputs: Any) -> None:
        """Check that the plan agrees with the numbers that are products of its fields.

        Raises: InputError that names the first contradiction.
        """
        wrong = self.contradictions(inputs)
        if not wrong.any():
            return
        place = tuple(np.argwhere(wrong)[0])

        def value(held: Any) -> float:
            return float(np.broadcast_to(np.asarray(held), wrong.shape)[place])

        for path, fields in self.products.items():
            number = value(get_at(inputs, path))
            degrees = {field: value(getattr(inputs.plan, field)) for field in fields}
            product = math.prod(degrees.values())
            if number != product:
                said = " x ".join(f"{f} {d:.12g}" for f, d in degrees.items() if d != 1) or "1"
                what = f"not the product of the plan's degrees, given {number:.12g}"
                raise refusal(path, f"{what}; expected {said} = {product:.12g}")

    def is_placed(self, inputs: Any) -> bool:
        """Return whether the plan gives a placement, or there is no plan to place."""
        plan = getattr(inputs, "plan", None)
        if plan is None or self.placements is None:
            return True
        return any(value_or(getattr(plan, field), None) is not None for field in self.placement)

    def with_placement(self, inputs: Any, columns: Mapping[str, Any]) -> Any:
        """Return inputs whose plan has the given values of its placement fields."""
        return dataclasses.replace(inputs, plan=dataclasses.replace(inputs.plan, **columns))

    def placed(
        self, inputs: Any, recipe: Any = None, first: Callable[..., Any] | None = None
    ) -> Any:
        """Return inputs whose plan has a placement: its own, or the best if it has none.

        The best placement has the best objective, whether or not the plan fits in memory; ties go
        to the smaller placement. If only some placement fields are given, the others are 1.
        ``first`` is ``first_best`` or a compiled version of it.
        Raises: InputError if a plan without a placement is traced.
        """
        plan = getattr(inputs, "plan", None)
        if self.is_placed(inputs):
            fields = self.placement if plan is not None and self.placements is not None else ()
            lacking = [f for f in fields if value_or(getattr(plan, f), None) is None]
            one = dict.fromkeys(lacking, np.float64(1.0))
            return self.with_placement(inputs, one) if lacking else inputs
        recipe = self.recipe_of(inputs, recipe)
        with naming_all(self, inputs, recipe):
            columns = self._placements(inputs, recipe)
        if next(iter(columns.values())).shape[-1] == 1:  # nothing to choose
            only = {field: column[..., 0] for field, column in columns.items()}
            return self.with_placement(inputs, only)
        wide = map_numbers(lambda leaf: leaf[..., None] if np.ndim(leaf) else leaf, inputs)
        best = (first or first_best)(self, recipe, self.with_placement(wide, columns))[..., None]
        xp, shape = namespace(best), best.shape[:-1]
        chosen = {
            field: xp.take_along_axis(
                xp.broadcast_to(column, (*shape, column.shape[-1])), best, -1
            )[..., 0]
            for field, column in columns.items()
        }
        return self.with_placement(inputs, chosen)

    def _placements(self, inputs: Any, recipe: Any) -> dict[str, np.ndarray]:
        """Return every placement along a new last dimension, after those of the inputs.

        Several placements are padded to a power of two, so that few programs are compiled.
        """
        assert self.placements is not None
        try:
            listed = self.placements(with_named_absences(inputs), recipe)
        except TypeError:
            if all(has_value(value) for _, _, value in leaves(inputs)):
                raise
            fields = ", ".join(f"plan.{field}" for field in self.placement)
            what = f"a traced plan cannot be placed; expected {fields}"
            raise InputError(f"plan: {what}") from None
        rank = max((np.ndim(value) for _, _, value in leaves(inputs)), default=0)
        found = {}
        for field, column in listed.items():
            count = column.shape[-1]
            size = max(FEWEST, 1 << (count - 1).bit_length()) if count > 1 else 1
            rows = column.astype(np.float64).reshape(-1, count)
            rows = np.pad(rows, [(0, 0), (0, size - count)], "edge")
            before = (1,) * (rank + 1 - column.ndim)
            found[field] = rows.reshape(*before, *column.shape[:-1], size)
        return found


def first_best(estimator: Estimator, recipe: Any, inputs: Any) -> Any:
    """Return the index of the best placement along the last dimension, at each point."""
    report = estimator.evaluate_checked(inputs, recipe)
    name, fields = estimator.objective, getattr(report, "__dataclass_fields__", {})
    sign = -1.0 if name in fields and fields[name].metadata.get("better") == "higher" else 1.0
    value = report[name] if isinstance(report, Mapping) else getattr(report, name)
    xp = namespace(value)
    columns = (np.shape(getattr(inputs.plan, field)) for field in estimator.placement)
    value = sign * xp.broadcast_to(value, np.broadcast_shapes(np.shape(value), *columns))
    least = xp.min(value, axis=-1, keepdims=True)
    return xp.argmax(value <= least + TIE * abs(least), axis=-1)


@functools.cache
def reads(part: Callable[..., Any]) -> tuple[str, ...]:
    """Return the plan fields that a part reads: its keyword-only arguments.

    >>> reads(lambda inputs, recipe, *, tensor, data: 0.0)
    ('tensor', 'data')
    """
    parameters = inspect.signature(part).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)
