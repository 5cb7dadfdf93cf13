"""The best plans at every bound of several limits, from one evaluation of each plan.

A plan is within a limit from the first bound on that is not below its result. The numbers of these
bounds, one for each limit, are its cell. Each cell keeps the place in the ranking of its best plan,
and a running minimum along each limit gives the best plan at every combination of bounds.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxroof.estimator import FAR, TIE


def firsts(
    values: np.ndarray, cells: Sequence[np.ndarray], bounds: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plan at every combination of bounds, of a tie the first, and its value.

    Values in a row, each within 1e-12 of the one before it, are tied.

    Arguments: ``values`` [plan, lane], less is better, FAR for a plan that cannot win; for each
    limit the ``cells``, [plan, lane] or [plan, 1], numbers of bounds from 0, and how many
    ``bounds`` there are, which is the number of a plan that is within none.
    Returns: positions (-1 where no plan is) and values, [*bounds, lane].
    """
    count, lanes = values.shape
    if not count:
        return np.full((*bounds, lanes), -1), np.zeros((*bounds, lanes))
    shape = (*(number + 1 for number in bounds), lanes)
    flat = np.zeros((count, 1), np.int64)
    for cell, number in zip(cells, bounds, strict=True):
        flat = flat * (number + 1) + cell
    flat = flat * lanes + np.arange(lanes)
    least = _running(shape, flat, values, FAR)
    near = values <= (least + TIE * np.abs(least)).reshape(-1)[flat]  # no other plan can win
    plan, lane = _ranked(values, *np.nonzero(near & (values < FAR)))
    best = _running(shape, flat[plan, lane], np.arange(len(plan)), len(plan))
    best = best[tuple(slice(0, number) for number in bounds)]
    position = np.append(plan, -1)[best]
    some = position >= 0
    return position, np.where(some, values[position, np.arange(lanes)], 0.0)


def _running(shape: Sequence[int], flat: np.ndarray, values: np.ndarray, none: float) -> np.ndarray:
    """Return the least value of each cell and those before it along every limit."""
    least = np.full(math.prod(shape), none)
    np.minimum.at(least, flat.ravel(), values.ravel())
    least = least.reshape(shape)
    for limit in range(len(shape) - 1):
        least = np.minimum.accumulate(least, axis=limit)
    return least


def _ranked(
    values: np.ndarray, plan: np.ndarray, lane: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return plans and lanes in order of their values in each lane; of a tie the first plan."""
    order = np.lexsort((values[plan, lane], lane))
    plan, lane = plan[order], lane[order]
    rising = values[plan, lane]
    more = np.diff(rising, prepend=0.0) > TIE * np.abs(rising)
    order = np.lexsort((plan, np.cumsum(more | (np.diff(lane, prepend=0) > 0))))
    return plan[order], lane[order]


def cells_of(results: np.ndarray, bounds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of each result, and the number of each bound by increasing size.

    >>> cells_of(np.array([0.5, 2.0, 9.0]), np.array([4.0, 2.0, 1.0]))
    (array([0, 1, 3]), array([2, 1, 0]))
    """
    order = np.argsort(bounds, kind="stable")
    return np.searchsorted(bounds[order], results, side="left"), np.argsort(order, kind="stable")


def misses(
    results: Mapping[str, np.ndarray], bounds: Mapping[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return how many plans each limit excludes, and by how much the nearest plan misses it.

    The nearest is one of those within the other limits; of all plans, where there are none.
    Arguments: by limit the results [plan] of one plan or more, and the bounds [point].
    Returns: by limit, [point] each.
    """
    levels = {name: np.unique(some) for name, some in bounds.items()}
    cells = {name: cells_of(results[name], some)[0] for name, some in levels.items()}
    places = {name: np.searchsorted(levels[name], some) for name, some in bounds.items()}
    found = {}
    for name, result in results.items():
        others = [other for other in results if other != name]
        shape = [len(levels[other]) + 1 for other in others] or [1]
        flat = np.zeros(len(result), np.int64)
        for other, size in zip(others, shape, strict=False):
            flat = flat * size + cells[other]
        least = np.full(math.prod(shape), np.inf)
        np.minimum.at(least, flat, result)
        least = least.reshape(shape)
        for limit in range(len(shape)):
            least = np.minimum.accumulate(least, axis=limit)
        near = least[tuple(places[other] for other in others) or (0,)]
        near = np.where(np.isfinite(near), near, result.min())
        count = len(result) - np.searchsorted(np.sort(result), bounds[name], side="right")
        found[name] = count, np.maximum(near - bounds[name], 0.0)
    return found


def frontier_of(
    swept: np.ndarray, value: np.ndarray, order: np.ndarray | None = None
) -> np.ndarray:
    """Return the positions of the points that win at some bound of a result, that rising.

    Less is better of both; a point whose value is FAR cannot win. Ties are those of ``firsts``;
    they go to the point that comes first in an ``order``, by default that of the result.

    >>> frontier_of(np.array([3.0, 1.0, 2.0, 2.0]), np.array([5.0, 9.0, 9.0, 7.0]))
    array([1, 3, 0])
    """
    order = np.argsort(swept, kind="stable") if order is None else order
    bounds, cell = np.unique(swept[order], return_inverse=True)
    best, _ = firsts(value[order][:, None], [cell.reshape(-1, 1)], [len(bounds)])
    steps = np.unique(best[best >= 0])
    return order[steps[np.argsort(swept[order][steps], kind="stable")]]
