"""Chunks of a grid: their shape, their places and their share of the progress."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import TypeVar

import numpy as np

from jaxroof.engine.grid.axes import Axis

Progress = Callable[[int, int], None]  # (combinations done, combinations in all)


Item = TypeVar("Item")
Place = tuple[slice, ...]  # one slice per dimension: the limits, then the machine axes


def progress_share(progress: Progress | None, number: int, searches: int) -> Progress | None:
    """Return the progress callback of one of several searches, assumed to be equally long."""
    if progress is None or searches == 1:
        return progress
    return lambda done, total: progress(number * total + done, searches * total)


def chunk_shape(sizes: list[int], budget: int) -> list[int]:
    """Return the shape of a chunk of at most ``budget`` points, filled from the last dimension."""
    shape = []
    for size in reversed(sizes):
        shape.append(max(1, min(size, budget)))
        budget //= shape[-1]
    return shape[::-1]


def iter_chunks(axes: Sequence[Sized], shape: Sequence[int]) -> Iterator[Place]:
    """Yield the place of each chunk: a slice of every axis."""
    counts = [-(-len(axis) // size) for axis, size in zip(axes, shape, strict=True)]
    for index in np.ndindex(*counts):
        yield tuple(
            slice(i * size, min((i + 1) * size, len(axis)))
            for i, size, axis in zip(index, shape, axes, strict=True)
        )


def padded_slice(axes: Sequence[Axis], place: Place, shape: Sequence[int]) -> list[Axis]:
    """Return the axes cut to a chunk; each is padded with its last value to the chunk's shape."""
    return [
        Axis(axis.name, {path: column[index] for path, column in axis.columns.items()})
        for axis, index in zip(axes, padded_places(place, shape), strict=True)
    ]


def padded_places(place: Place, shape: Sequence[int]) -> list[np.ndarray]:
    """Return the indices of a chunk along each dimension, the last repeated to fill the shape."""
    return [
        np.minimum(np.arange(some.start, some.start + size), some.stop - 1)
        for some, size in zip(place, shape, strict=True)
    ]


def padded_size(count: int, least: int, factor: int = 2) -> int:
    """Return the first of ``least``, ``least`` x factor, ... that holds the count: few shapes.

    >>> padded_size(3, 1), padded_size(5, 64), padded_size(70, 64, factor=4)
    (4, 64, 256)
    """
    while least < count:
        least *= factor
    return least


def one_later(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item after the next one is made: devices compute one while another is read.

    >>> list(one_later("abc"))
    ['a', 'b', 'c']
    """
    waiting: list[Item] = []
    for item in items:
        waiting.append(item)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def pad_points(column: np.ndarray, size: int) -> np.ndarray:
    """Return a column padded to ``size`` with its last value (with 1 if it is empty).

    >>> pad_points(np.array([2.0, 3.0]), 4).tolist()
    [2.0, 3.0, 3.0, 3.0]
    """
    last = column[-1:] if len(column) else np.ones(1, column.dtype)
    return np.concatenate([column, np.repeat(last, size - len(column))])
