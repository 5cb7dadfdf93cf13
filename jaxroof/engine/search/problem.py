"""The checked problem of a search, the role of each of its axes, and groups of its points."""

import dataclasses
import functools
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    points,
    spread,
    unique_names,
)
from jaxroof.engine.grid.chunks import Place, programs
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.executor import ONCE, SMALL
from jaxroof.engine.grid.question import ask, check_no_plan
from jaxroof.engine.search.candidates import InputsKey, PreparedPlans, prepare_plans, read_paths
from jaxroof.engine.search.constraints import Constraint, constraints
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator, Limit, reads
from jaxroof.limits import check_bound
from jaxroof.missing import check_listed, naming_all
from jaxroof.records import is_quantity, replace_all, with_named_absences
from jaxroof.structure import results, structure


@dataclasses.dataclass(frozen=True, eq=False)
class SearchProblem:
    """The checked inputs and settings of one search."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    axes: tuple[Axis, ...]
    where: tuple[Constraint, ...]
    objective: str
    sign: float
    top: int
    placements: bool
    report: Any  # one plan's results, without their numbers
    executor: str | None = None  # who evaluates; None: who is faster
    once: bool = False  # no other question follows, for which a compiled program could be kept


@dataclasses.dataclass(frozen=True)
class AxisRoles:
    """The role of each dimension of a grid, found from the shapes of the results."""

    outer: tuple[int, ...]  # changes the need, or both plans and parts; one call per point
    structural: tuple[int, ...]  # changes the list of plans
    machine: tuple[int, ...]  # changes the objective or another limit; becomes lanes
    limits: tuple[int, ...]  # changes at most the first limit; becomes thresholds
    # of the machine: each changes the bound of one further limit and nothing else; one evaluation
    # by NumPy serves all its values
    swept: Mapping[int, Limit] = dataclasses.field(default_factory=dict)


def check_search(
    estimator: Estimator, inputs: Any, recipe: Any = None, **options: Any
) -> SearchProblem:
    """Return a checked problem for ``best_plans``; arguments are as in ``search``.

    Raises: InputError for axes over choices of the recipe, because each choice is a search of its
    own, and for any other invalid argument.
    """
    axes, asked = check_searches(estimator, inputs, recipe, **options)
    for axis in axes:
        if axis.choices:
            raise refusal(axis.name, "a choice, not a number; one search a choice: use search")
    return asked[0]


def check_searches(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: AxisValues | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    top: int = 1,
    placements: bool = False,
    executor: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> tuple[tuple[Axis, ...], list[SearchProblem]]:
    """Return the axes of a search, and a checked problem for each combination of recipe choices."""
    if not isinstance(estimator, Estimator):
        raise refusal("estimator", f"expected an Estimator, given {shown(estimator)}")
    check_searchable(estimator)
    check_bound("top", "top", top)
    check_no_plan(estimator, axes)
    _, inputs, recipe, read = ask(estimator, inputs, recipe, settings, axes)
    inputs = dataclasses.replace(inputs, plan=None)
    with naming_all(estimator, inputs, recipe, searched=True):
        check_listed(estimator, inputs)
        if estimator.limit is not None:
            estimator.limit(with_named_absences(inputs))
        report = searchable_report(estimator, inputs, recipe)
    name, sign = _objective(estimator, report, objective)
    fields = {*results(report), *estimator.plan_fields}
    read = unique_names(read, {*fields, *COUNTS, *_needs(estimator)})
    questions = [
        SearchProblem(
            estimator=estimator,
            inputs=inputs,
            recipe=program.recipe,
            axes=program.axes,
            where=constraints_of(estimator, where),
            objective=name,
            sign=sign,
            top=top,
            placements=placements,
            report=report,
            executor=executor,
        )
        for program in programs(read, recipe)
    ]
    return tuple(read), questions


@functools.lru_cache(maxsize=64)
def check_searchable(estimator: Estimator) -> None:
    """Check that an estimator has plans, and that its definition names only existing plan fields.

    Raises: InputError that names the first error.
    """
    who = estimator.name or "estimator"
    if estimator.plan is None or estimator.candidates is None:
        raise InputError(f"{who}: has no plans to search; use tabulate")
    if "plan" not in {field.name for field in dataclasses.fields(estimator.inputs)}:
        kind = f"{estimator.inputs.__name__} has no field 'plan'"
        raise refusal(who, f"{kind}; expected plan: {estimator.plan.__name__} | None = None")
    if len({limit.result for limit in estimator.limits}) < len(estimator.limits):
        raise refusal(who, "limits: two on one result; expected one on each")
    for one, other in (("need", "limit"), ("limit", "need")):
        if getattr(estimator, one) and not getattr(estimator, other):
            raise refusal(who, f"{one} without {other}; expected both, or neither")
    read = {f"part {name}": reads(part) for name, part in estimator.parts.items()}
    for where, fields in {"placement": estimator.placement, **read}.items():
        for field in fields:
            if field not in estimator.plan_fields:
                raise unknown(f"{who}: {where}", field, "plan field", estimator.plan_fields)


def searchable_report(estimator: Estimator, inputs: Any, recipe: Any) -> Any:
    """Return the shapes of one plan's results.

    Raises: InputError if the results do not include the need of the estimator.
    """
    who = estimator.name or "estimator"
    report = dependencies(estimator, recipe, structure(inputs)).report
    for need in (estimator.need, *(limit.result for limit in estimator.limits[1:])):
        if need and need not in results(report):
            raise unknown(f"{who}: need", need, "result", results(report))
    return report


def constraints_of(
    estimator: Estimator, where: str | Iterable[str | Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints on an estimator's plan; strings are parsed."""
    read: list[Constraint] = []
    for text in [where] if isinstance(where, str) else where:
        given = (estimator.plan_fields, estimator.short_names, estimator.words)
        read += [text] if isinstance(text, Constraint) else constraints(text, *given)
    return tuple(read)


def fit_flags(estimator: Estimator) -> tuple[str, str]:
    """Return the first two flags of ``reason``: a plan fits, or the name of the exceeded need."""
    return "fits", estimator.need or "limit"


COUNTS = ("plans_legal", "plans_feasible", "reason")  # results of a search besides the winners


def _needs(estimator: Estimator) -> tuple[str, ...]:
    more = tuple(f"{limit.result}_missing" for limit in estimator.limits[1:])
    own = (f"{estimator.need}_least", f"{estimator.need}_missing") if estimator.need else ()
    return own + more


def _objective(estimator: Estimator, report: Any, objective: str | None) -> tuple[str, float]:
    name = objective or estimator.objective
    if not dataclasses.is_dataclass(report):
        what = f"its step returns a {type(report).__name__}; expected a record (jaxroof.record)"
        raise refusal(estimator.name or "estimator", what)
    fields = {f.name: f for f in dataclasses.fields(report) if is_quantity(f)}
    numbers = [f for f, value in results(report).items() if f in fields and value.dtype != bool]
    if not name:
        raise refusal("objective", f"none given; expected a result: {', '.join(numbers)}")
    if name not in numbers:
        raise unknown("objective", name, "result", numbers)
    return name, -1.0 if fields[name].metadata["better"] == "higher" else 1.0


FASTER = 32  # evaluations by a compiled program in the time of one by NumPy, about


def most_by_numpy(question: SearchProblem, kind: AxisRoles) -> int:
    """Return up to how many pairs of a plan and a point NumPy is the faster to compare.

    Points that differ in limits alone share one evaluation of each plan by NumPy. A compiled
    program evaluates anew for each, but where questions follow it is there, and faster still.
    """
    swept = math.prod(len(question.axes[d]) for d in kind.swept)
    if swept > FASTER:
        return sys.maxsize
    if not question.once:
        return SMALL * swept
    shared = math.prod(len(question.axes[d]) for d in kind.limits) if question.top == 1 else 1
    return ONCE * shared * swept


def axis_roles(question: SearchProblem) -> AxisRoles:
    """Return the role of each axis: outer, structural, machine or limit.

    Whether a part, the need or the objective depends on an axis is found from the shape of that
    result, not from a list of fields.
    """
    estimator, axes = question.estimator, question.axes
    if estimator.sizing is not None:  # its plans need programs of their own
        return AxisRoles(tuple(range(len(axes))), (), (), ())
    found = dependencies(estimator, question.recipe, structure(question.inputs))
    needed = found.results.get(estimator.need, frozenset())
    others = estimator.limits[1:]
    aims = found.results[question.objective].union(*(found.results[o.result] for o in others))
    moving = {d: set(axis.columns) for d, axis in enumerate(axes)}
    lists = {d for d, paths in moving.items() if any(map(estimator.lists_anew, paths))}
    part = {d for d, paths in moving.items() if paths & found.parts}
    need = {d for d, paths in moving.items() if paths & needed}
    aim = {d for d, paths in moving.items() if paths & aims}
    outer = (lists & part) | need
    wide = spread(question.inputs, axes)
    bounds = {other: _moved_along(other.of(wide), axes) for other in others}
    machine = (set(moving) - lists - outer) & aim.union(*bounds.values())
    return AxisRoles(
        outer=tuple(sorted(outer)),
        structural=tuple(sorted(lists - outer)),
        machine=tuple(sorted(machine, key=lambda d: (len(axes[d]), d))),  # the longest last
        limits=tuple(sorted(set(moving) - lists - outer - machine)),
        swept=_swept(question, wide, bounds, machine - aim) if bounds else {},
    )


def _swept(
    question: SearchProblem, wide: Any, bounds: Mapping[Limit, set[int]], free: set[int]
) -> dict[int, Limit]:
    """Return the axes that move the bound of one limit alone, which no other axis moves.

    Arguments: the inputs over all axes; the axes that move each bound; those that move no result.
    """
    estimator = question.estimator
    if question.top > 1 or estimator.limit is None:
        return {}
    held = _moved_along(estimator.limit(wide), question.axes)
    counts = Counter(d for some in bounds.values() for d in some)
    each = {next(iter(some)): limit for limit, some in bounds.items() if len(some) == 1}
    return {d: limit for d, limit in each.items() if d in free - held and counts[d] == 1}


def _moved_along(values: Any, axes: Sequence[Axis]) -> set[int]:
    """Return the axes along which values over a grid have more than one place."""
    shape = np.shape(values)
    return {d for d, n in enumerate(shape, len(axes) - len(shape)) if n > 1}


QUESTIONS = 64  # problems per call; limits the memory of their padded plans


@dataclasses.dataclass(frozen=True, eq=False)
class ProblemGroup:
    """Problems that share one call, because their parts and their need are the same."""

    outer: tuple[int, ...]  # index on the outer axes
    some: slice  # of the points of the structural axes, one problem each
    inputs: Any
    varied: dict[str, np.ndarray]  # inputs by path, one value a problem
    ready: PreparedPlans

    @property
    def place(self) -> tuple[Any, ...]:
        """Return its place on the outer axes and among the problems."""
        return (*self.outer, self.some)

    def varied_at(self, plans: np.ndarray) -> dict[str, np.ndarray]:
        """Return what differs between the problems, for each of some plans among all."""
        if len(self.ready.plans) == 1:
            return {path: values[0] for path, values in self.varied.items()}
        problem = np.searchsorted(self.ready.starts, plans, side="right") - 1
        return {path: values[problem] for path, values in self.varied.items()}


@dataclasses.dataclass(frozen=True, eq=False)
class MachineChunk:
    """The winners of a group's problems on one chunk of the grid."""

    place: Place
    position: np.ndarray  # [problem, rank, *limits, *machine]
    objective: np.ndarray
    compared: int  # pairs of a plan and a machine that were not passed over by a bound


def problem_groups(question: SearchProblem, kind: AxisRoles) -> Iterator[ProblemGroup]:
    """Yield the problems of a search, those that share a call together."""
    axes, estimator, recipe = question.axes, question.estimator, question.recipe
    inner = list(points([axes[d] for d in kind.structural]))
    known = read_paths(estimator, recipe, question.inputs)
    for index, values in points([axes[d] for d in kind.outer]):
        inputs = replace_all(question.inputs, values)
        base = InputsKey.of(inputs, known)
        for start in range(0, len(inner), QUESTIONS):
            some = inner[start : start + QUESTIONS]
            numbers = tuple(base.at(v, known) for _, v in some)
            yield ProblemGroup(
                outer=index,
                some=slice(start, start + len(some)),
                inputs=inputs,
                varied={p: np.array([v[p] for _, v in some]) for p in some[0][1]},
                ready=prepare_plans(estimator, recipe, question.where, numbers),
            )


def plans_that_fit(
    estimator: Estimator, group: ProblemGroup, axes: Sequence[Axis], whole: bool = True
) -> np.ndarray:
    """Return how many plans of each problem fit, [problem, *axes], read-only.

    fits = number of plans with need <= limit; the plans are sorted by need

    If not ``whole``, with size 1 along axes that do not move the limit.
    """
    plans, rank = group.ready.plans, len(axes)
    if estimator.limit is None:
        fits = np.array([len(some) for some in plans], np.int64).reshape(-1, *(1,) * rank)
    else:
        questions = [Axis("question", group.varied)] if group.varied else []
        limit = np.asarray(estimator.limit(spread(group.inputs, [*questions, *axes])))
        limit = limit.reshape((1,) * (rank + 1 - limit.ndim) + limit.shape)
        limits = np.broadcast_to(limit, (len(plans), *limit.shape[1:]))
        pairs = zip(plans, limits, strict=True)
        fits = np.stack([np.searchsorted(p.need, m, side="right") for p, m in pairs])
    return np.broadcast_to(fits, (len(fits), *map(len, axes))) if whole else fits
