"""The winners of boxes of machines, exactly, among the few plans that can win on each."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.chunks import Place
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search import short_lists
from jaxroof.engine.search.candidates import all_together, distinct_part_rows
from jaxroof.engine.search.fold import Plans
from jaxroof.engine.search.groups import MachineChunk
from jaxroof.engine.search.survivors import BoxSearch, Survivors
from jaxroof.estimator import reads

TOGETHER = 32  # boxes per call
FEWEST = 4  # least padded number of plans of a list; and the factor between sizes
NOWHERE = 1 << 40  # a position that fits no machine


def exact_chunk(task: BoxSearch, left: Survivors, boxes: np.ndarray, place: Place) -> MachineChunk:
    """Return the winners of all machines of some boxes.

    Arguments: ``boxes`` [*boxes] are the numbers of the boxes in ``left``; ``place`` is theirs in
    the grid of boxes, one slice per machine axis.
    """
    axes = [some.axis for some in task.cuts]
    sides = [some.side for some in task.cuts]
    region = [
        slice(p.start * side, min(p.stop * side, len(axis)))
        for p, side, axis in zip(place, sides, axes, strict=True)
    ]
    size = tuple(r.stop - r.start for r in region)
    head = (len(task.group.ready.plans), task.question.top, task.fits.shape[1])
    position = np.full((*head, *size), -1, np.int64)
    objective = np.zeros(position.shape)
    for some, found in _calls(task, left, boxes.reshape(-1)):
        for number, *best in zip(some, *found, strict=True):
            at = np.unravel_index(number, boxes.shape)
            inside = tuple(
                slice(i * side, min((i + 1) * side, length))
                for i, side, length in zip(at, sides, size, strict=True)
            )
            kept = (..., *(slice(0, s.stop - s.start) for s in inside))
            position[(..., *inside)] = best[0][kept]
            objective[(..., *inside)] = best[1][kept]
    limits = [task.question.axes[d] for d in task.kind.limits]
    levels = [len(axis) for axis in limits]
    shape = (*head[:2], *levels, *size)
    fits = task.fits[(slice(None), slice(None), *(r if n > 1 else slice(None) for r, n in zip(region, task.fits.shape[2:], strict=True)))]
    fits = np.broadcast_to(fits, (*fits.shape[:2], *size)).reshape(head[0], *levels, *size)
    whole = (*(slice(0, n) for n in levels), *region)
    return MachineChunk(whole, position.reshape(shape), task.question.sign * objective.reshape(shape), fits)


def _calls(
    task: BoxSearch, left: Survivors, boxes: np.ndarray
) -> Iterator[tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]]:
    """Yield places in ``boxes`` and their winners, boxes with lists of similar length together."""
    problems = len(task.group.ready.plans)
    key = left.box * problems + left.problem
    wanted = boxes[:, None] * problems + np.arange(problems)
    starts, ends = (np.searchsorted(key, wanted, side=side) for side in ("left", "right"))
    counts = ends - starts
    longest = np.array([_padding(int(n)) for n in counts.max(axis=1)])
    devices = folding.mesh().size
    size = devices * -(-min(TOGETHER, len(boxes)) // devices)
    for most in np.unique(longest):
        members = np.flatnonzero(longest == most)
        for start in range(0, len(members), size):
            some = members[start : start + size]
            padded = np.pad(some, (0, size - len(some)), mode="edge")
            found = _winners(task, left, boxes[padded], starts[padded], counts[padded], int(most))
            yield some, (found[0][: len(some)], found[1][: len(some)])


def _padding(count: int) -> int:
    """Return the least power of FEWEST that holds a count, so that few shapes are compiled."""
    size = FEWEST
    while size < count:
        size *= FEWEST
    return size


def _winners(
    task: BoxSearch,
    left: Survivors,
    boxes: np.ndarray,
    starts: np.ndarray,
    counts: np.ndarray,
    most: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the winners of some boxes; ``starts`` and ``counts`` [box, problem] of their lists."""
    ready = task.group.ready
    number = np.arange(most)
    held = number < counts[..., None]
    at = np.minimum(starts[..., None] + np.where(held, number, 0), max(len(left.box) - 1, 0))
    position = left.position[at] if len(left.box) else np.zeros(at.shape, np.int64)
    position = np.where(held, position, 0)
    before = np.cumsum([0, *map(len, ready.plans)])[:-1]
    plan = np.minimum(before[:, None] + position, max(sum(map(len, ready.plans)) - 1, 0))
    together = all_together(ready)
    split = np.concatenate([plans.split for plans in ready.plans])
    distinct, rows = _own_rows(task, together, plan)
    lists = short_lists.ShortLists(
        Plans(
            {field: column[plan].astype(np.uint32) for field, column in together.items()},
            rows,
            np.where(held, split[plan], -1),
            counts,
        ),
        np.where(held, position, NOWHERE),
    )
    grid = [len(some) for some in task.cuts]
    where = np.unravel_index(boxes, grid)
    places = [some.places()[i] for some, i in zip(task.cuts, where, strict=True)]
    dims = tuple(some.side for some in task.cuts)
    inputs = task.group.inputs
    wide = [_wide(column, d, len(dims)) for d, column in enumerate(places)]
    for some, index in zip(task.cuts, wide, strict=True):
        inputs = replace_all(inputs, {p: column[index] for p, column in some.axis.columns.items()})
    moves = [size > 1 for size in task.fits.shape[2:]]
    index = [i if m else np.zeros((len(boxes), *[1] * len(dims)), np.int64) for i, m in zip(wide, moves, strict=True)]
    fits = np.moveaxis(task.fits[(slice(None), slice(None), *index)], 2, 0)
    found = short_lists.winners(task.fold, dims, inputs, task.group.varied, distinct, lists, fits)
    return np.asarray(found[0]), np.asarray(found[1])


def _wide(places: np.ndarray, dimension: int, rank: int) -> np.ndarray:
    """Return [box, point] as [box, *dims], with size 1 along the other axes."""
    return places.reshape(len(places), *(-1 if d == dimension else 1 for d in range(rank)))


def _own_rows(
    task: BoxSearch, together: dict[str, np.ndarray], plan: np.ndarray
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return the distinct rows of each part on each box, and the row of each plan.

    Shapes: ``plan`` [box, problem, plan] -> part -> field -> [box, row], part -> [box, problem,
    plan].
    """
    estimator, boxes = task.question.estimator, np.arange(len(plan))
    found, _ = distinct_part_rows(estimator, task.group.ready)
    kept = {}
    for name, (first, number) in found.items():
        key = boxes[:, None, None] * len(first) + number[plan]
        rows, index = np.unique(key, return_inverse=True)
        start = np.searchsorted(rows, boxes * len(first))
        kept[name] = (first, rows, start, index.reshape(plan.shape) - start[:, None, None])
    longest = max(
        (int(np.diff(np.append(start, len(rows))).max()) for _, rows, start, _ in kept.values()),
        default=1,
    )
    size, distinct, numbers = _padding(longest), {}, {}
    for name, (first, rows, start, index) in kept.items():
        listed = np.minimum(start[:, None] + np.arange(size), len(rows) - 1)
        own = first[rows[listed] % len(first)]
        fields = reads(estimator.parts[name])
        distinct[name] = {field: together[field][own].astype(np.float64) for field in fields}
        numbers[name] = index.astype(np.uint32)
    return distinct, numbers
