"""The winners of boxes of machines, exactly, among the few plans that can win on each."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.chunks import Place, pad_points, padded_places, padded_size
from jaxroof.engine.search import short_lists
from jaxroof.engine.search.candidates import distinct_part_rows
from jaxroof.engine.search.fold import Distinct
from jaxroof.engine.search.groups import MachineChunk
from jaxroof.engine.search.survivors import BoxSearch, Survivors
from jaxroof.estimator import reads

FEWEST = 64  # least padded number of rows
ENTRIES = 4096  # least padded number of entries of all lists


def exact_winners(
    task: BoxSearch,
    left: Survivors,
    boxes: np.ndarray,
    place: Place,
    shape: Sequence[int],
    shard: int,
) -> tuple[Any, Any]:
    """Return the winners of all machines of some boxes, which the devices are still to compute.

    Arguments: ``boxes`` [*boxes] are the numbers of the boxes in ``left``; ``place`` is theirs in
    the grid of boxes, one slice per machine axis, and ``shape`` the number of boxes that it is
    padded to, whose dimension ``shard`` is split over the devices.
    """
    at = padded_places(place, shape)
    points = [some.places()[i].reshape(-1) for some, i in zip(task.cuts, at, strict=True)]
    inputs = task.group.inputs
    for d, (some, index) in enumerate(zip(task.cuts, points, strict=True)):
        wide = [-1 if e == d else 1 for e in range(len(points))]
        columns = some.axis.columns.items()
        inputs = replace_all(inputs, {p: column[index].reshape(wide) for p, column in columns})
    count = len(task.group.ready.plans)
    room = [(0, n - size) for n, size in zip(shape, boxes.shape, strict=True)]
    key = left.box * count + left.problem
    wanted = boxes * count + np.arange(count).reshape(-1, *(1,) * boxes.ndim)
    ends = [np.searchsorted(key, wanted, side=side) for side in ("left", "right")]
    first, last = int(ends[0].min()), int(ends[1].max())
    start, stop = (np.pad(some - first, [(0, 0), *room]) for some in ends)
    distinct, lists = _lists(task, left, slice(first, last))
    return short_lists.winners(
        task.fold,
        tuple(some.side for some in task.cuts),
        shard,
        inputs,
        task.group.varied,
        distinct,
        lists,
        short_lists.Boxes(start, stop - start),
        _taken(task.fits, points),
    )


def exact_chunk(
    task: BoxSearch, place: Place, winners: tuple[Any, Any], compared: int
) -> MachineChunk:
    """Return the winners without padding, each axis of limits in a dimension of its own."""
    question, (position, objective) = task.question, map(np.asarray, winners)
    levels = [len(question.axes[d]) for d in task.kind.limits]
    region = [
        slice(p.start * some.side, min(p.stop * some.side, len(some.axis)))
        for p, some in zip(place, task.cuts, strict=True)
    ]
    size = [r.stop - r.start for r in region]
    inside: tuple[Any, ...] = (..., *(slice(0, n) for n in size))
    best = objective if question.sign > 0 else -objective
    return MachineChunk(
        (*(slice(0, n) for n in levels), *region),
        position[inside].reshape(*position.shape[:2], *levels, *size),
        best[inside].reshape(*position.shape[:2], *levels, *size),
        compared,
    )


def _taken(fits: np.ndarray, points: Sequence[np.ndarray]) -> np.ndarray:
    """Return how many plans fit listed points, size 1 along axes that do not move the limit."""
    for dimension, index in enumerate(points, start=2):
        if fits.shape[dimension] > 1:
            fits = np.take(fits, index, axis=dimension)
    return fits


def _lists(
    task: BoxSearch, left: Survivors, some: slice
) -> tuple[Distinct, short_lists.ShortLists]:
    """Return the plans of a slice of the survivors and the distinct rows of their parts, padded."""
    ready, fold = task.group.ready, task.fold
    together = ready.every
    position = left.position[some]
    plan = ready.starts[left.problem[some]] + position
    size = padded_size(len(plan), ENTRIES, factor=4)
    split = np.concatenate([plans.split for plans in ready.plans])[plan]
    distinct, rows = {}, {}
    found = distinct_part_rows(fold.estimator, ready)[0]
    kept = {
        name: np.unique(number[plan], return_inverse=True) for name, (_, number) in found.items()
    }
    longest = max((len(own) for own, _ in kept.values()), default=1)
    longest = padded_size(longest, FEWEST, factor=4)
    for name, (own, index) in kept.items():
        at = found[name].first[own]
        fields = {field: together[field][at] for field in reads(fold.estimator.parts[name])}
        distinct[name] = {f: pad_points(c.astype(np.float64), longest) for f, c in fields.items()}
        rows[name] = pad_points(index, size)
    lists = short_lists.ShortLists(
        {field: pad_points(column[plan], size) for field, column in together.items()},
        rows,
        pad_points(position, size),
        pad_points(split if fold.per_split else position, size).astype(np.int64),
    )
    return distinct, lists
