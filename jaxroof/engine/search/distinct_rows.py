"""Distinct rows of columns of whole numbers, found without sorting where that is quicker."""

from collections.abc import Sequence

import numpy as np

LOOKUP = 1 << 20  # entries of a table that is looked up instead of sorting


def distinct_rows(columns: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return (first index of each distinct row, index of the distinct row of each row).

    >>> first, number = distinct_rows([np.array([4, 2, 4]), np.array([1, 1, 1])])
    >>> first.tolist(), number.tolist()
    ([1, 0], [1, 0, 1])
    """
    count, number = 1, np.zeros(len(columns[0]), np.int64)
    for column in columns:
        different, index = _renumbered(column)
        # renumber after each column, so that the products of counts stay small
        count, number = _renumbered(number * different + index)
    first = np.zeros(count if len(number) else 0, np.int64)
    first[number[::-1]] = np.arange(len(number))[::-1]  # the first row is written last
    return first, number.astype(np.int32)


def _renumbered(values: np.ndarray) -> tuple[int, np.ndarray]:
    """Return how many different whole numbers there are, and the rank of each."""
    most = int(values.max(initial=0))
    if most > 4 * len(values) + LOOKUP:  # too sparse for a table of all numbers
        different, index = np.unique(values, return_inverse=True)
        return len(different), index
    there = np.zeros(most + 1, np.int64)
    there[values] = 1
    rank = np.cumsum(there) - 1
    return int(rank[-1]) + 1, rank[values]
