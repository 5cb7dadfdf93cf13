"""Switches of the best plan along parameters in which its cost is not convex: seen at factors.

Every lane's best plan is exact. A switch between two neighbouring factors is where the costs of
their two best plans cross; a plan that is best only between two factors is not seen.
"""

from collections.abc import Iterator

import numpy as np

from jaxroof.engine.sensitivity.envelope import Intervals, changes
from jaxroof.engine.sensitivity.parameter_lanes import LOOK, ParameterLanes, costs_at
from jaxroof.engine.sensitivity.switches import BestPlans
from jaxroof.estimator import TIE

CUTS, PARTS = 10, 16  # a logarithmic cell is cut so often into so many: its switch to rounding


def sampled_lanes(lanes: ParameterLanes) -> tuple[BestPlans, Intervals]:
    """Return the best plans of all lanes, and the intervals of each best plan between them."""
    best, cost = _best_of_lanes(lanes, np.arange(len(lanes)))
    middle = len(lanes.factors) // 2
    today = int(best[0, middle])
    (kept,) = _costs(lanes, np.array([today]))
    way = np.ones(len(lanes.paths), int)
    return BestPlans(way, best, cost, kept, today), _intervals(lanes, best)


def _costs(lanes: ParameterLanes, plans: np.ndarray) -> np.ndarray:
    """Return the costs of plans, [plan, parameter, factor]."""
    shape = (len(plans), len(lanes.paths), len(lanes.factors))
    values = lanes.objectives(plans)[:, : shape[1] * shape[2]].reshape(shape)
    return values if lanes.question.sign > 0 else -1.0 / values


def _batches(plans: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(plans), LOOK):
        yield plans[start : start + LOOK]


def _best_of_lanes(lanes: ParameterLanes, plans: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best plan of every lane and its cost, ties to the plan of less need."""
    shape = (len(lanes.paths), len(lanes.factors))
    best, least = np.zeros(shape, int), np.full(shape, np.inf)
    for batch in _batches(plans):
        cost = _costs(lanes, batch)
        lower = cost.min(axis=0)
        first = np.argmax(cost <= lower * (1.0 + TIE), axis=0)
        better = lower < least * (1.0 - TIE)
        best = np.where(better, batch[first], best)
        least = np.where(better, np.take_along_axis(cost, first[None], 0)[0], least)
    return best, least


def _intervals(lanes: ParameterLanes, best: np.ndarray) -> Intervals:
    """Return the intervals between the factors, cut where the two best plans of a cell cross."""
    factors, rows = lanes.factors, len(lanes.paths)
    row, cell = (place.ravel() for place in np.indices((rows, len(factors) - 3)))
    cell = cell + 1
    first, last = best[row, cell], best[row, cell + 1]
    low, high = np.log(factors[cell]), np.log(factors[cell + 1])
    cut = np.exp(low)
    other = np.flatnonzero(first != last)
    if len(other):
        a, width = low[other], high[other] - low[other]
        plans = np.concatenate([first[other], last[other]])
        plans, moved = (np.tile(some, PARTS - 1) for some in (plans, np.tile(row[other], 2)))
        part = np.arange(1, PARTS)[:, None] / PARTS
        for _ in range(CUTS):
            factor = np.tile(np.exp(a + width * part), 2).ravel()
            cost = costs_at(lanes, plans, moved, factor)
            before, behind = np.split(cost.reshape(len(part), -1), 2, 1)
            ahead = np.vstack([behind < before, np.ones(len(a), bool)])
            a, width = a + width * (ahead.argmax(axis=0) / PARTS), width / PARTS
        cut[other] = np.exp(a + 0.5 * width)
    start = factors[cell]
    both = Intervals(
        np.tile(row, 2),
        np.concatenate([start, np.where(first == last, start, cut)]),
        np.concatenate([first, last]),
        np.tile(start, 2),
    )
    return changes([both])
