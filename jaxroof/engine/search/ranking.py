"""The ranking of surveyed plans: by objective, ties by need, then by position in the survey."""

import numpy as np
import xarray as xr

from jaxroof.engine.search.distinct_rows import distinct_rows
from jaxroof.estimator import TIE, Estimator


def rank_plans(
    estimator: Estimator, data: xr.Dataset, objective: str, sign: float, mask: np.ndarray
) -> np.ndarray:
    """Return the positions of the surveyed plans in the mask, best first."""
    value = sign * data[objective].values
    need = data[estimator.need].values if estimator.need else np.zeros(len(value))
    return ranking_order(value, need, mask)


def ranking_order(value: np.ndarray, need: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the positions in the mask, least value first; ties go to the least need."""
    allowed = np.flatnonzero(mask)
    order = allowed[np.lexsort((allowed, need[allowed], value[allowed]))]
    start = 0
    for stop in range(1, len(order) + 1):
        least = value[order[start]]
        if stop < len(order) and value[order[stop]] <= least + TIE * abs(least):
            continue
        if stop - start > 1:  # a run of ties
            run = order[start:stop]
            order[start:stop] = run[np.lexsort((run, need[run]))]
        start = stop
    return order


def first_of_each(estimator: Estimator, data: xr.Dataset, order: np.ndarray) -> np.ndarray:
    """Return the first position of each split in ``order``: its best placement."""
    assert estimator.plan is not None
    fields = [f for f in data.data_vars if f in estimator.plan.__dataclass_fields__]
    kinds = [data[f].values[order] for f in fields if f not in estimator.placement]
    if not len(order):
        return order
    first, _ = distinct_rows(kinds)
    return order[np.sort(first)]
