"""Which plans can win on which boxes, from incumbents at the centres and bounds at the corners."""

import dataclasses
import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import Axis, spread
from jaxroof.engine.grid.chunks import Place, padded_places
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search import folded, tangents
from jaxroof.engine.search.boxes import Slices
from jaxroof.engine.search.candidates import Sizes
from jaxroof.engine.search.convexity import objectives_at
from jaxroof.engine.search.groups import ProblemGroup
from jaxroof.engine.search.packed_inputs import PackedInputs
from jaxroof.engine.search.packed_plans import pack_plans
from jaxroof.engine.search.problem import AxisRoles, SearchProblem

SLACK = 4e-12  # relative: more than a tie of the search and the rounding of a tangent


@dataclasses.dataclass(frozen=True, eq=False)
class BoxSearch:
    """The search of a group of problems over boxes of machines."""

    question: SearchProblem
    kind: AxisRoles
    group: ProblemGroup
    sizes: Sizes
    cuts: list[Slices]
    fits: np.ndarray  # [problem, level of the limit, *machine], size 1 along axes that do not move

    @functools.cached_property
    def fold(self) -> folding.FoldConfig:
        """Return the settings of the compiled programs."""
        return folded.fold_config(self.question, self.kind, self.group, self.sizes.plans)


class Survivors(NamedTuple):
    """The plans that can win on some boxes, by box, then by problem, then by position."""

    box: np.ndarray  # number of the box among those of a place [survivor]
    problem: np.ndarray
    position: np.ndarray


def survivors(task: BoxSearch, place: Place, shape: Sequence[int], shard: int) -> Survivors | None:
    """Return the plans that can win on the boxes of a place, or None if an objective is not convex.

    Arguments: the place in the grid of boxes, and the shape that it is padded to.
    """
    at = padded_places(place, shape)
    used = tuple(slice(0, p.stop - p.start) for p in place)
    group, lead = task.group, task.sizes.questions
    distinct, plans = pack_plans(task.question.estimator, group.ready, task.sizes)
    low, reach = (_padded(counts, lead, at) for counts in _levels(task))
    varied = {p: np.append(v, np.repeat(v[:1], lead - len(v))) for p, v in group.varied.items()}
    centres = [
        Axis(c.axis.name, {p: v[i] for p, v in c.centre.items()})
        for c, i in zip(task.cuts, at, strict=True)
    ]
    inputs = spread(group.inputs, centres)
    plans = plans._replace(counts=reach.reshape(lead, -1).max(axis=1))
    fits = np.broadcast_to(low, (*low.shape[:2], *shape))
    packed = PackedInputs.of(inputs)
    position, _ = folding.best(task.fold, shard, packed, varied, distinct, plans, fits)
    best = np.asarray(position)  # [problem, top, level, *boxes]
    most = _bounds(
        task,
        best[(slice(None), slice(None), slice(None), *used)],
        [i[u] for i, u in zip(at, used, strict=True)],
    )
    room = [(0, n - (u.stop - u.start)) for n, u in zip(shape, used, strict=True)]
    bounds = tangents.Bounds(
        reach=reach,
        most=np.pad(most, [(0, lead - len(most)), (0, 0), (0, 0), *room], mode="edge"),
        incumbent=best[:, 0],
    )
    wins, holds = tangents.can_win(
        task.fold, shard, inputs, _directions(task.cuts, at), varied, distinct, plans, bounds
    )
    count = len(group.ready.plans)
    if not np.asarray(holds)[(slice(0, count), *used)].all():
        return None
    longest = max(map(len, group.ready.plans))
    wins = np.asarray(wins)[(slice(0, count), slice(0, longest), *used)]
    wins = wins.reshape(*wins.shape[:2], -1)
    # looked up in one dimension, which takes NumPy a tenth of the time of three
    problem, number, box = np.unravel_index(np.flatnonzero(wins), wins.shape)
    order = np.argsort(box, kind="stable")
    return Survivors(box[order], problem[order], number[order])


def _levels(task: BoxSearch) -> tuple[np.ndarray, np.ndarray]:
    """Return how many plans fit all machines of a box, and how many fit any at a level or below.

    Returns: [problem, level, *boxes], by increasing level, size 1 where the limit does not vary.
    """
    low = high = task.fits
    for dimension, some in enumerate(task.cuts, start=2):
        if task.fits.shape[dimension] > 1:
            starts = np.arange(0, len(some.axis), some.side)
            low = np.minimum.reduceat(low, starts, axis=dimension)
            high = np.maximum.reduceat(high, starts, axis=dimension)
    order = np.argsort(low, axis=1, kind="stable")
    low, high = (np.take_along_axis(counts, order, axis=1) for counts in (low, high))
    return low, np.maximum.accumulate(high, axis=1)


def _padded(counts: np.ndarray, lead: int, at: Sequence[np.ndarray]) -> np.ndarray:
    """Return counts of plans at listed boxes, 0 for problems that only pad."""
    for dimension, places in enumerate(at, start=2):
        if counts.shape[dimension] > 1:
            counts = np.take(counts, places, axis=dimension)
    return np.pad(counts, [(0, lead - len(counts)), *[(0, 0)] * (counts.ndim - 1)])


def _bounds(task: BoxSearch, best: np.ndarray, at: Sequence[np.ndarray]) -> np.ndarray:
    """Return what a plan must be able to beat at each corner of each box, slack included.

    bound(v) = max over the incumbents q of f_q(v) + s |f_q(v)|, infinite if there are too few

    Shapes: ``best`` [problem, top, level, *boxes] -> [problem, level, corner, *boxes].
    """
    count, boxes = len(task.group.ready.plans), best.shape[3:]
    best = best[:count].reshape(count, *best.shape[1:3], -1)
    width = best.shape[-1]
    key = (np.arange(count)[:, None, None, None] * task.sizes.plans + best) * width + np.arange(
        width
    )
    found, number = np.unique(key[best >= 0], return_inverse=True)
    rest, box = np.divmod(found, width)
    problem, position = np.divmod(rest, task.sizes.plans)
    place = np.unravel_index(box, boxes)
    columns: dict[str, list[np.ndarray]] = {}
    ends = [c.corners[:, i][:, p] for c, i, p in zip(task.cuts, at, place, strict=True)]
    corners = list(itertools.product(*(range(len(end)) for end in ends)))
    for corner in corners:
        for some, end, choice in zip(task.cuts, ends, corner, strict=True):
            for path, column in some.axis.columns.items():
                columns.setdefault(path, []).append(column[end[choice]])
    values = objectives_at(
        task.question,
        task.group,
        np.tile(problem, len(corners)),
        np.tile(position, len(corners)),
        {path: np.concatenate(parts) for path, parts in columns.items()},
    ).reshape(len(corners), -1)
    most = np.full((len(corners), *best.shape), np.inf)
    most[:, best >= 0] = (values + SLACK * np.abs(values))[:, number]
    bound = np.moveaxis(most.max(axis=2), 0, 2)  # over the ranks
    return bound.reshape(*bound.shape[:3], *boxes)


def _directions(cuts: Sequence[Slices], at: Sequence[np.ndarray]) -> tangents.Directions:
    """Return the directions and steps of all axes at listed boxes."""

    def wide(columns: np.ndarray, dimension: int) -> np.ndarray:
        sizes = (len(i) if d == dimension else 1 for d, i in enumerate(at))
        return columns[..., at[dimension]].reshape(*columns.shape[:-1], *sizes)

    ways = (
        {path: wide(dx, d) for path, dx in way.items()}
        for d, some in enumerate(cuts)
        for way in some.ways
    )
    return tangents.Directions(
        tuple(ways), tuple(wide(some.steps, d) for d, some in enumerate(cuts))
    )
