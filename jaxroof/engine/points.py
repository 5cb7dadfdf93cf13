"""Evaluation at a list of points, in chunks of one shape, so that memory stays flat."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.estimator import Estimator
from jaxroof.records import leaves, replace_at

CHUNK = 4096  # points a call: one compile for all short lists


def results(report: Any) -> dict[str, Any]:
    """Return the named results of an estimator's report: a record, a mapping, or one array."""
    if dataclasses.is_dataclass(report):
        return {f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
    return dict(report) if isinstance(report, Mapping) else {"value": report}


def padded(column: np.ndarray, size: int) -> np.ndarray:
    """Return a column lengthened to ``size`` by its last value (1 where it has none).

    >>> padded(np.array([2.0, 3.0]), 4).tolist()
    [2.0, 3.0, 3.0, 3.0]
    """
    last = column[-1:] if len(column) else np.ones(1, column.dtype)
    return np.concatenate([column, np.repeat(last, size - len(column))])


@functools.partial(jax.jit, static_argnums=(0, 1))
def evaluated(estimator: Estimator, recipe: Any, inputs: Any) -> Any:
    """Return the report of one compiled evaluation."""
    return jax.tree.map(jnp.asarray, estimator.evaluate(inputs, recipe))


def at_points(estimator: Estimator, recipe: Any, inputs: Any) -> dict[str, np.ndarray]:
    """Return results at every point: leaves of the inputs are scalars or columns of one length.

    Every leaf goes in as a column, so that one program serves whatever varies.
    """
    columns = {path: np.asarray(value, np.float64) for path, _, value in leaves(inputs)}
    count = max((len(column) for column in columns.values() if column.ndim), default=1)
    found: dict[str, list[np.ndarray]] = {}
    for start in range(0, max(count, 1), CHUNK):
        size = min(CHUNK, count - start)
        chunk = inputs
        for path, column in columns.items():
            some = column[start : start + size] if column.ndim else column[None]
            chunk = replace_at(chunk, path, padded(some, CHUNK))
        for name, value in results(evaluated(estimator, recipe, chunk)).items():
            array = np.asarray(value)
            column = array[:size] if array.ndim else np.broadcast_to(array, (size,))
            found.setdefault(name, []).append(column)
    return {name: np.concatenate(chunks) for name, chunks in found.items()}
