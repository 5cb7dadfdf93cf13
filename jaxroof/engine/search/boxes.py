"""A search that leaves out the plans that can win nowhere in a box of machines.

Let f_p(z) be the objective of plan p in coordinates z in which it is convex (the step time is
convex, piecewise linear, in reciprocal rates and latencies), and B a box of machines
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

A coordinate z of a parameter x is 1 / x, x or ln x. Which of them a parameter needs is found from
values of the objective, never from names: the one in which the objective is convex and bends least.
The law is checked on samples before, and on the known plans and some that are left out after. If it
fails, the plain way answers instead.
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
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, by_threads
from jaxroof.engine.search import direct
from jaxroof.engine.search.candidates import with_plans
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    plans_that_fit,
)
from jaxroof.records import replace_all
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
SEGMENTS = 256  # between machines of the grid
ROUNDING = 4e-12  # relative: a middle this far above the mean of its ends is rounding


class Coordinate(NamedTuple):
    """A coordinate z of a parameter x."""

    name: str
    of: Callable[[np.ndarray], np.ndarray]  # x -> z
    back: Callable[[np.ndarray], np.ndarray]  # z -> x
    slope: Callable[[np.ndarray], np.ndarray]  # x -> dx / dz
    zero: bool  # whether x may be 0


COORDINATES = (
    Coordinate("1 / x", lambda x: 1.0 / x, lambda z: 1.0 / z, lambda x: -x * x, zero=False),
    Coordinate("x", lambda x: x, lambda z: z, np.ones_like, zero=True),
    Coordinate("ln x", np.log, np.exp, lambda x: x, zero=False),
)
LOGARITHM = COORDINATES[-1]


class Way(NamedTuple):
    """A direction in which machines of an axis differ: columns of coordinates on one line."""

    axis: int
    columns: dict[str, np.ndarray]  # path -> coordinate [point of the axis]


@dataclasses.dataclass(frozen=True, eq=False)
class BoxSearch:
    """The search of a group of problems over boxes of machines."""

    question: SearchProblem
    kind: AxisRoles
    group: ProblemGroup
    machine: list[Axis]
    coordinates: Mapping[str, Coordinate]
    ways: list[Way]
    fits: np.ndarray  # [problem, level of the limit, *machine], size 1 along axes that do not move

    @property
    def few(self) -> int:
        """Return how many plans are few for any box."""
        return 2 * self.question.top * len(self.group.ready.plans)


# plans that are left in a box: increasing positions among those of all problems
Left = np.ndarray
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
    every = np.arange(group.ready.starts[-1])
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
    fits = plans_that_fit(question.estimator, group, [*limits, *machine], whole=False)
    inner = fits.shape[1 + len(limits) :]
    fits = np.broadcast_to(fits, (len(fits), *map(len, limits), *inner))
    fits = fits.reshape(len(fits), -1, *inner)
    return BoxSearch(question, kind, group, machine, coordinates, ways, fits)


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
    lanes, plans = math.prod(some.stop - some.start for some in box), len(left)
    few = plans <= task.few and lanes <= PAIRS
    if plans * lanes <= PAIRS or few or lanes <= LANES:
        starts = task.group.ready.starts
        edges = itertools.pairwise(np.searchsorted(left, starts))
        each = [left[slice(*pair)] - start for pair, start in zip(edges, starts, strict=False)]
        limits = (slice(0, len(task.question.axes[d])) for d in task.kind.limits)
        whose = task.question, task.kind, task.group, (*limits, *box), each
        return list(direct.chunks_of_group(*whose)), []
    return [], _cut(task, box, left)


def _cut(task: BoxSearch, box: Box, left: Left, count: int = PARTS) -> list[tuple[Box, Left]]:
    """Return the parts of a box, each with the plans that can win on it."""
    parts = _parts(task, box, count)
    ends = _ends(task, parts)
    value, slope = _tangents(task, parts, ends, left)
    low, reach = _levels(task, parts)
    known = _known(task, left, value, low)  # [rank, problem, level, part]
    starts = task.group.ready.starts
    problem = np.searchsorted(starts, left, side="right") - 1
    level = np.sum((left - starts[problem])[:, None, None] >= reach[problem], axis=1)
    fits = level < low.shape[1]
    bound_at = problem[:, None], np.minimum(level, low.shape[1] - 1), np.arange(len(parts))
    lanes = np.arange(len(parts))
    pairs = np.unique((known * len(parts) + lanes)[known >= 0])
    draw = np.random.default_rng(len(pairs)).integers(value.size, size=CHECKED)
    plan, lane = np.divmod(np.append(pairs, draw), len(parts))
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=len(task.ways))))
    at = [_columns(task, parts, ends, signs, lane) for signs in corners]
    columns = {path: np.concatenate([some[path] for some in at]) for path in at[0]}
    exact = _pairs(task.question, task.group, left[np.tile(plan, len(corners))], columns)
    exact = exact.reshape(len(corners), -1)
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
    return [(part, left[stays[:, i]]) for i, part in enumerate(parts)]


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
    ready, inputs = task.group.ready, replace_all(task.group.inputs, columns)
    objectives = direct.objectives_of(task.question, ready, inputs, each.shape)
    size = max(1, PAIRS // (len(parts) * (1 + count)))
    values: list[np.ndarray] = []
    slopes: list[np.ndarray] = []
    for start in range(0, len(left), size):
        some = left[start : start + size]
        found = objectives(some, varied=task.group.varied_at(some))
        shape = (len(some), len(parts))
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


def _known(task: BoxSearch, left: Left, value: np.ndarray, low: np.ndarray) -> np.ndarray:
    """Return the best plans at the centre of each part, of those that fit all of it.

    Returns: their number in ``left``, -1 where fewer fit, [rank, problem, level, part].
    """
    question, ready = task.question, task.group.ready
    found = np.full((question.top, *low.shape), -1)
    edges = np.searchsorted(left, ready.starts)
    for q, (start, stop) in enumerate(itertools.pairwise(edges)):
        if stop > start:
            own, split = left[start:stop] - ready.starts[q], None
            if question.top > 1 and not question.placements:
                split = ready.plans[q].split[own]
            fits = np.searchsorted(own, low[q])
            best, _ = direct.firsts(question.top, value[start:stop], fits, split)
            found[:, q] = np.where(best >= 0, best + start, -1)
    return found


def _pairs(
    question: SearchProblem, group: ProblemGroup, plans: np.ndarray, columns: Mapping[str, Any]
) -> np.ndarray:
    """Return sign * objective of plans of all problems, each on a machine of its own."""
    inputs = replace_all(group.inputs, {**columns, **group.varied_at(plans)})
    asked = with_plans(question.estimator, inputs, group.ready.at(plans))
    aim = question.objective
    found = evaluate_points(question.estimator, question.recipe, asked, aim, NUMPY)
    return question.sign * found[aim]


def convex_coordinates(
    question: SearchProblem, group: ProblemGroup, axes: Sequence[Axis], moving: Sequence[str]
) -> dict[str, Coordinate] | None:
    """Return a coordinate for each parameter in which the objective of every plan is convex.

    f((z + w) / 2) <= (f(z) + f(w)) / 2

    Sampled: plans of all problems of the group, on segments between machines of the grid, along
    each parameter alone and along all. None if no choice of coordinates passes.
    Arguments: the machine axes, and the paths among their columns that move the objective.
    """
    bends = functools.partial(_bends, question, group, axes)
    low = {p: float(c.min()) for axis in axes for p, c in axis.columns.items() if p in moving}
    chosen: dict[str, Coordinate] = {}
    for path in low:
        found = [(bends({path: c}), c) for c in COORDINATES if low[path] > 0.0 or c.zero]
        convex = [(bend.sum(), c) for bend, c in found if bend.min() >= -ROUNDING]
        if convex:
            chosen[path] = min(convex, key=lambda one: one[0])[1]
    if len(chosen) == len(low) and bends(chosen).min() >= -ROUNDING:
        return chosen
    chosen = dict.fromkeys(low, LOGARITHM)
    some = all(value > 0.0 for value in low.values())
    return chosen if some and bends(chosen).min() >= -ROUNDING else None


def _bends(
    question: SearchProblem,
    group: ProblemGroup,
    axes: Sequence[Axis],
    along: Mapping[str, Coordinate],
) -> np.ndarray:
    """Return by how much the mean of the ends of segments exceeds the middle, over the objective.

    Half of the segments are between neighbours on each axis; only the parameters ``along`` move.
    """
    draw = np.random.default_rng(0)
    lengths = np.diff(group.ready.starts)
    problem = draw.choice(np.flatnonzero(lengths), SEGMENTS)
    plans = group.ready.starts[problem] + draw.integers(lengths[problem])
    first, middle, last = {}, {}, {}
    for axis in axes:
        i = draw.integers(len(axis), size=SEGMENTS)
        near = np.clip(i + draw.integers(-2, 3, size=SEGMENTS), 0, len(axis) - 1)
        j = np.where(np.arange(SEGMENTS) % 2 == 0, near, draw.integers(len(axis), size=SEGMENTS))
        for path, column in axis.columns.items():
            first[path] = middle[path] = last[path] = column[i]
            if path in along:
                last[path], z = column[j], along[path].of
                middle[path] = along[path].back(0.5 * (z(column[i]) + z(column[j])))
    ends = {path: np.concatenate([first[path], middle[path], last[path]]) for path in first}
    three = _pairs(question, group, np.tile(plans, 3), ends).reshape(3, -1)
    scale = np.maximum(np.abs(three).max(axis=0), np.finfo(float).tiny)
    bend = (0.5 * (three[0] + three[2]) - three[1]) / scale
    return np.where(np.isfinite(bend), bend, -np.inf)
