"""Results of lists of plans that are a product: every split with every value of the last fields.

A result of such plans has a dimension for each of the last fields, so that a term which one of
them does not move is evaluated once for all its values.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.engine.grid.threads import by_threads
from jaxroof.estimator import Candidates

ROWS = 1 << 12  # splits evaluated at a time, so that what is written stays in the cache


def by_split(function: Callable[[dict[str, np.ndarray]], Any], plans: Candidates) -> np.ndarray:
    """Return a function of all plans, each field of their product along a dimension of its own.

    Arguments: ``function`` of float64 columns that broadcast.
    """
    rank = len(plans.product)
    values = (column.astype(np.float64) for column in plans.product.values())
    wide = dict(zip(plans.product, np.ix_(*values), strict=True))
    found, starts = np.empty(plans.shape), range(0, plans.rows, ROWS)

    def piece(start: int) -> Any:
        some = {f: column[start : start + ROWS] for f, column in plans.plans.items()}
        tall = {f: c.astype(np.float64).reshape(-1, *(1,) * rank) for f, c in some.items()}
        return function(tall | wide)

    for start, values in zip(starts, by_threads(piece, starts, len(starts)), strict=True):
        found[start : start + ROWS] = values
    return found.ravel()
