"""The best plans at every bound of several limits, from one evaluation of each plan.

A plan is within a limit from the first bound on that is not below its result. The numbers of these
bounds, one for each limit, are its cell. Each cell keeps the least objective of its plans, and a
running minimum along each limit gives the least objective at every combination of bounds.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from jaxroof.estimator import FAR, TIE

PAIRS = 1 << 20  # of a plan and a combination of bounds, compared at a time


def firsts(
    values: np.ndarray, cells: Sequence[np.ndarray], bounds: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plan at every combination of bounds, of a tie the first, and its value.

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
    least, first = np.full(math.prod(shape), FAR), np.full(math.prod(shape), float(count))
    np.minimum.at(least, flat.ravel(), values.ravel())
    exact = values == least[flat]
    places = np.broadcast_to(np.arange(count, dtype=np.float64)[:, None], flat.shape)
    np.minimum.at(first, flat[exact], places[exact])
    best = np.empty(shape, np.complex128)  # compared by their real parts, then the imaginary ones
    best.real, best.imag = least.reshape(shape), first.reshape(shape)
    for limit in range(len(bounds)):
        best = np.minimum.accumulate(best, axis=limit)
    most = best.real + TIE * np.abs(best.real)
    # no other plan of its cell or a tighter one is as good and comes before it
    ties = (values <= most.reshape(-1)[flat]) & (places <= best.imag.reshape(-1)[flat])
    inside = tuple(slice(0, number) for number in bounds)
    first = _first_ties(values, cells, *_close(values, ties), most[inside], best.imag[inside])
    some = best.real[inside] < FAR
    position = np.where(some, first, 0.0).astype(np.int64)
    return np.where(some, position, -1), np.where(some, values[position, np.arange(lanes)], 0.0)


def _close(values: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return plans and lanes of some values that are within a tie above the next one in the lane.

    The others tie with nothing but their equals.
    """
    plan, lane = np.nonzero(some)
    order = np.lexsort((values[plan, lane], lane))
    plan, lane = plan[order], lane[order]
    value = values[plan, lane]
    new = np.append(True, (np.diff(value) > 0.0) | (np.diff(lane) > 0))[: len(plan)]
    run = np.maximum.accumulate(np.where(new, np.arange(len(plan)), 0))  # the first of its equals
    below = np.maximum(run - 1, 0)
    near = (lane[below] == lane) & (value <= value[below] + TIE * np.abs(value[below])) & (run > 0)
    return plan[near], lane[near]


def _first_ties(
    values: np.ndarray,
    cells: Sequence[np.ndarray],
    plans: np.ndarray,
    lanes: np.ndarray,
    most: np.ndarray,
    first: np.ndarray,
) -> np.ndarray:
    """Return the first plan that is as good as the least, [*bounds, lane].

    Arguments: ``plans`` and their ``lanes`` that may come before ``first``, the first plan of the
    least value, and tie with it; ``most``, the largest value of a tie, [*bounds, lane].
    """
    rank = first.ndim - 1
    first, most = (np.moveaxis(one, -1, 0).copy() for one in (first, most))  # lanes first
    size = max(1, PAIRS // max(1, math.prod(first.shape[1:])))
    for start in range(0, len(plans), size):
        plan, lane = plans[start : start + size], lanes[start : start + size]
        tall = (-1, *(1,) * rank)
        held = values[plan, lane].reshape(tall) <= most[lane]
        for limit, cell in enumerate(cells):
            own = cell[plan, lane if cell.shape[1] > 1 else 0].reshape(tall)
            along = [1] * (rank + 1)
            along[limit + 1] = -1
            held &= own <= np.arange(first.shape[limit + 1]).reshape(along)
        np.minimum.at(first, lane, np.where(held, plan.reshape(tall), np.inf))
    return np.moveaxis(first, 0, -1)


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

    Less is better of both; a point whose value is FAR cannot win. Values within 1e-12 of the least
    are tied. Ties go to the point that comes first in an ``order``, by default that of the result.

    >>> frontier_of(np.array([3.0, 1.0, 2.0, 2.0]), np.array([5.0, 9.0, 9.0, 7.0]))
    array([1, 3, 0])
    """
    order = np.argsort(swept, kind="stable") if order is None else order
    bounds, cell = np.unique(swept[order], return_inverse=True)
    best, _ = firsts(value[order][:, None], [cell.reshape(-1, 1)], [len(bounds)])
    steps = np.unique(best[best >= 0])
    return order[steps[np.argsort(swept[order][steps], kind="stable")]]
