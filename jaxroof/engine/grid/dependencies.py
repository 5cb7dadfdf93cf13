"""Inputs that each result of an estimator depends on, found by abstract evaluation of shapes."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dependence import Dependent, dependence, dtypes
from jaxroof.errors import InputError, NotGiven, expected_one, refusal
from jaxroof.estimator import Estimator
from jaxroof.records import is_quantity, leaves, replace_at, with_named_absences
from jaxroof.settings import known_paths
from jaxroof.structure import Structure, map_numbers, results, structure

Paths = frozenset[str]


class Dependencies(NamedTuple):
    """The input paths that each result of a plan depends on, and those that any part depends on."""

    report: Any  # the shapes of the results
    results: dict[str, Paths]
    parts: Paths
    on_numpy: bool  # whether NumPy alone can evaluate it


@functools.lru_cache(maxsize=256)
def dependencies(estimator: Estimator, recipe: Any, structure: Structure) -> Dependencies:
    """Return the dependencies of the results, for inputs of a given ``structure``."""
    inputs = structure.build(itertools.repeat(1.0))
    paths = [path for path, _, _ in leaves(inputs)]

    def shown(asked: Any) -> tuple[Any, Any]:
        if estimator.plan is not None:
            ones = dict.fromkeys(estimator.plan_fields, 1.0)
            asked = dataclasses.replace(asked, plan=estimator.plan(**ones))
        asked = with_named_absences(asked)
        parts = estimator.evaluate_parts(asked, recipe)
        return estimator.report(asked, recipe, parts), parts

    found = dependence(shown, inputs, {path: (path,) for path in paths})
    (report, _), (moved, parts) = found.report, found.inputs
    every: set[str] = set()
    map_numbers(every.update, parts)
    reads = {name: frozenset(names) for name, names in results(moved).items()}
    return Dependencies(report, reads, frozenset(every), found.on_numpy)


@functools.lru_cache(maxsize=256)
def results_without_numbers(estimator: Estimator, recipe: Any, structure: Structure) -> Any:
    """Return the results for inputs of a given ``structure``: each has a dtype."""
    inputs = structure.build(itertools.repeat(1.0))
    return dtypes(lambda asked: estimator.evaluate(asked, recipe), inputs)


class BoundReads(NamedTuple):
    """What the estimator's lower bound depends on."""

    fields: tuple[str, ...]  # plan fields, by itself or by its parts
    numbers: frozenset[int]  # of the parts, in their order


@functools.lru_cache(maxsize=64)
def bound_reads(estimator: Estimator, recipe: Any, structure: Structure) -> BoundReads:
    """Return what the estimator's lower bound depends on."""
    bound, fields = estimator.lower_bound, estimator.plan_fields
    assert bound is not None
    assert estimator.plan is not None
    plan = estimator.plan(**dict.fromkeys(fields, 1.0))
    inputs = dataclasses.replace(structure.build(itertools.repeat(1.0)), plan=plan)
    named = {f"plan.{field}": (field,) for field in fields}

    def bounded(asked: Any) -> Any:
        asked = with_named_absences(asked)
        return bound(asked, recipe, **estimator.evaluate_parts(asked, recipe))

    def marked(asked: Any) -> Any:
        places = itertools.count()
        parts = map_numbers(
            lambda _: Dependent(frozenset([next(places)])),
            estimator.evaluate_parts(with_named_absences(asked), recipe),
        )
        return bound(with_named_absences(asked), recipe, **parts)

    found = dependence(bounded, inputs, named).inputs
    numbers = dependence(marked, inputs, named).inputs - set(fields)
    return BoundReads(tuple(field for field in fields if field in found), frozenset(numbers))


def completed(estimator: Estimator, inputs: Any, recipe: Any) -> Any:
    """Return the inputs with 1 for every number that the results need and the inputs lack.

    The evaluation is repeated abstractly. Each time, the numbers that it reports as missing are set
    to 1, until none is missing.
    """
    somewhere = dict.fromkeys(estimator.placement, np.float64(1.0))  # shapes do not depend on it
    while True:
        try:
            if not estimator.is_placed(inputs):
                inputs = estimator.with_placement(inputs, somewhere)
            results_without_numbers(estimator, recipe, structure(inputs))
        except NotGiven as missing:
            for path in missing.paths:
                inputs = replace_at(inputs, path, 1.0)
        else:
            return inputs


def axes_that_move(
    function: Callable[[Any], Any], inputs: Any, axes: Sequence[Sequence[str]]
) -> tuple[Any, Any]:
    """Return a function's results without their numbers, and the axes that each depends on.

    An axis is a list of paths that vary together. A path may belong to several axes.
    """
    paths = {path for paths in axes for path in paths}
    named = {path: [d for d, some in enumerate(axes) if path in some] for path in paths}
    found = dependence(function, inputs, named)
    return found.report, found.inputs


def check_effective(estimator: Estimator, inputs: Any, recipe: Any, paths: Collection[str]) -> None:
    """Check that some result depends on each field that a question sets or varies.

    Only estimators whose records have names share them with others, and so have fields that they
    do not read; inputs of one's own are as their author wants them.
    """
    if not estimator.names:
        return
    held = {path: value for path, _, value in leaves(inputs) if np.ndim(value) == 0}
    known = {path for path in held if estimator.lists_anew(path)} | {*estimator.products}
    asked = [p for p in paths if p in held and p not in known and not p.startswith("plan.")]
    if not asked:
        return
    numbers = {path for path, field in known_paths(estimator.inputs).items() if is_quantity(field)}
    try:
        for path in numbers.intersection(paths) - {*held}:  # an axis gives it
            inputs = replace_at(inputs, path, 1.0)
        read = effective(estimator, recipe, structure(inputs))
    except (InputError, TypeError):  # a number is missing, or is of another kind: said later
        return
    for path in asked:
        if path not in read:
            record = path.rpartition(".")[0]
            near = sorted(p for p in read if p.rpartition(".")[0] == record)
            who = estimator.name or "the estimator"
            expected = f"; {expected_one(near)}" if near else ""
            raise refusal(path, f"does not enter the estimator {who}{expected}")


@functools.lru_cache(maxsize=64)
def effective(estimator: Estimator, recipe: Any, structure: Structure) -> Paths:
    """Return the paths that any result, the limit of plans or their list depends on."""
    inputs = structure.build(itertools.repeat(1.0))
    found = dependencies(estimator, recipe, structure)
    read = {*found.parts, *estimator.products}.union(*found.results.values())
    paths = [path for path, _, _ in leaves(inputs)]
    first = [] if estimator.limit is None else [estimator.limit]
    bounds = [*first, *(limit.of for limit in estimator.limits[1:])]

    def limits(asked: Any) -> tuple[Any, ...]:
        return tuple(bound(with_named_absences(asked)) for bound in bounds)

    map_numbers(read.update, dependence(limits, inputs, {path: (path,) for path in paths}).inputs)
    return frozenset(read | {path for path in paths if estimator.lists_anew(path)})
