"""All switches of the best plan: one machine swept along each parameter.

Each parameter is multiplied by factors, with one lane for each factor. A plan's cost is monotone
along a parameter, so few plans can win between two lanes. Where costs are convex, those that the
envelope cannot rule out are evaluated exactly; else switches are seen at the factors.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.executor import NUMPY
from jaxroof.engine.search.candidates import PreparedPlans, subset
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.best_at_factors import best_at_factors
from jaxroof.engine.sensitivity.envelope import (
    Cells,
    CellWinners,
    Intervals,
    changes,
    envelope,
    first_contenders,
    split_at_crossing,
)
from jaxroof.engine.sensitivity.parameter_lanes import (
    ParameterLanes,
    costs_and_slopes,
    costs_at,
    parameter_lanes,
    plan_costs,
    share_saved,
)
from jaxroof.errors import InputError
from jaxroof.estimator import TIE
from jaxroof.records import field_at, get_at

EXACT, SAMPLED = "exact", "sampled"
SOME = 64  # plans that are checked first
CUTS, PARTS = 10, 16  # a logarithmic cell is cut so often into so many: its switch to rounding
SLACK = 1e-12  # relative to a cost: allowance for rounding


class BestPlans(NamedTuple):
    """The best plan of every lane, over (parameter, place); costs rise with the place."""

    way: np.ndarray  # [parameter], 1 or -1: a place is the factor to this power
    plan: np.ndarray  # position among those that fit
    cost: np.ndarray
    kept: np.ndarray  # cost of the current plan
    today: int  # position of the current plan
    open: int = 0  # intervals between two places that were not searched to the end

    def by_factor(self, column: np.ndarray) -> np.ndarray:
        """Reorder a column from (parameter, place) to (parameter, factor), without its margin."""
        return _turned(self.way, column)[:, 1:-1]


class Switches(NamedTuple):
    """Changes of the best plan, sorted by parameter and by distance from the current value."""

    row: np.ndarray  # of the parameter
    factor: np.ndarray
    plan: np.ndarray  # that takes over, going away from the current value
    until: np.ndarray  # factor where the next plan takes over
    cost: np.ndarray  # of the plan where it takes over
    gain: np.ndarray  # share of the current plan's cost that it saves at `until`

    def order(self) -> np.ndarray:
        """Return the number of each switch, counted by parameter and side of the current value."""
        side = 2 * self.row + (self.factor > 1.0)
        return np.tril(side[:, None] == side).sum(axis=1)


NOTHING = Switches(*(np.zeros(0, kind) for kind in (int, float, int, float, float, float)))


def best_plans(
    question: SearchProblem, ready: PreparedPlans, paths: Sequence[str], factors: np.ndarray
) -> tuple[ParameterLanes, BestPlans, Intervals, str]:
    """Return the lanes of the parameters, the best plans there, and how their switches are known.

    Where costs are not convex and the estimator bounds them, the lanes have the best plans alone.
    """
    estimator = question.estimator
    bounded = estimator.lower_bound is not None and question.objective == estimator.objective
    executor = NUMPY if bounded else None
    count = len(ready.plans[0])
    try:
        few = subset(ready, [np.unique(np.linspace(0, count - 1, SOME).astype(int))])
        some = parameter_lanes(question, few, paths, factors, executor)
        for _, cost in plan_costs(some, np.arange(len(some))):
            _check(some, _turned(_ways(cost), cost))
        lanes = parameter_lanes(question, ready, paths, factors, executor)
        return lanes, *_exact(lanes), EXACT
    except NotConvex:
        if bounded:
            ready = subset(ready, [best_at_factors(question, ready, paths, factors)])
        lanes = parameter_lanes(question, ready, paths, factors, executor)
        return lanes, *_sampled(lanes), SAMPLED


def _contenders(lanes: ParameterLanes) -> tuple[np.ndarray, np.ndarray]:
    """Return the plans that can win in any cell, and their costs [plan, parameter, factor].

    Between two lanes no plan costs less than at the cheaper one, and the best plan never costs
    more than at the dearer one.
    """
    plans, costs = np.zeros(0, int), np.zeros((0, len(lanes.paths), len(lanes.factors)))
    least = np.full(costs.shape[1:], np.inf)
    for some, cost in plan_costs(lanes, np.arange(len(lanes))):
        least = np.minimum(least, cost.min(axis=0))
        plans, costs = np.concatenate([plans, some]), np.concatenate([costs, cost])
        high = np.maximum(least[:, 1:], least[:, :-1]) * (1.0 + TIE)
        can = np.any(np.minimum(costs[..., 1:], costs[..., :-1]) <= high, axis=(1, 2))
        plans, costs = plans[can], costs[can]
    return plans, costs


def _ways(cost: np.ndarray) -> np.ndarray:
    """Return -1 for each parameter along which costs fall, else 1."""
    return np.where(cost[..., -1].sum(axis=0) <= cost[..., 0].sum(axis=0), -1, 1)


def _turned(way: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Reorder costs (..., parameter, factor) from factors to places, or from places to factors."""
    return np.where(way[:, None] < 0, cost[..., ::-1], cost)


def _best(way: np.ndarray, plan: np.ndarray, cost: np.ndarray) -> tuple[BestPlans, np.ndarray]:
    """Return the best plans of all lanes, and their numbers among those given."""
    least = cost.min(axis=0)
    first = np.argmax(cost <= least + TIE * np.abs(least), axis=0)
    won = np.take_along_axis(cost, first[None], axis=0)[0]
    today = int(first[0, first.shape[1] // 2])
    return BestPlans(way, plan[first], won, cost[today], int(plan[today])), first


def _exact(lanes: ParameterLanes) -> tuple[BestPlans, Intervals]:
    """Return the best plans of all lanes, and the intervals of each best plan between them.

    Raises: NotConvex.
    """
    plan, cost = _contenders(lanes)
    way = _ways(cost)
    cost = _turned(way, cost)
    _check(lanes, cost)
    best, first = _best(way, plan, cost)
    row, count = np.arange(len(first))[:, None], first.shape[1]
    a, b = np.arange(1, count - 2), np.arange(2, count - 1)  # the ends of the cells
    known = (cost[first[:, won], row, at] for won in (a, b) for at in (a, b))
    reign = CellWinners(best.plan[:, a], best.plan[:, b], *known)
    which, rows, cell = np.nonzero(first_contenders(lanes.factors, plan, cost, reign))
    won, left = _settled(lanes, way, reign, rows * len(a) + cell, plan[which])
    return best._replace(open=left), won


def _sampled(lanes: ParameterLanes) -> tuple[BestPlans, Intervals]:
    """Return the same where costs are not convex: switches are where the costs of two plans cross.

    The best plan of every lane is exact; one that is best only between two lanes is not seen.
    """
    plan, cost = _contenders(lanes)
    best, _ = _best(np.ones(len(lanes.paths), int), plan, cost)
    factors, rows = lanes.factors, len(lanes.paths)
    row, cell = (place.ravel() for place in np.indices((rows, len(factors) - 3)))
    cell = cell + 1
    first, last = best.plan[row, cell], best.plan[row, cell + 1]
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
            crossed = costs_at(lanes, plans, moved, factor)
            before, behind = np.split(crossed.reshape(len(part), -1), 2, 1)
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
    return best, changes([both])


class NotConvex(InputError):
    """A cost is not convex along a parameter, so that switches between factors may hide."""


def _check(lanes: ParameterLanes, cost: np.ndarray) -> None:
    """Check that costs [plan, parameter, place] are monotone and convex.

    Raises: NotConvex that names the first parameter along which a cost is not.
    """
    length = np.diff(lanes.factors)
    slack = SLACK * cost.max(axis=-1, keepdims=True)
    rise = np.diff(cost, axis=-1)
    steeper = np.diff(rise / length, axis=-1) * np.minimum(length[1:], length[:-1])
    one_way = np.all(rise >= -slack, axis=-1) | np.all(rise <= slack, axis=-1)
    good = np.all(one_way & np.all(steeper >= -slack, axis=-1), axis=0)
    if not np.all(good):
        path = lanes.paths[int(np.argmin(good))]
        text = f"no convex function of {path} or its reciprocal; expected a whole time, or a rate"
        raise NotConvex(f"{lanes.question.objective}: {text}")


def _settled(
    lanes: ParameterLanes, way: np.ndarray, reign: CellWinners, pair: np.ndarray, plan: np.ndarray
) -> tuple[Intervals, int]:
    """Return the intervals of each best plan, and how many cells are left open.

    Arguments: the winners at the ends of all cells, and the plans that may win in each.
    """
    places = lanes.factors
    rows, count = reign.first.shape
    cells = Cells(
        np.repeat(np.arange(rows), count),
        np.tile(places[1:-2], rows),
        np.tile(places[2:-1], rows),
    )
    order = np.lexsort((plan, pair))
    pair, plan = pair[order], plan[order]
    alone = np.bincount(pair, minlength=rows * count) == 1

    def evaluate(
        plan: np.ndarray, row: np.ndarray, place: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        cost, slope = costs_and_slopes(lanes, plan, row, place ** way[row])
        return cost, way[row] * slope / place

    flat = CellWinners(*(column.reshape(-1) for column in reign))
    certain = split_at_crossing(cells.some(alone), CellWinners(*(column[alone] for column in flat)))
    number = np.cumsum(~alone) - 1
    left = ~alone[pair]
    others, left_open = envelope(cells.some(~alone), number[pair[left]], plan[left], evaluate)
    return changes([certain, *others]), left_open


def switches(lanes: ParameterLanes, best: BestPlans, won: Intervals) -> Switches:
    """Return every change of the best plan, ordered outward from the current value."""
    last_place = lanes.factors[-2]
    at = np.flatnonzero(np.diff(won.row, prepend=-1) == 0)
    dearer = won.start[at] >= 1.0
    last = np.append(np.diff(won.row) != 0, True)[at]
    behind = np.where(last, last_place, np.append(won.place, last_place)[at + 1])
    until = np.where(dearer, behind, won.place[at - 1])
    plan = np.where(dearer, won.plan[at], won.plan[at - 1])
    way, most = best.way[won.row[at]], most_factor(lanes.question, lanes.paths)[won.row[at]]
    # a switch never falls on the current value itself (factor 1)
    factor, above, below = won.place[at] ** way, np.nextafter(1, 2), np.nextafter(1, 0)
    factor = np.where(dearer == (way > 0), np.maximum(factor, above), np.minimum(factor, below))
    until = np.minimum(until**way, most)
    order = np.lexsort((np.abs(np.log(factor)), won.row[at]))
    order = order[factor[order] <= most[order]]
    row, factor, until, plan = won.row[at][order], factor[order], until[order], plan[order]
    today = np.full(len(row), best.today)
    plans, factors = np.concatenate([plan, plan, today]), np.concatenate([factor, until, until])
    there, later, kept = np.split(costs_at(lanes, plans, np.tile(row, 3), factors), 3)
    return Switches(row, factor, plan, until, cost=there, gain=share_saved(later, kept))


def most_factor(question: SearchProblem, paths: Sequence[str]) -> np.ndarray:
    """Return the factor that takes each parameter to its largest allowed value."""
    inputs = question.inputs
    largest = [field_at(inputs, path).metadata["most"] for path in paths]
    with np.errstate(over="ignore"):  # for values close to 0
        return np.array(largest) / np.array([float(get_at(inputs, path)) for path in paths])
