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


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def evaluated(estimator: Estimator, recipe: Any, names: tuple[str, ...] | None, inputs: Any) -> Any:
    """Return the report, or a mapping of the results named, of one compiled evaluation."""
    report = jax.tree.map(jnp.asarray, estimator.evaluate(inputs, recipe))
    return report if names is None else {name: results(report)[name] for name in names}


def at_points(
    estimator: Estimator, recipe: Any, inputs: Any, names: tuple[str, ...] | None = None
) -> dict[str, np.ndarray]:
    """Return results at every point: leaves of the inputs are scalars or columns of one length."""
    columns = {path: value for path, _, value in leaves(inputs) if np.ndim(value) == 1}
    count = max((len(column) for column in columns.values()), default=1)
    found: dict[str, list[np.ndarray]] = {}
    for start in range(0, max(count, 1), CHUNK):
        some = slice(start, min(start + CHUNK, count))
        size = some.stop - some.start
        chunk = inputs
        for path, column in columns.items():
            chunk = replace_at(chunk, path, padded(column[some], CHUNK))
        for name, value in results(evaluated(estimator, recipe, names, chunk)).items():
            array = np.asarray(value)
            column = array[:size] if array.ndim else np.broadcast_to(array, (size,))
            found.setdefault(name, []).append(column)
    return {name: np.concatenate(chunks) for name, chunks in found.items()}
