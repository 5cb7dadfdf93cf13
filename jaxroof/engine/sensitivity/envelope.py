"""The lower envelope of many plans along a parameter: every change of the best plan, exactly.

Along a parameter (or its reciprocal) the cost of each plan is convex. In a cell, the interval
between two places, the cost lies below its chord and above its supporting lines at both ends. A
plan can win inside a cell only where its supporting lines pass below the chords of both plans that
win at the ends. All other plans are dropped. If no plan's lines pass below, including those of the
two winners, the cell is settled: the first winner is best up to where the two chords cross, and
the last winner from there on. Any other cell is cut where a plan may come lowest (at a kink or a
crossing, where there is one), and the remaining plans are evaluated there. The line through two
places before a cell, or behind it, is a supporting line too, so the first pass needs no slopes.

Plans are sorted; ties within 1e-12 go to the first one, as in a search. Plans that tie at both ends
of a cell and at its cut, in costs and in slopes, are one plan: no cut would ever tell them apart.
Rounds and open cells are bounded; what is then left open is cut at the crossing and counted.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.estimator import TIE

NARROW = 1e-14  # relative width of a cell that is not cut any further
EDGE = 1e-9  # share of a cell: a cut closer to an end is moved to the middle
ROUNDS = 64  # limit on rounds of cuts; some ten are needed
CELLS = 1 << 13  # limit on open cells; some hundred are needed

# plans, rows (of parameters) and places -> costs and their slopes there
Evaluate = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Cells(NamedTuple):
    """Intervals between two neighbouring places of a parameter."""

    row: np.ndarray  # number of the parameter
    start: np.ndarray
    stop: np.ndarray

    def some(self, which: np.ndarray) -> "Cells":
        """Return the selected cells."""
        return Cells(*(column[which] for column in self))


class Ends(NamedTuple):
    """Costs of plans at both ends of a cell, and their supporting lines there."""

    start: np.ndarray
    rise: np.ndarray  # change of the supporting line at the start, over the cell's length
    stop: np.ndarray
    fall: np.ndarray  # change of the supporting line at the stop, over the cell's length


class CellWinners(NamedTuple):
    """The plans that win at the start and the stop of cells, with their costs at both ends."""

    first: np.ndarray
    last: np.ndarray
    first_start: np.ndarray
    first_stop: np.ndarray
    last_start: np.ndarray
    last_stop: np.ndarray

    def least(self, share: np.ndarray) -> np.ndarray:
        """Return the lower of the two winners' chords, at a share of the cell."""
        first = self.first_start + (self.first_stop - self.first_start) * share
        last = self.last_start + (self.last_stop - self.last_start) * share
        return np.minimum(first, last)

    def crossing(self) -> np.ndarray:
        """Return where the chords cross, as a share of the cell; 0.5 where they coincide."""
        before = np.maximum(self.last_start - self.first_start, 0.0)
        behind = np.maximum(self.first_stop - self.last_stop, 0.0)
        both = before + behind
        return np.where(both > 0.0, before / np.where(both > 0.0, both, 1.0), 0.5)


class Intervals(NamedTuple):
    """Intervals of each parameter and the best plan of each, sorted by row and place."""

    row: np.ndarray
    place: np.ndarray  # where the interval begins
    plan: np.ndarray
    start: np.ndarray  # of the cell that the interval comes from

    def some(self, which: np.ndarray) -> "Intervals":
        """Return the selected intervals."""
        return Intervals(*(column[which] for column in self))


def bound_gap(plan: np.ndarray, ends: Ends, reign: CellWinners) -> tuple[np.ndarray, np.ndarray]:
    """Return a bound on how far plans may come below the winners of a cell, and where.

    The bound is at most 0 for a plan that cannot win. The place is a share of the cell.
    Arrays are over pairs of plans and cells, and broadcast.
    """
    bend = ends.fall - ends.rise
    meeting = (ends.fall - (ends.stop - ends.start)) / np.where(bend > 0.0, bend, 1.0)
    meeting = np.where(bend > 0.0, np.clip(meeting, 0.0, 1.0), 0.5)

    def bound(share: np.ndarray) -> np.ndarray:
        behind = ends.stop - ends.fall * (1.0 - share)
        return np.maximum(ends.start + ends.rise * share, behind)

    least = bound(meeting)
    chord = ends.start + (ends.stop - ends.start) * meeting
    bent = chord - least > TIE * np.abs(chord)
    # an earlier plan (of less need) wins a tie; a plan with a straight cost would do so at an end
    leaner = bent & ((plan < reign.first) | (plan < reign.last))
    edge = np.where(leaner, 1.0 + TIE, 1.0 - TIE)
    crossing = reign.crossing()
    depth = edge * reign.least(meeting) - least
    other = edge * reign.least(crossing) - bound(crossing)
    return np.maximum(depth, other), np.where(depth >= other, meeting, crossing)


def envelope(
    cells: Cells, pair: np.ndarray, plan: np.ndarray, evaluate: Evaluate
) -> tuple[list[Intervals], int]:
    """Return the intervals with the best plan of each, from the plans that may win in each cell.

    Returns also how many cells are left open: the best plan is known at their ends alone.
    Arguments: ``pair`` and ``plan`` are the cell and the plan of each pair, sorted by both.
    """
    row, many = cells.row[pair], len(pair)
    places = np.concatenate([cells.start[pair], cells.stop[pair]])
    cost, slope = evaluate(np.tile(plan, 2), np.tile(row, 2), places)
    left = OpenCells(cells, pair, plan, cost[:many], slope[:many], cost[many:], slope[many:])
    won: list[Intervals] = []
    for _ in range(ROUNDS):
        if not 0 < len(left.cells.row) <= CELLS:
            break
        settled, left = _round(left, evaluate)
        won.append(settled)
    if not len(left.cells.row):
        return won, 0
    reign = _reign(left, _firsts(left.pair))
    return [*won, split_at_crossing(left.cells, reign)], len(left.cells.row)


class OpenCells(NamedTuple):
    """Cells that are not settled yet, and the plans that may win in them."""

    cells: Cells
    pair: np.ndarray  # number of the cell, sorted
    plan: np.ndarray  # sorted in each cell
    start: np.ndarray  # cost
    rise: np.ndarray  # its slope
    stop: np.ndarray
    fall: np.ndarray

    def ends(self) -> Ends:
        """Return the costs, with slopes multiplied by the length of their cells."""
        length = (self.cells.stop - self.cells.start)[self.pair]
        return Ends(self.start, self.rise * length, self.stop, self.fall * length)


def _round(left: OpenCells, evaluate: Evaluate) -> tuple[Intervals, OpenCells]:
    """Settle cells where possible, cut the others in two and evaluate their plans at the cuts."""
    cells, pair, plan = left.cells, left.pair, left.plan
    first = _firsts(pair)
    reign = _reign(left, first)
    of_pair = CellWinners(*(column[pair] for column in reign))
    depth, share = bound_gap(plan, left.ends(), of_pair)
    keep = (depth > 0.0) | (plan == of_pair.first) | (plan == of_pair.last)
    deepest = np.maximum.reduceat(depth, first)
    settled = (deepest <= 0.0) | (np.add.reduceat(keep, first, dtype=int) == 1)
    settled |= cells.stop - cells.start <= NARROW * cells.stop
    cut = share[_first(depth == deepest[pair], first)]
    cut = np.where((cut > EDGE) & (cut < 1.0 - EDGE), cut, 0.5)
    middle = cells.start + cut * (cells.stop - cells.start)
    keep &= ~settled[pair]
    number, kept = (np.cumsum(~settled) - 1)[pair[keep]], cells.some(~settled)
    here, there = middle[~settled], left.plan[keep]
    cost, slope = evaluate(there, kept.row[number], here[number])
    some = OpenCells(kept, number, there, *(column[keep] for column in left[3:]))
    new = ~_repeated(some, cost, slope)
    number, there, cost, slope = number[new], there[new], cost[new], slope[new]
    halves = Cells(
        np.tile(kept.row, 2),
        np.concatenate([kept.start, here]),
        np.concatenate([here, kept.stop]),
    )
    return split_at_crossing(
        cells.some(settled), CellWinners(*(column[settled] for column in reign))
    ), OpenCells(
        halves,
        np.concatenate([number, number + len(here)]),
        np.tile(there, 2),
        np.concatenate([some.start[new], cost]),
        np.concatenate([some.rise[new], slope]),
        np.concatenate([cost, some.stop[new]]),
        np.concatenate([slope, some.fall[new]]),
    )


def _repeated(left: OpenCells, cost: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Return which plans tie with the best one at the cut of their cell, there and at both ends.

    Arguments: costs and slopes at the cuts.
    """
    first = _firsts(left.pair)
    best = _winner(left.pair, cost, first)[left.pair]
    length = (left.cells.stop - left.cells.start)[left.pair]
    same = np.arange(len(best)) != best
    for value in (left.start, left.stop, cost):
        same &= np.abs(value - value[best]) <= TIE * np.abs(value)
    for value in (left.rise, left.fall, slope):
        same &= np.abs(value - value[best]) * length <= TIE * np.abs(cost)
    return same


def _firsts(pair: np.ndarray) -> np.ndarray:
    """Return the first pair of each cell."""
    return np.flatnonzero(np.diff(pair, prepend=-1))


def _reign(left: OpenCells, first: np.ndarray) -> CellWinners:
    """Return the winners at both ends of every cell, ties to the first plan."""
    a, b = (_winner(left.pair, cost, first) for cost in (left.start, left.stop))
    costs = (left.start[a], left.stop[a], left.start[b], left.stop[b])
    return CellWinners(left.plan[a], left.plan[b], *costs)


def _winner(pair: np.ndarray, cost: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the pair of least cost of each cell, ties to the first plan."""
    least = np.minimum.reduceat(cost, first)
    return _first(cost <= (least + TIE * np.abs(least))[pair], first)


def _first(holds: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the first pair of each cell for which something holds."""
    count = len(holds)
    return np.minimum.reduceat(np.where(holds, np.arange(count), count - 1), first)


def split_at_crossing(cells: Cells, reign: CellWinners) -> Intervals:
    """Return the intervals of settled cells: the last winner follows the first at the crossing."""
    crossing = cells.start + reign.crossing() * (cells.stop - cells.start)
    return Intervals(
        np.tile(cells.row, 2),
        np.concatenate([cells.start, np.where(reign.first == reign.last, cells.start, crossing)]),
        np.concatenate([reign.first, reign.last]),
        np.tile(cells.start, 2),
    )


def changes(won: Sequence[Intervals]) -> Intervals:
    """Return where the best plan of each row changes; a row's first interval is where it begins.

    Intervals no wider than rounding are dropped, except next to place 1, the current value.
    """
    whole = Intervals(*(np.concatenate(columns) for columns in zip(*won, strict=True)))
    second = np.concatenate([np.arange(len(one.row)) * 2 >= len(one.row) for one in won])
    whole = _different(whole.some(np.lexsort((second, whole.start, whole.row))))
    alike = (np.diff(whole.row) == 0) & (np.diff(whole.start >= 1.0) == 0)
    close = alike & (np.diff(whole.place) <= TIE * whole.place[1:])
    return _different(whole.some(np.append(~close, True)))


def _different(whole: Intervals) -> Intervals:
    """Return the intervals whose plan differs from the one before."""
    return whole.some(np.append(True, (np.diff(whole.row) != 0) | (np.diff(whole.plan) != 0)))


def first_contenders(
    places: np.ndarray, plan: np.ndarray, cost: np.ndarray, reign: CellWinners
) -> np.ndarray:
    """Return which plans may win in which cells, from costs without slopes, [plan, row, cell].

    ``cost`` [plan, row, place] covers one place more on either side than the cells do; ``reign``
    holds the winners [row, cell].
    """
    length = np.diff(places)
    slope = np.diff(cost, axis=-1) / length
    inner = length[1:-1]
    ends = Ends(cost[..., 1:-2], slope[..., :-2] * inner, cost[..., 2:-1], slope[..., 2:] * inner)
    plan = plan[:, None, None]
    depth, _ = bound_gap(plan, ends, reign)
    return (depth > 0.0) | (plan == reign.first) | (plan == reign.last)
