"""How a grid is cut: points that share a program, chunks, and their share of the progress."""

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, NamedTuple, TypeVar

import numpy as np

from jaxroof.engine.grid.axes import Axis

EACH = ""  # as a choice of an axis: each of its points is a program of its own
Progress = Callable[[int, int], None]  # (combinations done, combinations in all)


Item = TypeVar("Item")
Place = tuple[slice, ...]  # one slice per dimension: the limits, then the machine axes


class Program(NamedTuple):
    """A recipe, and the numeric axes of the points that it evaluates."""

    recipe: Any
    axes: tuple[Axis, ...]


def programs(axes: Sequence[Axis], recipe: Any) -> list[Program]:
    """Return a program for every combination of the choices on the axes, the last axis fastest.

    A program's axes leave out axes that consist of choices alone. Of an axis over records that set
    choices, they include only the points with the program's choices.
    """
    choosing = [axis for axis in axes if axis.choices]
    found = []
    for points in itertools.product(*map(groups, choosing)):
        chosen: dict[str, Any] = {}
        here = {axis.name: axis for axis in axes}
        for axis, some in zip(choosing, points, strict=True):
            chosen |= {key: column[some[0]] for key, column in axis.choices.items()}
            here[axis.name] = dataclasses.replace(axis.at(some), choices={})
        numbers = tuple(axis for axis in here.values() if axis.columns)
        chosen.pop(EACH, None)
        made = dataclasses.replace(recipe, **chosen) if chosen else recipe
        found.append(Program(made, numbers))
    return found


def groups(axis: Axis) -> list[np.ndarray]:
    """Group the points of an axis by their choices, in the order of each group's first point."""
    if not axis.columns:
        return [np.array([point]) for point in range(len(axis))]
    alike: dict[tuple[Any, ...], list[int]] = {}
    for point, chosen in enumerate(zip(*axis.choices.values(), strict=True)):
        alike.setdefault(chosen, []).append(point)
    return [np.array(points) for points in alike.values()]


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
    cut = []
    for axis, some, size in zip(axes, place, shape, strict=True):
        index = np.minimum(np.arange(some.start, some.start + size), some.stop - 1)
        cut.append(Axis(axis.name, {path: column[index] for path, column in axis.columns.items()}))
    return cut


def padded_size(count: int, least: int, factor: int = 2) -> int:
    """Return the first of ``least``, ``least`` x factor, ... that holds the count: few shapes."""
    while least < count:
        least *= factor
    return least


def one_later(items: Iterable[Item]) -> Iterator[Item]:
    """Yield each item after the next one is made: devices compute one while another is read."""
    waiting: list[Item] = []
    for item in items:
        waiting.append(item)
        if len(waiting) > 1:
            yield waiting.pop(0)
    yield from waiting


def pad_points(column: np.ndarray, size: int) -> np.ndarray:
    """Return a column padded to ``size`` with its last value (with 1 if it is empty)."""
    last = column[-1:] if len(column) else np.ones(1, column.dtype)
    return np.concatenate([column, np.repeat(last, size - len(column))])
