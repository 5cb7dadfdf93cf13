"""Lists of plans that are a product: every split with every value of the last fields.

A result of such plans has a dimension for each of the last fields, so that a term which one of
them does not move is evaluated once for all its values.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxroof.engine.grid.threads import by_threads

ROWS = 1 << 12  # splits evaluated at a time, so that what is written stays in the cache


def last_fields(plans: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the values of the last fields of which every combination follows every split.

    >>> plans = {"data": [1, 1, 1, 1, 2, 2, 2, 2], "stage": [0, 0, 1, 1] * 2, "off": [0, 1] * 4}
    >>> found = last_fields({name: np.array(column) for name, column in plans.items()})
    >>> {name: values.tolist() for name, values in found.items()}
    {'stage': [0, 1], 'off': [0, 1]}
    """
    count = len(next(iter(plans.values())))
    found: dict[str, np.ndarray] = {}
    inner = 1  # combinations of the fields that are found
    for name in list(plans)[:0:-1]:
        blocks = plans[name].reshape(-1, inner)
        outer = blocks[:, 0]
        falls = np.flatnonzero(outer[1:] <= outer[:-1])
        length = 1 + int(falls[0]) if len(falls) else len(outer)
        if length < 2 and np.all(plans[name] == plans[name][0]):  # one value, of every plan
            found = {name: outer[:1], **found}
            continue
        if length < 2 or count % (inner * length) or np.any(blocks != outer[:, None]):
            break
        if np.any(outer.reshape(-1, length) != outer[:length]):
            break
        found, inner = {name: outer[:length], **found}, inner * length
    return found


def by_split(
    function: Callable[[dict[str, np.ndarray]], Any],
    plans: Mapping[str, np.ndarray],
    last: Mapping[str, np.ndarray],
) -> np.ndarray:
    """Return a function of columns of plans, each of its last fields along a dimension of its own.

    Arguments: ``function`` of float64 columns that broadcast, ``last`` from ``last_fields``.
    """
    shape = tuple(map(len, last.values()))
    inner, rank = int(np.prod(shape)), len(shape)
    values = (column.astype(np.float64) for column in last.values())
    wide = dict(zip(last, np.ix_(*values), strict=True))
    splits = {f: column[::inner].astype(np.float64) for f, column in plans.items() if f not in last}
    count = len(next(iter(splits.values())))
    found, starts = np.empty((count, *shape)), range(0, count, ROWS)

    def piece(start: int) -> Any:
        some = {f: column[start : start + ROWS] for f, column in splits.items()}
        return function({f: c.reshape(-1, *(1,) * rank) for f, c in some.items()} | wide)

    for start, values in zip(starts, by_threads(piece, starts, len(starts)), strict=True):
        found[start : start + ROWS] = values
    return found.ravel()
