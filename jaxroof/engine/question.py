"""A search, checked, and what kind of dimension each of its axes is."""

import dataclasses
import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.engine.axes import Asked, Axis, read_axes, touched
from jaxroof.engine.constraints import Constraint, constraints
from jaxroof.engine.points import results
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import checked, is_quantity
from jaxroof.settings import settle


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
        if axis.is_choice:
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
    **settings: Any,
) -> tuple[tuple[Axis, ...], list[Question]]:
    """Return the axes of a search, and a checked search for each choice of the recipe on them."""
    recipe = estimator.recipe if recipe is None else recipe
    inputs, recipe = settle(inputs, recipe, settings, estimator.names)
    inputs = checked(inputs)
    if top < 1:
        raise InputError(f"top: expected a whole number of at least 1, given {top}")
    if estimator.plan is None:
        raise InputError(f"{estimator.name or 'estimator'}: has no plans to search; use tabulate")
    for path in _paths(axes if isinstance(axes, Mapping) else {}):
        if path.partition(".")[0] == "plan":
            raise refusal(path, "the search chooses the plan; constrain it with where, or tabulate")
    report = probe(estimator, recipe, inputs)
    name, sign = _objective(estimator, report, objective)
    read = read_axes(inputs, axes, _taken(estimator, report), recipe, estimator.names)
    questions = [
        Question(
            estimator=estimator,
            inputs=inputs,
            recipe=chosen,
            axes=tuple(axis for axis in read if not axis.is_choice),
            where=constraints_of(estimator, where),
            objective=name,
            sign=sign,
            top=top,
            placements=placements,
            report=report,
        )
        for chosen in recipes(read, recipe)
    ]
    return tuple(read), questions


def recipes(axes: Sequence[Axis], recipe: Any) -> list[Any]:
    """Return the recipe with every combination of the choices that axes vary, the last fastest."""
    choices = [axis for axis in axes if axis.is_choice]
    members = itertools.product(*(axis.columns[axis.path] for axis in choices))
    paths = [axis.path for axis in choices]
    return [
        dataclasses.replace(recipe, **dict(zip(paths, some, strict=True))) if paths else recipe
        for some in members
    ]


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


def _paths(axes: Mapping[str, Any]) -> list[str]:
    """Return every path that axes vary."""
    together = [value for value in axes.values() if isinstance(value, Mapping)]
    return [*axes, *(path for value in together for path in value)]


def _taken(estimator: Estimator, report: Any) -> set[str]:
    """Return the names of a search's variables, which no axis may have."""
    return {*results(report), *estimator.plan_fields, *COUNTS, *_needs(estimator)}


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


def probe(estimator: Estimator, recipe: Any, inputs: Any) -> Any:
    """Return the shapes of a report for a plan of ones."""
    return _probe(estimator, recipe, jax.tree.structure(dataclasses.replace(inputs, plan=None)))


@functools.lru_cache(maxsize=256)
def _probe(estimator: Estimator, recipe: Any, structure: Any) -> Any:
    asked = dataclasses.replace(_ones(structure), plan=_plan_of_ones(estimator))
    return jax.eval_shape(lambda i: estimator.evaluate(i, recipe), asked)


def _ones(structure: Any) -> Any:
    return jax.tree.unflatten(structure, [1.0] * structure.num_leaves)


def _plan_of_ones(estimator: Estimator) -> Any:
    assert estimator.plan is not None
    return estimator.plan(**dict.fromkeys(estimator.plan_fields, 1.0))


def kinds(question: Question) -> Kinds:
    """Return which axes are structural, which are machines and which only move the limit.

    No list of fields says so: an axis that a part, the need or the objective depends on shows in
    the shape of that result.
    """
    structure = jax.tree.structure(dataclasses.replace(question.inputs, plan=None))
    paths = tuple(tuple(axis.columns) for axis in question.axes)
    return _kinds(question.estimator, question.recipe, structure, paths, question.objective)


@functools.lru_cache(maxsize=256)
def _kinds(
    estimator: Estimator,
    recipe: Any,
    structure: Any,
    paths: tuple[tuple[str, ...], ...],
    objective: str,
) -> Kinds:
    def shown(asked: Any) -> tuple[Any, ...]:
        asked = dataclasses.replace(asked, plan=_plan_of_ones(estimator))
        report = results(estimator.evaluate(asked, recipe))
        need = report[estimator.need] if estimator.need else 0.0
        parts = estimator.evaluate_parts(asked, recipe)
        return tuple(jax.tree.map(jnp.asarray, x) for x in (parts, need, report[objective]))

    axes = [Axis(str(d), {path: np.ones(1) for path in some}) for d, some in enumerate(paths)]
    parts, need, aim = touched(shown, _ones(structure), axes)
    part: set[int] = set().union(*jax.tree.leaves(parts, is_leaf=lambda x: isinstance(x, set)))
    lists = {d for d, some in enumerate(paths) if any(map(estimator.lists_anew, some))}
    every = set(range(len(axes)))
    outer = (lists & part) | need
    machine = (every - lists - outer) & aim
    return Kinds(
        outer=tuple(sorted(outer)),
        structural=tuple(sorted(lists - outer)),
        machine=tuple(sorted(machine)),
        limits=tuple(sorted(every - lists - outer - machine)),
    )
