"""What each of several lists of plans needs, such as memory."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.search.plan_grid import by_split
from jaxroof.estimator import Candidates, Estimator, reads
from jaxroof.records import get_at, leaves, replace_at, with_named_absences


def needs_of(
    estimator: Estimator, recipe: Any, asked: Sequence[Any], plans: Sequence[Candidates]
) -> list[np.ndarray]:
    """Return the need of each plan, by NumPy split by split where it depends on no part.

    Otherwise it is evaluated for all problems as one list of points.
    """
    counts = [some.size for some in plans]
    if not estimator.need or sum(counts) == 0:
        return [np.zeros(count) for count in counts]
    alone = estimator.alone.get(estimator.need)
    rows = sum(some.rows for some in plans)
    if (
        alone is not None
        and not reads(alone)
        and executor_of(estimator, recipe, asked[0], rows) == NUMPY
    ):
        return [
            by_split(functools.partial(_need, estimator, recipe, inputs), some)
            for inputs, some in zip(asked, plans, strict=True)
        ]
    inputs = asked[0]
    for path, _, _ in list(leaves(inputs)):
        values = np.array([float(get_at(a, path)) for a in asked])
        if np.any(values != values[0]):
            inputs = replace_at(inputs, path, np.repeat(values, counts))
    lists = [some.whole() for some in plans]
    columns = {f: np.concatenate([p[f] for p in lists]).astype(np.float64) for f in lists[0]}
    assert estimator.plan is not None
    inputs = dataclasses.replace(inputs, plan=estimator.plan(**columns))
    need = evaluate_points(estimator, recipe, inputs, estimator.need)[estimator.need]
    return np.split(need, np.cumsum(counts)[:-1])


def _need(
    estimator: Estimator, recipe: Any, inputs: Any, fields: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Return the need of columns of plans, which broadcast."""
    assert estimator.plan is not None
    asked = with_named_absences(dataclasses.replace(inputs, plan=estimator.plan(**fields)))
    with np.errstate(all="ignore"):
        return np.asarray(estimator.result(estimator.need, asked, recipe, {}))
