"""Results of lists of plans that are a product: every split with every value of the last fields.

A result of such plans has a dimension for each of the last fields, so that a term which one of
them does not move is evaluated once for all its values. While they are evaluated, splits are the
last dimension: the only long one, along which NumPy is quick.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.engine.grid.threads import by_threads
from jaxroof.estimator import Candidates

# splits evaluated at a time: as many as the cache holds, and no power of two, since rows that lie
# one apart would then fall on the same lines of it
ROWS = 12_000


def by_split(function: Callable[[dict[str, np.ndarray]], Any], plans: Candidates) -> np.ndarray:
    """Return a function of all plans, each field of their product along a dimension of its own.

    Arguments: ``function`` of float64 columns that broadcast.
    """
    values = (column.astype(np.float64) for column in plans.product.values())
    wide = {f: v[..., None] for f, v in zip(plans.product, np.ix_(*values), strict=True)}
    found, starts = np.empty(plans.shape), range(0, plans.rows, ROWS)

    def piece(start: int) -> Any:
        some = {f: column[start : start + ROWS] for f, column in plans.plans.items()}
        return function({f: column.astype(np.float64) for f, column in some.items()} | wide)

    for start, result in zip(starts, by_threads(piece, starts, len(starts)), strict=True):
        here = found[start : start + ROWS]
        np.moveaxis(here, 0, -1)[...] = result
    return found.ravel()
