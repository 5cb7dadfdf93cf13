"""Slopes at many points by a compiled program: forward mode, all parameters vectorized.

Forward mode differentiates through every kind of loop and compiles in half the time of reverse
mode. Reverse mode runs a few milliseconds faster per map (``benchmarks/sensitivity_speed.py``).
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.chunks import pad_points
from jaxroof.engine.grid.compiled import keep_programs
from jaxroof.engine.sensitivity.moved_inputs import scale_parameters
from jaxroof.estimator import Estimator
from jaxroof.records import leaves, replace_at
from jaxroof.structure import results

keep_programs()

ROOMS = (64, 4096)  # points per call: few shapes, so few compiles


def slopes(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    paths: Sequence[str],
    name: str,
    ways: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same as ``derivatives.slopes``, a chunk of points at a time."""
    columns = {path: np.asarray(value, np.float64) for path, _, value in leaves(inputs)}
    count = column_length(inputs)
    recipe = estimator.sized_recipe(inputs, recipe)
    most = ROOMS[-1] if estimator.sizing is None else estimator.sizing.batch(recipe)
    room = min([most, *(size for size in ROOMS if size >= min(count, most))])
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
