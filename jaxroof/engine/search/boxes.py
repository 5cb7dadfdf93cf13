"""A search that leaves out the plans that can win nowhere in a box of machines.

Let f_p(z) be the objective of plan p in coordinates z in which it is convex (``convexity.py``: the
step time is convex, piecewise linear, in reciprocal rates and latencies), and B a box of machines
with the corners v. The tangent of p at the centre c is a lower bound,
l_p(z) = f_p(c) + f_p'(c) (z - c) <= f_p(z). If for some known plan q

    l_p(v) > f_q(v) + s |f_q(v)| at every corner v, with a slack s above the ties of the search,

then p is slower than q on every machine of B by more than a tie: l_p - f_q - s |f_q| is concave
(linear minus convex), so its minimum over the box is at a corner. So p cannot win where q fits.
Boxes are cut into smaller ones, each with the plans that are left, until so few are left that all
of them are evaluated on all of its machines.

What fits: plans are sorted by need, so what fits a machine is a prefix of the list. The known plans
of a level of the limit are the best at the centre among those that fit all of the box at this
level. A plan is compared with those of the lowest level at which it fits anywhere in the box: they
fit at all higher levels too, and where it fits at a lower machine of the box. For the best k, the
bound is the largest of the k known objectives at each corner. With one plan per split, those are
the best of k splits: in each of the k turns, at least one of these splits is still left, and its
plan is better. Plans that tie within the slack are kept, so the first among them still wins.

The law of convexity is checked on samples before, and on the known plans and some that are left out
after. If it fails, the plain way answers instead.
"""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.dual import Dual, slope_of, value_of
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.chunks import chunk_shape, iter_chunks
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.executor import by_threads
from jaxroof.engine.search.convexity import Coordinate, convex_coordinates, objectives
from jaxroof.engine.search.direct import firsts
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, fits_by_limit
from jaxroof.engine.search.problem import AxisRoles, SearchProblem
from jaxroof.estimator import FAR
from jaxroof.structure import structure

COMBINATIONS = 1_000_000_000  # fewer are folded
LEAST_MACHINES = 64  # fewer are folded
PAIRS = 1 << 21  # of a plan and a machine, few enough to evaluate at once
PARTS = 8  # that a box is cut into
LANES = 16  # machines of a box that is cut no further
MOST_WAYS = 7  # directions of a box at most: it has 2^7 corners
CHECKED = 16  # plans left out of a box on which the law is checked
LINE = 1e-13  # relative: points this close to a line are on it
TINY = 1e-300  # instead of 0 in a quotient
SLACK = 4e-12  # relative: more than a tie of the search and the rounding of a tangent


class Way(NamedTuple):
    """A direction in which machines of an axis differ: columns of coordinates on one line."""

    axis: int
    columns: dict[str, np.ndarray]  # path -> coordinate [point of the axis]


@dataclasses.dataclass(frozen=True, eq=False)
class BoxSearch:
    """The search of a group of problems over boxes of machines."""

    question: SearchProblem
    group: ProblemGroup
    limits: tuple[int, ...]  # number of points of each axis of limits
    machine: list[Axis]
    coordinates: Mapping[str, Coordinate]
    ways: list[Way]
    fits: np.ndarray  # [problem, level of the limit, *machine], size 1 along axes that do not move

    @property
    def few(self) -> int:
        """Return how many plans are few for any box."""
        return 2 * self.question.top * len(self.group.ready.plans)


class Left(NamedTuple):
    """The plans that are left in a box, by problem, then by position."""

    problem: np.ndarray
    position: np.ndarray  # in the whole list of the problem

    def at(self, some: Any) -> "Left":
        """Return some of the plans."""
        return Left(self.problem[some], self.position[some])


Box = tuple[slice, ...]  # one slice per machine axis


class NotConvex(Exception):
    """The law of convexity is broken."""


def is_worthwhile(question: SearchProblem, kind: AxisRoles, combinations: int) -> bool:
    """Return whether a search is so large that it is not folded, and NumPy can evaluate it."""
    machines = math.prod(len(question.axes[d]) for d in kind.machine)
    shape = structure(question.inputs)
    on_numpy = dependencies(question.estimator, question.recipe, shape).on_numpy
    return (
        on_numpy
        and len(question.estimator.limits) < 2
        and question.executor is None
        and combinations >= COMBINATIONS
        and machines >= LEAST_MACHINES
    )


def chunks_of_group(
    question: SearchProblem,
    kind: AxisRoles,
    plain: Callable[[ProblemGroup], Iterator[MachineChunk]],
    group: ProblemGroup,
) -> Iterator[MachineChunk]:
    """Find the best plans of a group box by box; the plain way where the law of convexity fails."""
    task = _task(question, kind, group)
    if task is None:
        yield from plain(group)
        return
    counts = [len(some) for some in group.ready.plans]
    places = np.concatenate([np.arange(count) for count in counts])
    every = Left(np.repeat(np.arange(len(counts)), counts), places)
    whole = tuple(slice(0, len(axis)) for axis in task.machine)
    try:
        pending = _cut(task, whole, every, 1)
        while pending:
            later: list[tuple[Box, Left]] = []
            # short pieces of work, so that an interrupt ends them soon
            for found, parts in by_threads(functools.partial(_step, task), pending, len(pending)):
                yield from found
                later += parts
            pending = later
    except NotConvex:
        yield from plain(group)


def _task(question: SearchProblem, kind: AxisRoles, group: ProblemGroup) -> BoxSearch | None:
    """Return the search over boxes; None unless all objectives are convex in some coordinates."""
    limits, machine = ([question.axes[d] for d in some] for some in (kind.limits, kind.machine))
    if not any(map(len, group.ready.plans)):
        return None
    found = dependencies(question.estimator, question.recipe, structure(question.inputs))
    read = found.results[question.objective]
    moving = [path for axis in machine for path in axis.columns if path in read]
    coordinates = convex_coordinates(question, group, machine, moving)
    if coordinates is None:
        return None
    ways = [way for d, axis in enumerate(machine) for way in _ways(d, axis, coordinates)]
    if len(ways) > MOST_WAYS:
        return None
    fits = fits_by_limit(question.estimator, group, [*limits, *machine])
    levels = tuple(len(axis) for axis in limits)
    fits = np.broadcast_to(fits, (len(fits), *levels, *fits.shape[1 + len(limits) :]))
    fits = fits.reshape(len(fits), -1, *fits.shape[1 + len(limits) :])
    return BoxSearch(question, group, levels, machine, coordinates, ways, fits)


def _ways(number: int, axis: Axis, coordinates: Mapping[str, Coordinate]) -> list[Way]:
    """Return the directions of an axis: one if its machines lie on a line, else one a parameter."""
    own = {p: coordinates[p].of(c) for p, c in axis.columns.items() if p in coordinates}
    if not own:
        return []
    most = {path: max(float(np.abs(z).max()), TINY) for path, z in own.items()}
    lead = own[max(own, key=lambda path: float(np.ptp(own[path])) / most[path])]
    first, last = int(lead.argmin()), int(lead.argmax())
    share = (lead - lead[first]) / max(float(lead[last] - lead[first]), TINY)
    line = {path: z[first] + share * (z[last] - z[first]) for path, z in own.items()}
    if all(np.all(np.abs(line[path] - z) <= LINE * most[path]) for path, z in own.items()):
        return [Way(number, own)]
    return [Way(number, {path: z}) for path, z in own.items()]


def _step(
    task: BoxSearch, here: tuple[Box, Left]
) -> tuple[list[MachineChunk], list[tuple[Box, Left]]]:
    """Return the winners of a box where few plans are left, or else its parts."""
    box, left = here
    lanes, plans = math.prod(some.stop - some.start for some in box), len(left.problem)
    few = plans <= task.few and lanes <= PAIRS
    if plans * lanes <= PAIRS or few or lanes <= LANES:
        return list(_exact(task, box, left)), []
    return [], _cut(task, box, left)


def _cut(task: BoxSearch, box: Box, left: Left, count: int = PARTS) -> list[tuple[Box, Left]]:
    """Return the parts of a box, each with the plans that can win on it."""
    parts = _parts(task, box, count)
    ends = _ends(task, parts)
    value, slope = _tangents(task, parts, ends, left)
    low, reach = _levels(task, parts)
    known = _known(task, left, value, low)  # [rank, problem, level, part]
    level = np.sum(left.position[:, None, None] >= reach[left.problem], axis=1)
    fits = level < low.shape[1]
    bound_at = left.problem[:, None], np.minimum(level, low.shape[1] - 1), np.arange(len(parts))
    lanes = np.arange(len(parts))
    pairs = np.unique((known * len(parts) + lanes)[known >= 0])
    draw = np.random.default_rng(len(pairs)).integers(value.size, size=CHECKED)
    plan, lane = np.divmod(np.append(pairs, draw), len(parts))
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=len(task.ways))))
    at = [_columns(task, parts, ends, signs, lane) for signs in corners]
    exact = objectives(
        task.question,
        task.group,
        *left.at(np.tile(plan, len(corners))),
        {path: np.concatenate([some[path] for some in at]) for path in at[0]},
    ).reshape(len(corners), -1)
    exact = exact + SLACK * np.abs(exact)
    stays, each = np.zeros(value.shape, bool), np.full(value.shape, np.inf)
    for signs, enough in zip(corners, exact, strict=True):
        tangent = value + np.tensordot(signs, slope, 1)
        if np.any(tangent[plan, lane] > enough):
            raise NotConvex
        each[plan, lane] = enough
        reached = np.where(known >= 0, each[known, lanes], np.inf).max(axis=0)
        stays |= tangent <= reached[bound_at]
    stays &= fits
    return [(part, left.at(np.flatnonzero(stays[:, i]))) for i, part in enumerate(parts)]


def _parts(task: BoxSearch, box: Box, count: int) -> list[Box]:
    """Return the parts that a box is cut into: its widest axes are halved in turn."""
    counts, widths = [1] * len(box), [0.0] * len(box)
    for way in task.ways:
        for path in way.columns:
            column = np.abs(task.machine[way.axis].columns[path][box[way.axis]])
            column = np.maximum(column, 1e-3 * max(float(column.max()), TINY))  # a latency of 0
            wide = float(np.log(column.max() / column.min()))
            widths[way.axis] = max(widths[way.axis], wide)
    while math.prod(counts) < count:
        free = [d for d, some in enumerate(box) if 2 * counts[d] <= some.stop - some.start]
        if not free:
            break
        counts[max(free, key=lambda d: widths[d] / counts[d])] *= 2
    edges = [
        np.linspace(some.start, some.stop, count + 1).round().astype(int).tolist()
        for some, count in zip(box, counts, strict=True)
    ]
    each = [[slice(*pair) for pair in itertools.pairwise(some)] for some in edges]
    return list(itertools.product(*each))


Ends = list[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]


def _ends(task: BoxSearch, parts: Sequence[Box]) -> Ends:
    """Return the middle of each part along each way, and half the way: path -> z [part]."""
    found = []
    for way in task.ways:
        lead = next(iter(way.columns.values()))
        starts = [part[way.axis].start for part in parts]
        inside = [lead[part[way.axis]] for part in parts]
        first = np.array([s + z.argmin() for s, z in zip(starts, inside, strict=True)])
        last = np.array([s + z.argmax() for s, z in zip(starts, inside, strict=True)])
        ends = {path: (z[first], z[last]) for path, z in way.columns.items()}
        middle = {path: 0.5 * (low + high) for path, (low, high) in ends.items()}
        half = {path: 0.5 * (high - low) for path, (low, high) in ends.items()}
        found.append((middle, half))
    return found


def _columns(
    task: BoxSearch, parts: Sequence[Box], ends: Ends, signs: np.ndarray, at: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the machines at a corner of listed parts; signs of 0 lead to the centre."""
    columns = {
        path: column[[part[d].start for part in parts]][at]
        for d, axis in enumerate(task.machine)
        for path, column in axis.columns.items()
    }
    for (middle, half), sign in zip(ends, signs, strict=True):
        for path, z in middle.items():
            columns[path] = task.coordinates[path].back(z + sign * half[path])[at]
    return columns


def _tangents(
    task: BoxSearch, parts: Sequence[Box], ends: Ends, left: Left
) -> tuple[np.ndarray, np.ndarray]:
    """Return the objective at the centre of each part, and its change along half of each way.

    Shapes: [plan, part], [way, plan, part].
    """
    count, each = len(task.ways), np.arange(len(parts))
    columns: dict[str, Any] = _columns(task, parts, ends, np.zeros(count), each)
    columns = {path: column[None] for path, column in columns.items()}
    for number, (_, half) in enumerate(ends):
        for path, dz in half.items():
            slope = np.zeros((count, 1, len(parts)))
            slope[number] = task.coordinates[path].slope(columns[path]) * dz
            columns[path] = Dual(columns[path], slope)
    size = max(1, PAIRS // (len(parts) * (1 + count)))
    values: list[np.ndarray] = []
    slopes: list[np.ndarray] = []
    for start in range(0, len(left.problem), size):
        some = left.at(slice(start, start + size))
        found = objectives(task.question, task.group, *some, columns, 1)
        shape = (len(some.problem), len(parts))
        values.append(np.broadcast_to(value_of(found), shape))
        slopes.append(np.broadcast_to(slope_of(found), (count, *shape)))
    return np.concatenate(values), np.concatenate(slopes, axis=1)


def _levels(task: BoxSearch, parts: Sequence[Box]) -> tuple[np.ndarray, np.ndarray]:
    """Return how many plans fit all machines of a part, and how many fit any at a level or below.

    Returns: [problem, level, part], by increasing level.
    """

    def inside(part: Box) -> np.ndarray:
        sizes = task.fits.shape[2:]
        at = (some if n > 1 else slice(None) for some, n in zip(part, sizes, strict=True))
        return task.fits[(slice(None), slice(None), *at)].reshape(*task.fits.shape[:2], -1)

    each = [inside(part) for part in parts]
    low = np.stack([some.min(axis=2) for some in each], axis=2)
    high = np.stack([some.max(axis=2) for some in each], axis=2)
    order = np.argsort(low, axis=1, kind="stable")
    low, high = (np.take_along_axis(counts, order, axis=1) for counts in (low, high))
    return low, np.maximum.accumulate(high, axis=1)


def _segments(task: BoxSearch, left: Left) -> Iterator[tuple[int, slice]]:
    """Yield each problem with the slice of its plans."""
    count = len(task.group.ready.plans)
    starts = np.searchsorted(left.problem, np.arange(count + 1)).tolist()
    for number, pair in enumerate(itertools.pairwise(starts)):
        yield number, slice(*pair)


def _known(task: BoxSearch, left: Left, value: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the best plans at the centre of each part, of those that fit all of it.

    Returns: their number in ``left``, -1 where fewer fit, [rank, problem, level, part].
    """
    found = np.full((task.question.top, *low.shape), -1)
    for q, some in _segments(task, left):
        if some.stop > some.start:
            best, _ = _best(task, q, left.position[some], value[some], low[q])
            found[:, q] = np.where(best >= 0, best + some.start, -1)
    return found


def _best(
    task: BoxSearch, problem: int, position: np.ndarray, values: np.ndarray, fits: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of a problem's plans that are left: which, and objectives.

    Shapes: ``values`` [plan, lane], ``fits`` [level, lane] -> [rank, level, lane].
    """
    question = task.question
    split = None
    if question.top > 1 and not question.placements:
        split = task.group.ready.plans[problem].split[position]
    return firsts(question.top, values, np.searchsorted(position, fits), split)


def _exact(task: BoxSearch, box: Box, left: Left) -> Iterator[MachineChunk]:
    """Yield the winners of a box among the plans that are left, evaluated on every machine."""
    question, rank = task.question, len(box)
    ranges = [range(some.start, some.stop) for some in box]
    shape = chunk_shape([len(some) for some in ranges], max(1, PAIRS // max(len(left.problem), 1)))
    problems, levels = task.fits.shape[:2]
    for place in iter_chunks(ranges, shape):
        here = [
            slice(r.start + p.start, r.start + p.stop) for r, p in zip(ranges, place, strict=True)
        ]
        sizes = tuple(some.stop - some.start for some in here)
        columns = {
            path: column[here[d]].reshape([-1 if e == d else 1 for e in range(rank)])
            for d, axis in enumerate(task.machine)
            for path, column in axis.columns.items()
        }
        position = np.full((problems, question.top, levels, math.prod(sizes)), -1)
        objective = np.full(position.shape, FAR)
        moves = [
            h if n > 1 else slice(None) for h, n in zip(here, task.fits.shape[2:], strict=True)
        ]
        fits = task.fits[(slice(None), slice(None), *moves)]
        fits = np.broadcast_to(fits, (problems, levels, *sizes)).reshape(problems, levels, -1)
        if len(left.problem):
            values = objectives(question, task.group, *left, columns, rank)
            values = np.broadcast_to(values, (len(left.problem), *sizes)).reshape(
                len(left.problem), -1
            )
        for q, some in _segments(task, left):
            if some.stop > some.start:
                own = left.position[some]
                best, objective[q] = _best(task, q, own, values[some], fits[q])
                position[q] = np.where(best >= 0, own[best], -1)
        wide = (problems, question.top, *task.limits, *sizes)
        yield MachineChunk(
            (*(slice(0, n) for n in task.limits), *here),
            position.reshape(wide),
            question.sign * objective.reshape(wide),
            len(left.problem) * math.prod(sizes),
        )
