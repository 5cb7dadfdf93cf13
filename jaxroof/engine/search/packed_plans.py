"""The plans of several problems as arrays of one shape on the devices, for compiled folds."""

import functools
from typing import Any

import numpy as np

from jaxroof.engine.grid.chunks import pad_points
from jaxroof.engine.search.candidates import PreparedPlans, Sizes, distinct_part_rows
from jaxroof.engine.search.fold import Distinct, Plans, replicate
from jaxroof.estimator import Estimator, reads

NARROW = np.iinfo(np.uint16).max  # plans whose numbers are all this small take half the memory


@functools.lru_cache(maxsize=2)
def pack_plans(estimator: Estimator, ready: PreparedPlans, sizes: Sizes) -> tuple[Distinct, Plans]:
    """Return the distinct rows of each part and the plans of several problems, both padded."""
    count = np.array([len(q) for q in ready.plans])
    largest = max((int(c.max(initial=0)) for q in ready.plans for c in q.plans.values()), default=0)
    narrow = np.uint16 if max(largest, *sizes.rows, 0) <= NARROW else np.uint32
    together = ready.every

    def square(values: np.ndarray, kind: Any) -> Any:
        rows = np.ones((sizes.questions, sizes.plans), kind)
        for row, column in zip(rows, np.split(values, np.cumsum(count)[:-1]), strict=False):
            row[: len(column)] = column
            row[len(column) :] = column[-1] if len(column) else 0
        return rows

    distinct: Distinct = {}
    numbers = {}
    found, _ = distinct_part_rows(estimator, ready)
    for (name, (first, number)), size in zip(found.items(), sizes.rows, strict=True):
        fields = reads(estimator.parts[name])
        distinct[name] = {
            f: pad_points(together[f][first].astype(np.float64), size) for f in fields
        }
        numbers[name] = square(number, narrow)
    plans = Plans(
        fields={f: square(column, narrow) for f, column in together.items()},
        rows=numbers,
        split=square(np.concatenate([q.split for q in ready.plans]), np.int32),
        counts=np.pad(count, (0, sizes.questions - len(count))),
    )
    return replicate(distinct), replicate(plans)
