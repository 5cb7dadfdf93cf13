"""Inputs that each result of an estimator depends on, found by abstract evaluation of shapes."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.engine.grid.evaluate import results
from jaxroof.errors import NotGiven
from jaxroof.estimator import Estimator
from jaxroof.records import leaves, replace_at, with_named_absences

Paths = frozenset[str]


class Dependencies(NamedTuple):
    """The input paths that each result of a plan depends on, and those that any part depends on."""

    report: Any  # the shapes of the results
    results: dict[str, Paths]
    parts: Paths


@functools.lru_cache(maxsize=256)
def dependencies(estimator: Estimator, recipe: Any, structure: Any) -> Dependencies:
    """Return the dependencies of the results, for inputs of a given ``jax.tree.structure``.

    Raises: InputError that names a number that the results need and the inputs lack.
    """
    inputs = jax.tree.unflatten(structure, [1.0] * structure.num_leaves)
    paths = [path for path, _, _ in leaves(inputs)]

    def shown(asked: Any) -> tuple[Any, Any]:
        if estimator.plan is not None:
            ones = dict.fromkeys(estimator.plan_fields, 1.0)
            asked = dataclasses.replace(asked, plan=estimator.plan(**ones))
        asked = with_named_absences(asked)
        parts = estimator.evaluate_parts(asked, recipe)
        report = estimator.step(asked, recipe, **parts)
        return tuple(jax.tree.map(jnp.asarray, x) for x in (report, parts))

    (report, _), moved = axes_that_move(shown, inputs, [(path,) for path in paths])

    def named(dims: set[int]) -> Paths:
        return frozenset(paths[d] for d in dims)

    every: set[int] = set().union(*jax.tree.leaves(moved[1], is_leaf=_is_set))
    return Dependencies(report, {n: named(d) for n, d in results(moved[0]).items()}, named(every))


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
            jax.eval_shape(lambda asked: estimator.evaluate(asked, recipe), inputs)
        except NotGiven as missing:
            for path in missing.paths:
                inputs = replace_at(inputs, path, 1.0)
        else:
            return inputs


def axes_that_move(
    function: Callable[[Any], Any], inputs: Any, axes: Sequence[Sequence[str]]
) -> tuple[Any, Any]:
    """Return the shapes of a function's results, and the axes that each result depends on.

    An axis is a list of paths that vary together. Each axis gets a dimension of size 2. A result
    depends on an axis if its shape has that dimension. A path may belong to several axes.
    """
    for path in {path for paths in axes for path in paths}:
        shape = tuple(2 if path in paths else 1 for paths in axes)
        inputs = replace_at(inputs, path, jax.ShapeDtypeStruct(shape, jnp.float64))
    shapes = jax.eval_shape(function, inputs)
    moved = jax.tree.map(lambda leaf: {d for d, n in enumerate(leaf.shape) if n > 1}, shapes)
    return shapes, moved


def _is_set(value: Any) -> bool:
    return isinstance(value, set)
