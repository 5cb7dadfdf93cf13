"""All switches of the best plan: one machine swept along each parameter.

Each parameter is multiplied by factors, with one lane for each factor; a cell lies between two of
them. A plan's cost is monotone along a parameter, so few plans can win in a cell. Where the costs
are not convex, the best plans of every lane are known, and where the costs of two in turn cross.

Where the cost of each plan is convex along a parameter (or its reciprocal), switches are those of
the lower envelope, exactly. In a cell a cost lies below its chord and above its supporting lines at
both ends. A plan can win inside only where its supporting lines pass below the chords of both plans
that win at the ends. All others are dropped. If no plan's lines pass below, including those of the
two winners, the cell is settled: the first winner is best up to where the two chords cross, and the
last from there on. Any other cell is cut where a plan may come lowest (at a kink or a crossing,
where there is one), and the plans that are left are evaluated there. The line through two lanes
before a cell, or behind it, is a supporting line too, so the first pass needs no slopes.

Plans are sorted; ties within 1e-12 go to the first one, as in a search. Plans that tie at both ends
of a cell and at its cut, in costs and in slopes, are one plan: no cut would ever tell them apart.
Rounds and open cells are bounded; what is then left open is cut at the crossing and counted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.search.candidates import PreparedPlans
from jaxroof.engine.search.problem import SearchProblem
from jaxroof.engine.sensitivity.parameter_lanes import ParameterLanes, best_at_factors, share_saved
from jaxroof.estimator import FAR, TIE
from jaxroof.records import field_at, get_at

EXACT, SAMPLED = "exact", "sampled"
SOME = 64  # plans that are checked first
HALVINGS = 40  # of the logarithms of a cell, where two costs cross in it
SLACK = 1e-12  # relative to a cost: allowance for rounding
NARROW = 1e-14  # relative width of a cell that is not cut any further
EDGE = 1e-9  # share of a cell: a cut closer to an end is moved to the middle
ROUNDS = 64  # limit on rounds of cuts; some ten are needed
CELLS = 1 << 13  # limit on open cells; some hundred are needed


class BestPlans(NamedTuple):
    """The best plan of every lane, over (parameter, place); costs rise with the place."""

    way: np.ndarray  # [parameter], 1 or -1: a place is the factor to this power
    plan: np.ndarray  # position among those that fit, -1 where none is within every limit
    cost: np.ndarray
    kept: np.ndarray  # cost of the current plan
    today: int  # position of the current plan, -1 if there is none
    open: int = 0  # cells that were not searched to the end

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


class Intervals(NamedTuple):
    """Intervals of each parameter and the best plan of each, sorted by row and place."""

    row: np.ndarray
    place: np.ndarray  # where the interval begins
    plan: np.ndarray
    start: np.ndarray  # of the cell that the interval comes from

    def some(self, which: np.ndarray) -> "Intervals":
        """Return the selected intervals."""
        return Intervals(*(column[which] for column in self))


def best_plans(
    question: SearchProblem, ready: PreparedPlans, paths: Sequence[str], factors: np.ndarray
) -> tuple[ParameterLanes, BestPlans, Intervals, str]:
    """Return the lanes of the parameters, the best plans there, and how their switches are known.

    Where costs are not convex and the estimator bounds them, the lanes have the best plans alone.
    """
    estimator = question.estimator
    lanes = ParameterLanes(question, ready, tuple(paths), factors)
    first = np.unique(np.linspace(0, len(lanes) - 1, SOME).astype(int))
    if all(_is_convex(lanes, cost) for _, cost in lanes.some(first).every()):
        plan, cost = _contenders(lanes)
        if _is_convex(lanes, cost):
            way = _ways(cost)
            cost = _turned(way, cost)
            won, left = envelope(lanes, way, _all_pairs(factors, plan, cost))
            return lanes, _best(way, plan, cost)._replace(open=left), won, EXACT
    if estimator.lower_bound is not None and question.objective == estimator.objective:
        lanes = lanes.some(best_at_factors(lanes))
    return lanes, *_sampled(lanes), SAMPLED


def _contenders(lanes: ParameterLanes) -> tuple[np.ndarray, np.ndarray]:
    """Return the plans that can win in any cell, and their costs [plan, parameter, factor].

    Between two lanes no plan costs less than at the cheaper one, and the best plan never costs
    more than at the dearer one.
    """
    plans, costs = np.zeros(0, int), np.zeros((0, len(lanes.paths), len(lanes.factors)))
    least = np.full(costs.shape[1:], np.inf)
    for some, cost in lanes.every():
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


def _is_convex(lanes: ParameterLanes, cost: np.ndarray) -> bool:
    """Return whether costs [plan, parameter, factor] are monotone and convex, without other limits.

    A plan may exceed a limit besides the first somewhere between two lanes.
    """
    cost, length = _turned(_ways(cost), cost), np.diff(lanes.factors)
    slack = SLACK * cost.max(axis=-1, keepdims=True)
    rise = np.diff(cost, axis=-1)
    steeper = np.diff(rise / length, axis=-1) * np.minimum(length[1:], length[:-1])
    one_way = np.all(rise >= -slack, axis=-1) | np.all(rise <= slack, axis=-1)
    good = one_way & np.all(steeper >= -slack, axis=-1)
    return len(lanes.question.estimator.limits) < 2 and bool(np.all(good))


def _best(way: np.ndarray, plan: np.ndarray, cost: np.ndarray) -> BestPlans:
    """Return the best plans of all lanes, ties to the first; -1 where each exceeds a limit."""
    least = cost.min(axis=0)
    first = np.argmax(cost <= least + TIE * np.abs(least), axis=0)
    won, middle = np.take_along_axis(cost, first[None], axis=0)[0], first.shape[1] // 2
    chosen, kept = np.where(won < FAR, plan[first], -1), cost[first[0, middle]]
    kept = np.where(kept < FAR, kept, np.nan)
    return BestPlans(way, chosen, won, kept, int(chosen[0, middle]))


def _sampled(lanes: ParameterLanes) -> tuple[BestPlans, Intervals]:
    """Return the best plans of all lanes, and where the costs of two in turn cross.

    The best plan of every lane is exact; one that is best only between two lanes is not seen.
    """
    best = _best(np.ones(len(lanes.paths), int), *_contenders(lanes))
    factors = lanes.factors[1:-1]
    rows, cells = (at.ravel() for at in np.indices((len(lanes.paths), len(factors) - 1)))
    first, last = best.plan[rows, cells + 1], best.plan[rows, cells + 2]
    other = np.flatnonzero(first != last)
    cut = factors[cells]

    if len(other):
        low, high = (np.log(factors[cells[other] + end]) for end in (0, 1))
        plans, both = np.concatenate([first[other], last[other]]), np.tile(rows[other], 2)
        for _ in range(HALVINGS):
            middle = 0.5 * (low + high)
            before, behind = np.split(lanes.costs(plans, both, np.exp(np.tile(middle, 2))), 2)
            low, high = np.where(behind < before, (low, middle), (middle, high))
        cut[other] = np.exp(0.5 * (low + high))
    return best, changes([_intervals(rows, factors[cells], cut, first, last)])


# ---- The envelope of convex costs ---------------------------------------------------------------


class Pairs(NamedTuple):
    """Pairs of a cell and a plan that may win in it, sorted by parameter, place and plan."""

    row: np.ndarray  # of the parameter
    start: np.ndarray  # of the cell
    stop: np.ndarray
    plan: np.ndarray
    low: np.ndarray  # cost at the start
    high: np.ndarray  # at the stop
    rise: np.ndarray  # slope of a supporting line at the start
    fall: np.ndarray  # at the stop

    def some(self, which: np.ndarray) -> "Pairs":
        """Return the selected pairs."""
        return Pairs(*(column[which] for column in self))

    def first(self) -> np.ndarray:
        """Return the first pair of each cell."""
        new = (np.diff(self.row, prepend=-1) != 0) | (np.diff(self.start, prepend=-1.0) != 0)
        return np.flatnonzero(new)


def _all_pairs(places: np.ndarray, plan: np.ndarray, cost: np.ndarray) -> Pairs:
    """Return every plan in every cell but the outermost, with the lines through the cells beside.

    Arguments: costs [plan, row, place].
    """
    slope = np.diff(cost, axis=-1) / np.diff(places)
    columns = (cost[..., 1:-2], cost[..., 2:-1], slope[..., :-2], slope[..., 2:])
    row, cell, which = (at.ravel() for at in np.indices((*columns[0].shape[1:], len(plan))))
    each = (np.moveaxis(column, 0, -1).ravel() for column in columns)
    return Pairs(row, places[cell + 1], places[cell + 2], plan[which], *each)


def envelope(lanes: ParameterLanes, way: np.ndarray, pairs: Pairs) -> tuple[Intervals, int]:
    """Return the intervals with the best plan of each, from the plans that may win in each cell.

    Returns also how many cells are left open: the best plan is known at their ends alone.
    """

    def evaluated(some: Pairs, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        turn = way[some.row]
        cost, slope = lanes.sloped(some.plan, some.row, place**turn)
        return cost, turn * slope / place

    settled, left, _ = _settled(pairs)
    won = [settled]
    (low, rise), (high, fall) = (evaluated(left, place) for place in (left.start, left.stop))
    left = left._replace(low=low, high=high, rise=rise, fall=fall)
    for _ in range(ROUNDS):
        if not 0 < len(left.first()) <= CELLS:
            break
        settled, left, middle = _settled(left)
        won.append(settled)
        cost, slope = evaluated(left, middle)
        new = ~_repeated(left, cost, slope)
        left, middle, cost, slope = left.some(new), middle[new], cost[new], slope[new]
        below = left._replace(stop=middle, high=cost, fall=slope)
        above = left._replace(start=middle, low=cost, rise=slope)
        left = Pairs(*(np.concatenate(both) for both in zip(below, above, strict=True)))
        left = left.some(np.lexsort((left.plan, left.start, left.row)))
    if len(left.plan):
        first, last = (_winners(left, cost) for cost in (left.low, left.high))
        won.append(_split(left, first, last))
    return changes(won), len(left.first())


def _settled(pairs: Pairs) -> tuple[Intervals, Pairs, np.ndarray]:
    """Return the intervals of settled cells, the pairs of others that may win, and their cuts."""
    if not len(pairs.plan):
        return (
            Intervals(*(np.zeros(0, kind) for kind in (int, float, int, float))),
            pairs,
            pairs.start,
        )
    first = pairs.first()
    cell = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(pairs.plan))))
    one, two = (_winners(pairs, cost) for cost in (pairs.low, pairs.high))
    depth, share = _gap(pairs, pairs.some(one[cell]), pairs.some(two[cell]))
    at = np.arange(len(cell))
    keep = (depth > 0.0) | (at == one[cell]) | (at == two[cell])
    deepest = np.maximum.reduceat(depth, first)
    done = (deepest <= 0.0) | (np.add.reduceat(keep, first, dtype=int) == 1)
    done |= (pairs.stop - pairs.start <= NARROW * pairs.stop)[first]
    cut = share[_first(depth == deepest[cell], first)][cell]
    cut = np.where((cut > EDGE) & (cut < 1.0 - EDGE), cut, 0.5)
    middle = pairs.start + cut * (pairs.stop - pairs.start)
    left = keep & ~done[cell]
    return _split(pairs, one[done], two[done]), pairs.some(left), middle[left]


def _gap(pairs: Pairs, one: Pairs, two: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return a bound on how far plans may come below the winners of their cells, and where.

    The bound is at most 0 for a plan that cannot win. The place is a share of the cell.
    """
    length = pairs.stop - pairs.start
    rise, fall = pairs.rise * length, pairs.fall * length
    bend = fall - rise
    meeting = (fall - (pairs.high - pairs.low)) / np.where(bend > 0.0, bend, 1.0)
    meeting = np.where(bend > 0.0, np.clip(meeting, 0.0, 1.0), 0.5)

    def bound(share: np.ndarray) -> np.ndarray:
        return np.maximum(pairs.low + rise * share, pairs.high - fall * (1.0 - share))

    def chord(of: Pairs, share: np.ndarray) -> np.ndarray:
        return of.low + (of.high - of.low) * share

    own = chord(pairs, meeting)
    bent = own - bound(meeting) > TIE * np.abs(own)
    # an earlier plan (of less need) wins a tie; a plan with a straight cost would do so at an end
    leaner = bent & ((pairs.plan < one.plan) | (pairs.plan < two.plan))
    edge = np.where(leaner, 1.0 + TIE, 1.0 - TIE)
    crossing = _crossing(one, two)
    depth, other = (
        edge * np.minimum(chord(one, share), chord(two, share)) - bound(share)
        for share in (meeting, crossing)
    )
    return np.maximum(depth, other), np.where(depth >= other, meeting, crossing)


def _crossing(one: Pairs, two: Pairs) -> np.ndarray:
    """Return where the chords of winners cross, as a share of the cell; 0.5 where they coincide."""
    before, behind = np.maximum(two.low - one.low, 0.0), np.maximum(one.high - two.high, 0.0)
    both = before + behind
    return np.where(both > 0.0, before / np.where(both > 0.0, both, 1.0), 0.5)


def _split(pairs: Pairs, first: np.ndarray, last: np.ndarray) -> Intervals:
    """Return the intervals of cells: the last winner follows the first at the crossing."""
    one, two = pairs.some(first), pairs.some(last)
    cut = one.start + _crossing(one, two) * (one.stop - one.start)
    return _intervals(one.row, one.start, cut, one.plan, two.plan)


def _repeated(pairs: Pairs, cost: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return which plans tie with the best one at the cut of their cell, there and at both ends.

    Arguments: costs and slopes at the cuts.
    """
    first = pairs.first()
    count = np.diff(np.append(first, len(cost)))
    best = np.repeat(_winners(pairs, cost), count) if len(cost) else np.zeros(0, int)
    same = np.arange(len(best)) != best
    for value in (pairs.low, pairs.high, cost):
        same &= np.abs(value - value[best]) <= TIE * np.abs(value)
    for value in (pairs.rise, pairs.fall, slope):
        same &= np.abs(value - value[best]) * (pairs.stop - pairs.start) <= TIE * np.abs(cost)
    return same


def _winners(pairs: Pairs, cost: np.ndarray) -> np.ndarray:
    """Return the pair of least cost of each cell, ties to the first plan."""
    first = pairs.first()
    least = np.minimum.reduceat(cost, first)
    enough = np.repeat(least + TIE * np.abs(least), np.diff(np.append(first, len(cost))))
    return _first(cost <= enough, first)


def _first(holds: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the first pair of each cell for which something holds."""
    count = len(holds)
    return np.minimum.reduceat(np.where(holds, np.arange(count), count - 1), first)


def _intervals(
    row: np.ndarray, start: np.ndarray, cut: np.ndarray, first: np.ndarray, last: np.ndarray
) -> Intervals:
    """Return the intervals of cells whose last winner follows the first at a cut."""
    places = np.stack([start, np.where(first == last, start, cut)], axis=1).ravel()
    plans = np.stack([first, last], axis=1).ravel()
    return Intervals(np.repeat(row, 2), places, plans, np.repeat(start, 2))


def changes(won: Sequence[Intervals]) -> Intervals:
    """Return where the best plan of each row changes; a row's first interval is where it begins.

    Intervals no wider than rounding are dropped, except next to place 1, the current value.
    """
    whole = Intervals(*(np.concatenate(columns) for columns in zip(*won, strict=True)))
    whole = _different(whole.some(np.lexsort((whole.start, whole.row))))  # stable
    alike = (np.diff(whole.row) == 0) & (np.diff(whole.start >= 1.0) == 0)
    close = alike & (np.diff(whole.place) <= TIE * whole.place[1:])
    return _different(whole.some(np.append(~close, True)))


def _different(whole: Intervals) -> Intervals:
    """Return the intervals whose plan differs from the one before."""
    return whole.some(np.append(True, (np.diff(whole.row) != 0) | (np.diff(whole.plan) != 0)))


# ---- Switches -----------------------------------------------------------------------------------


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
    there, later, kept = np.split(lanes.costs(plans, np.tile(row, 3), factors, within=False), 3)
    kept = np.where(lanes.costs(today, row, until) < FAR, kept, np.nan)
    found = Switches(row, factor, plan, until, cost=there, gain=share_saved(later, kept))
    return Switches(*(column[plan >= 0] for column in found))


def most_factor(question: SearchProblem, paths: Sequence[str]) -> np.ndarray:
    """Return the factor that takes each parameter to its largest allowed value."""
    inputs = question.inputs
    largest = [field_at(inputs, path).metadata["most"] for path in paths]
    with np.errstate(over="ignore"):  # for values close to 0
        return np.array(largest) / np.array([float(get_at(inputs, path)) for path in paths])
