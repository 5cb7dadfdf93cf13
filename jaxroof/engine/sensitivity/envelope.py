"""The envelope of many plans along a parameter: where another plan wins, none missed.

Along a parameter (or its reciprocal) the cost of each plan is convex. Between two places (a cell)
it lies below its chord and above its supporting lines at both ends. A plan can win inside a cell
only where its supporting lines pass below the chords of both plans that win at the ends: all others
are dropped. Where no plan's lines do, those of the winners among them, the first winner reigns up
to where the two chords cross and the last from there on. Any other cell is cut where a plan may
come lowest (at a kink or a crossing, where there is one) and all that is left is evaluated there.
The line through two places before a cell, or behind it, is a supporting line too, so that a first
look needs no slopes.

Ties within 1e-12 go to the first plan (they come sorted), as in a search.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.estimator import TIE

NARROW = 1e-14  # of a place along a parameter: a cell that is not cut any more
EDGE = 1e-9  # share of a cell: a cut closer to its end would not make it smaller
ROUNDS = 1000  # of cuts, far more than it takes

# plans, rows (of parameters) and places -> costs and their slopes there
Evaluate = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


class Cells(NamedTuple):
    """Stretches between two neighbouring places of a parameter."""

    row: np.ndarray  # number of the parameter
    start: np.ndarray
    stop: np.ndarray

    def some(self, which: np.ndarray) -> "Cells":
        """Return some of the cells."""
        return Cells(*(column[which] for column in self))


class Ends(NamedTuple):
    """Costs of plans at both ends of a cell, and how they go on from there over a whole cell."""

    start: np.ndarray
    rise: np.ndarray  # of the supporting line at the start, over the cell's length
    stop: np.ndarray
    fall: np.ndarray  # of the supporting line at the stop, over the cell's length


class CellWinners(NamedTuple):
    """The plans that win at the ends of cells, with what they cost at both ends."""

    first: np.ndarray
    last: np.ndarray
    first_start: np.ndarray
    first_stop: np.ndarray
    last_start: np.ndarray
    last_stop: np.ndarray

    def least(self, share: np.ndarray) -> np.ndarray:
        """Return the lower of both chords, at a share of the cell."""
        first = self.first_start + (self.first_stop - self.first_start) * share
        last = self.last_start + (self.last_stop - self.last_start) * share
        return np.minimum(first, last)

    def crossing(self) -> np.ndarray:
        """Return where the chords cross, as a share of the cell; the middle where they are one."""
        before = np.maximum(self.last_start - self.first_start, 0.0)
        behind = np.maximum(self.first_stop - self.last_stop, 0.0)
        both = before + behind
        return np.where(both > 0.0, before / np.where(both > 0.0, both, 1.0), 0.5)


class Intervals(NamedTuple):
    """From where on which plan reigns, in the order of rows and places."""

    row: np.ndarray
    place: np.ndarray
    plan: np.ndarray
    start: np.ndarray  # of the cell that says so

    def some(self, which: np.ndarray) -> "Intervals":
        """Return some of the reigns."""
        return Intervals(*(column[which] for column in self))


def bound_gap(plan: np.ndarray, ends: Ends, reign: CellWinners) -> tuple[np.ndarray, np.ndarray]:
    """Return how far plans may come below the reigning ones in a cell, and where.

    Not above 0 where they cannot win; the place as a share of the cell.
    Arrays over pairs of plans and cells, that broadcast.
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
    # a leaner plan wins where it ties; one that is straight would do so at an end
    leaner = bent & ((plan < reign.first) | (plan < reign.last))
    edge = np.where(leaner, 1.0 + TIE, 1.0 - TIE)
    crossing = reign.crossing()
    depth = edge * reign.least(meeting) - least
    other = edge * reign.least(crossing) - bound(crossing)
    return np.maximum(depth, other), np.where(depth >= other, meeting, crossing)


def envelope(
    cells: Cells, pair: np.ndarray, plan: np.ndarray, evaluate: Evaluate
) -> list[Intervals]:
    """Return which plans reign where, given for each cell all plans that may win in it.

    ``pair`` holds the number of the cell and ``plan`` the plan of each pair, sorted by both.
    """
    row, many = cells.row[pair], len(pair)
    places = np.concatenate([cells.start[pair], cells.stop[pair]])
    cost, slope = evaluate(np.tile(plan, 2), np.tile(row, 2), places)
    left = OpenCells(cells, pair, plan, cost[:many], slope[:many], cost[many:], slope[many:])
    won: list[Intervals] = []
    for _ in range(ROUNDS):
        if not len(left.cells.row):
            return won
        settled, left = _round(left, evaluate)
        won.append(settled)
    raise AssertionError("cells that no cut settles")


class OpenCells(NamedTuple):
    """Cells that are not settled, and the plans that may win in them."""

    cells: Cells
    pair: np.ndarray  # number of the cell, sorted
    plan: np.ndarray  # sorted in each cell
    start: np.ndarray  # cost
    rise: np.ndarray  # its slope
    stop: np.ndarray
    fall: np.ndarray

    def ends(self) -> Ends:
        """Return the costs with slopes over the length of their cells."""
        length = (self.cells.stop - self.cells.start)[self.pair]
        return Ends(self.start, self.rise * length, self.stop, self.fall * length)


def _round(left: OpenCells, evaluate: Evaluate) -> tuple[Intervals, OpenCells]:
    """Settle the cells that can be, cut the others in two and evaluate what is left there."""
    cells, pair, plan = left.cells, left.pair, left.plan
    first = np.searchsorted(pair, np.arange(len(cells.row)))
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
        np.concatenate([left.start[keep], cost]),
        np.concatenate([left.rise[keep], slope]),
        np.concatenate([cost, left.stop[keep]]),
        np.concatenate([slope, left.fall[keep]]),
    )


def _reign(left: OpenCells, first: np.ndarray) -> CellWinners:
    """Return the winners at both ends of every cell, ties to the first plan."""

    def winner(cost: np.ndarray) -> np.ndarray:
        least = np.minimum.reduceat(cost, first)
        return _first(cost <= (least + TIE * np.abs(least))[left.pair], first)

    a, b = winner(left.start), winner(left.stop)
    costs = (left.start[a], left.stop[a], left.start[b], left.stop[b])
    return CellWinners(left.plan[a], left.plan[b], *costs)


def _first(holds: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the first pair of each cell for which something holds."""
    count = len(holds)
    return np.minimum.reduceat(np.where(holds, np.arange(count), count - 1), first)


def split_at_crossing(cells: Cells, reign: CellWinners) -> Intervals:
    """Return what settled cells say: the first plan from the start, the last from the crossing."""
    crossing = cells.start + reign.crossing() * (cells.stop - cells.start)
    return Intervals(
        np.tile(cells.row, 2),
        np.concatenate([cells.start, np.where(reign.first == reign.last, cells.start, crossing)]),
        np.concatenate([reign.first, reign.last]),
        np.tile(cells.start, 2),
    )


def changes(won: Sequence[Intervals]) -> Intervals:
    """Return where the reigning plan of each row changes; the first of a row is where it begins.

    Reigns no wider than the last digits are none, but that of today, at place 1.
    """
    whole = Intervals(*(np.concatenate(columns) for columns in zip(*won, strict=True)))
    second = np.concatenate([np.arange(len(one.row)) * 2 >= len(one.row) for one in won])
    whole = _different(whole.some(np.lexsort((second, whole.start, whole.row))))
    alike = (np.diff(whole.row) == 0) & (np.diff(whole.start >= 1.0) == 0)
    close = alike & (np.diff(whole.place) <= TIE * whole.place[1:])
    return _different(whole.some(np.append(~close, True)))


def _different(whole: Intervals) -> Intervals:
    """Return the reigns that differ from those before them."""
    return whole.some(np.append(True, (np.diff(whole.row) != 0) | (np.diff(whole.plan) != 0)))


def first_contenders(
    places: np.ndarray, plan: np.ndarray, cost: np.ndarray, reign: CellWinners
) -> np.ndarray:
    """Return which plans may win in which cells, told from costs alone, [plan, row, cell].

    ``cost`` [plan, row, place] is known at one place more than the cells have at both ends;
    ``reign`` are the winners [row, cell].
    """
    length = np.diff(places)
    slope = np.diff(cost, axis=-1) / length
    inner = length[1:-1]
    ends = Ends(cost[..., 1:-2], slope[..., :-2] * inner, cost[..., 2:-1], slope[..., 2:] * inner)
    plan = plan[:, None, None]
    depth, _ = bound_gap(plan, ends, reign)
    return (depth > 0.0) | (plan == reign.first) | (plan == reign.last)
