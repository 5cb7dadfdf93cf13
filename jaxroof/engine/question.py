"""A search, checked, and what kind of dimension each of its axes is."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import jax

from jaxroof.engine.axes import Asked, Axis, apart, begun, paths_of, read_axes
from jaxroof.engine.constraints import Constraint, constraints
from jaxroof.engine.depends import depends
from jaxroof.engine.points import results
from jaxroof.engine.programs import programs
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.missing import check_listed, naming_all
from jaxroof.records import answering, checked, is_quantity

MOST_PLANS = 1_000_000  # that one search lists, best first


@dataclasses.dataclass(frozen=True, eq=False)
class Question:
    """A checked search."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    axes: tuple[Axis, ...]
    where: tuple[Constraint, ...]
    objective: str
    sign: float
    top: int
    placements: bool
    report: Any  # the shapes of one plan's results


@dataclasses.dataclass(frozen=True)
class Kinds:
    """Which dimensions of a grid are which, told by the shapes of what they touch."""

    outer: tuple[int, ...]  # structural, and a part or the need depends on it: a call each
    structural: tuple[int, ...]  # lists plans anew
    machine: tuple[int, ...]  # moves the objective: lanes
    limits: tuple[int, ...]  # moves the limit alone: thresholds


def ask(estimator: Estimator, inputs: Any, recipe: Any = None, **options: Any) -> Question:
    """Return a checked search, ready for ``best_plans``; arguments as in ``search``.

    Raises: InputError for axes over choices of the recipe, which are a search each, and for
    whatever else is not a search.
    """
    axes, asked = ask_each(estimator, inputs, recipe, **options)
    for axis in axes:
        if axis.choices:
            raise refusal(axis.path, "a choice, not a number; one search a choice: use search")
    return asked[0]


def ask_each(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    axes: Asked | None = None,
    where: str | Iterable[str | Constraint] = (),
    objective: str | None = None,
    top: int = 1,
    placements: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> tuple[tuple[Axis, ...], list[Question]]:
    """Return the axes of a search, and a checked search for each choice of the recipe on them."""
    inputs, recipe, given = estimator.resolve(inputs, recipe, settings or {}, paths_of(axes))
    inputs = dataclasses.replace(checked(inputs), plan=None) if estimator.plan else checked(inputs)
    if top < 1:
        raise InputError(f"top: expected a whole number of at least 1, given {top}")
    if top > MOST_PLANS:
        raise refusal("top", f"expected at most {MOST_PLANS:,} plans, given more")
    if estimator.plan is None:
        raise InputError(f"{estimator.name or 'estimator'}: has no plans to search; use tabulate")
    for path in sorted(paths_of(axes)):
        if path.partition(".")[0] == "plan":
            raise refusal(path, "the search chooses the plan; constrain it with where, or tabulate")
    read = read_axes(inputs, axes, recipe, estimator.names, given)
    inputs = begun(inputs, read)
    with naming_all(estimator, inputs, recipe, searched=True):
        check_listed(estimator, inputs)
        if estimator.limit is not None:
            estimator.limit(answering(inputs))
        report = depends(estimator, recipe, jax.tree.structure(inputs)).report
    name, sign = _objective(estimator, report, objective)
    fields = {*results(report), *estimator.plan_fields}
    read = apart(read, {*fields, *COUNTS, *_needs(estimator)})
    questions = [
        Question(
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
        )
        for program in programs(read, recipe)
    ]
    return tuple(read), questions




def constraints_of(
    estimator: Estimator, where: str | Iterable[str | Constraint]
) -> tuple[Constraint, ...]:
    """Return the constraints on an estimator's plan, read where they are texts."""
    texts = [where] if isinstance(where, str) else list(where)
    fields = estimator.plan_fields
    read: list[Constraint] = []
    for text in texts:
        read += [text] if isinstance(text, Constraint) else constraints(text, fields)
    return tuple(read)


COUNTS = ("plans_legal", "plans_feasible", "reason")  # of a search, beside its winners


def _needs(estimator: Estimator) -> tuple[str, ...]:
    return (f"{estimator.need}_least", f"{estimator.need}_missing") if estimator.need else ()


def _objective(estimator: Estimator, report: Any, objective: str | None) -> tuple[str, float]:
    name = objective or estimator.objective
    fields = {f.name: f for f in dataclasses.fields(report) if is_quantity(f)}
    numbers = [f for f in fields if getattr(report, f).dtype != bool]
    if name not in numbers:
        raise unknown("objective", name, "result", numbers)
    return name, -1.0 if fields[name].metadata["better"] == "higher" else 1.0


def kinds(question: Question) -> Kinds:
    """Return which axes are structural, which are machines and which only move the limit.

    No list of fields says so: an axis that a part, the need or the objective depends on shows in
    the shape of that result.
    """
    estimator, axes = question.estimator, question.axes
    found = depends(estimator, question.recipe, jax.tree.structure(question.inputs))
    needed = found.results.get(estimator.need, frozenset())
    moving = {d: set(axis.columns) for d, axis in enumerate(axes)}
    lists = {d for d, paths in moving.items() if any(map(estimator.lists_anew, paths))}
    part = {d for d, paths in moving.items() if paths & found.parts}
    need = {d for d, paths in moving.items() if paths & needed}
    aim = {d for d, paths in moving.items() if paths & found.results[question.objective]}
    outer = (lists & part) | need
    machine = (set(moving) - lists - outer) & aim
    return Kinds(
        outer=tuple(sorted(outer)),
        structural=tuple(sorted(lists - outer)),
        machine=tuple(sorted(machine, key=lambda d: (len(axes[d]), d))),  # the longest last
        limits=tuple(sorted(set(moving) - lists - outer - machine)),
    )
