"""What the results of an estimator depend on, read from shapes: nothing is computed."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxroof.engine.grid.evaluate import results
from jaxroof.errors import NotGiven
from jaxroof.estimator import Estimator
from jaxroof.records import leaves, replace_at, with_named_absences

Paths = frozenset[str]


class Dependencies(NamedTuple):
    """The paths of the inputs that each result of a plan, and any of the parts, depends on."""

    report: Any  # the results, as shapes
    results: dict[str, Paths]
    parts: Paths


@functools.lru_cache(maxsize=256)
def dependencies(estimator: Estimator, recipe: Any, structure: Any) -> Dependencies:
    """Return what results depend on, for inputs of a structure (of ``jax.tree.structure``).

    Raises: InputError that names a number which the results need and the inputs lack.
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
    """Return the inputs with 1 at every number that the results ask for and the inputs lack.

    Found by asking: what is refused as not given is given, until there is an answer.
    """
    while True:
        try:
            jax.eval_shape(lambda asked: estimator.evaluate(asked, recipe), inputs)
        except NotGiven as missing:
            for path in missing.paths:
                inputs = replace_at(inputs, path, 1.0)
        else:
            return inputs


def axes_that_move(
    function: Callable[[Any], Any], inputs: Any, axes: Sequence[Sequence[str]]
) -> tuple[Any, Any]:
    """Return the shapes of a function's results, and the axes that each of them depends on.

    Each axis, a list of paths that move together, gets a dimension of its own: one that touches a
    result shows in the result's shape. A path may move with several axes.
    """
    for path in {path for paths in axes for path in paths}:
        shape = tuple(2 if path in paths else 1 for paths in axes)
        inputs = replace_at(inputs, path, jax.ShapeDtypeStruct(shape, jnp.float64))
    shapes = jax.eval_shape(function, inputs)
    moved = jax.tree.map(lambda leaf: {d for d, n in enumerate(leaf.shape) if n > 1}, shapes)
    return shapes, moved


def _is_set(value: Any) -> bool:
    return isinstance(value, set)
