"""Exact slopes of a result at many points: forward mode, all parameters vectorized.

Forward mode differentiates through every kind of loop and compiles in half the time of reverse
mode. Reverse mode runs a few milliseconds faster per map (``benchmarks/sensitivity_speed.py``).
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.engine.grid.evaluate import pad_points
from jaxroof.estimator import Estimator, results
from jaxroof.records import field_at, get_at, leaves, replace_at

ROOMS = (64, 4096)  # points per call: few shapes, so few compiles
EPSILON = 1e-10  # relative to a parameter: a point closer to a kink than this counts as on it
SAME = 1e-6  # relative to the result: slopes that differ by less count as equal
SLIGHT = 1e-8  # relative to the result: least jump, all parameters moved, of a kink


class OneSided(NamedTuple):
    """A result and its one-sided slopes, d value / d ln(parameter)."""

    value: np.ndarray  # [points]
    above: np.ndarray  # [points, parameters], for an increase of the parameter
    below: np.ndarray  # [points, parameters], for a decrease
    tie: np.ndarray  # [points, parameters], true where they differ: the point lies on a kink


def slopes(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    paths: Sequence[str],
    name: str,
    ways: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return a result and its slopes d value / d ln(parameter) at every point.

    Leaves of ``inputs``, the plan's included, are scalars or columns of one length. On a kink the
    slope is that of one side (see ``one_sided_slopes``). ``ways`` [way, parameter] holds
    directions; slopes are taken along them instead of along each parameter.
    Returns: value [points], slopes [points, parameters].
    """
    columns = {path: np.asarray(value, np.float64) for path, _, value in leaves(inputs)}
    count = max((len(column) for column in columns.values() if column.ndim), default=1)
    recipe = estimator.sized_recipe(inputs, recipe)
    most = ROOMS[-1] if estimator.sizing is None else estimator.sizing.batch(recipe)
    room = min([most, *(size for size in ROOMS if size >= min(count, most))])
    ways = np.eye(len(paths)) if ways is None else ways
    values, each = np.empty(count), np.empty((count, len(ways)))
    for start in range(0, count, room):
        part = slice(start, min(start + room, count))
        chunk = inputs
        for path, column in columns.items():
            some = pad_points(column[part], room) if column.ndim else column
            chunk = replace_at(chunk, path, some)
        found, slope = directional_slopes(estimator, recipe, tuple(paths), name, chunk, ways)
        values[part] = np.broadcast_to(found, (room,))[: part.stop - start]
        wide = np.asarray(slope).reshape(len(ways), -1)
        each[part] = np.broadcast_to(wide, (len(ways), room)).T[: part.stop - start]
    return values, each


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def directional_slopes(
    estimator: Estimator,
    recipe: Any,
    paths: tuple[str, ...],
    name: str,
    inputs: Any,
    ways: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Return a result [points] and its slopes [ways, points], d value / d ln(parameter).

    Leaves of the inputs are numbers, or columns of one length; ``ways`` [way, parameter].
    """

    def result(change: jax.Array) -> jax.Array:
        moved = scale_parameters(inputs, paths, 1.0 + change)
        return jnp.asarray(results(estimator.evaluate(moved, recipe))[name])

    still = jnp.zeros(len(paths))
    return jax.vmap(lambda way: jax.jvp(result, (still,), (way,)), out_axes=(None, 0))(ways)


def one_sided_slopes(
    estimator: Estimator, recipe: Any, inputs: Any, paths: Sequence[str], name: str
) -> OneSided:
    """Return a result and its slopes to both sides, which differ where the point is on a kink.

    A kink is a point where two terms tie for the maximum. It is detected by comparing the slopes
    just before and just behind the point, along a direction that moves all parameters unequally.
    At a kink each parameter is then moved slightly by itself. A whole number is differentiated as
    a real number but not moved, since its quotients would round to another whole number. It has
    one slope.
    """
    value, slope = slopes(estimator, recipe, inputs, paths, name)
    above, below = slope.copy(), slope.copy()
    free = np.array([not field_at(inputs, path).metadata["whole"] for path in paths])
    way = free * (1.0 + np.arange(len(paths)) / len(paths))
    scale = np.maximum(np.abs(value), np.finfo(float).tiny)
    ridge = np.flatnonzero(_jump(estimator, recipe, inputs, paths, name, way) > SLIGHT * scale)
    if len(ridge):
        own = np.flatnonzero(free)
        some = _taken(inputs, np.repeat(ridge, len(own)), len(value))
        one = EPSILON * np.tile(np.eye(len(paths))[own], (len(ridge), 1))
        for side, sign in ((above, 1.0), (below, -1.0)):
            moved = scale_parameters(some, paths, 1.0 + sign * one)
            each = slopes(estimator, recipe, moved, paths, name)[1]
            each = each.reshape(len(ridge), len(own), len(paths))
            side[np.ix_(ridge, own)] = each[:, np.arange(len(own)), own]
    tie = np.abs(above - below) > SAME * scale[:, None]
    return OneSided(value, np.where(tie, above, slope), np.where(tie, below, slope), tie)


def _jump(
    estimator: Estimator, recipe: Any, inputs: Any, paths: Sequence[str], name: str, way: np.ndarray
) -> np.ndarray:
    """Return how much the slope along a direction changes across every point."""
    few = all(np.size(leaf) <= ROOMS[0] for _, _, leaf in leaves(inputs))
    # few points: pad the directions to reuse the program that is already compiled for the slopes
    ways = way[None] * np.eye(len(paths) if few else 1, 1)
    before, behind = (
        slopes(
            estimator,
            recipe,
            scale_parameters(inputs, paths, 1.0 + sign * EPSILON * way),
            paths,
            name,
            ways,
        )[1]
        for sign in (-1.0, 1.0)
    )
    return np.abs(behind - before)[:, 0]


def scale_parameters(inputs: Any, paths: Sequence[str], factors: Any) -> Any:
    """Return the inputs with each parameter times its factor [..., parameter]."""
    for number, path in enumerate(paths):
        inputs = replace_at(inputs, path, get_at(inputs, path) * factors[..., number])
    return inputs


def _taken(inputs: Any, rows: np.ndarray, count: int) -> Any:
    """Return the inputs at some of their points."""
    for path, _, value in list(leaves(inputs)):
        column = np.broadcast_to(np.asarray(value, np.float64), (count,))
        inputs = replace_at(inputs, path, column[rows])
    return inputs
