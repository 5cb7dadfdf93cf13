"""All switches of the best plan: one machine swept along each parameter.

Each parameter is multiplied by factors, with one lane for each factor. A plan's cost is monotone
along a parameter. Between two lanes no plan therefore costs less than at the cheaper lane, and the
best plan never costs more than at the dearer lane. Only a block whose minimum is at most that cost
can hold a plan that wins in between. Among the plans of these blocks, those that the envelope
cannot rule out are evaluated exactly.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.search.problem import SearchProblem
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
    BLOCK,
    ParameterLanes,
    block_minima,
    costs_and_slopes,
    costs_at,
    plan_costs,
    share_saved,
)
from jaxroof.errors import InputError
from jaxroof.estimator import TIE
from jaxroof.records import field_at, get_at

SOME = 4  # blocks of plans that are checked first
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


def sweep_lanes(lanes: ParameterLanes) -> tuple[BestPlans, Intervals]:
    """Return the best plans of all lanes, and the intervals of each best plan between them."""
    blocks = block_minima(lanes)
    falls = blocks[..., -1].sum(axis=0) <= blocks[..., 0].sum(axis=0)
    way = np.where(falls, -1, 1)
    blocks = _turned(way, blocks)
    least = blocks.min(axis=0)
    winning = np.any(blocks <= least + TIE * np.abs(least), axis=(1, 2))
    plan, cost = map(np.concatenate, zip(*_look(lanes, way, winning), strict=True))
    least = cost.min(axis=0)
    first = np.argmax(cost <= least + TIE * np.abs(least), axis=0)
    rows, count = first.shape
    row, today = np.arange(rows)[:, None], first[0, count // 2]
    best = BestPlans(way, plan[first], cost[first, row, np.arange(count)], cost[today], plan[today])

    a, b = np.arange(1, count - 2), np.arange(2, count - 1)  # the ends of the cells
    known = (cost[first[:, won], row, at] for won in (a, b) for at in (a, b))
    reign = CellWinners(plan[first[:, a]], plan[first[:, b]], *known)
    low = np.minimum(blocks[..., a], blocks[..., b])
    high = np.maximum(least[:, a], least[:, b]) * (1.0 + TIE)
    contending = np.any(low <= high, axis=(1, 2))
    pairs = []
    for some, cost in _look(lanes, way, contending):
        which, rows, cell = np.nonzero(first_contenders(lanes.factors, some, cost, reign))
        pairs.append(np.stack([rows * len(a) + cell, some[which]]))
    won, left = _settled(lanes, way, reign, *np.concatenate(pairs, axis=1))
    return best._replace(open=left), won


def _turned(way: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """Reorder costs (..., parameter, factor) from factors to places, or from places to factors."""
    return np.where(way[:, None] < 0, cost[..., ::-1], cost)


def _look(
    lanes: ParameterLanes, way: np.ndarray, blocks: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the plans of the blocks where a mask is true, with their checked costs by place."""
    for plan, cost in plan_costs(lanes, np.flatnonzero(blocks)):
        _check(lanes, _turned(way, cost))
        yield plan, _turned(way, cost)


class NotConvex(InputError):
    """A cost is not convex along a parameter, so that switches between factors may hide."""


def some_plans(count: int) -> np.ndarray:
    """Return the positions of some blocks of so many plans, evenly spaced."""
    blocks = np.unique(np.linspace(0, (count - 1) // BLOCK, SOME).astype(int))
    plans = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
    return plans[plans < count]


def check_convex(lanes: ParameterLanes) -> None:
    """Check the costs of the plans, as all are checked when they are swept.

    Raises: NotConvex that names the first parameter along which a cost is not.
    """
    for _, cost in plan_costs(lanes, np.arange(-(-len(lanes) // BLOCK))):
        falls = cost[..., -1].sum(axis=0) <= cost[..., 0].sum(axis=0)
        _check(lanes, _turned(np.where(falls, -1, 1), cost))


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
