"""Sizes of tables, searches and lists of plans, from counts alone, and their check.

bytes = points x results x 8 B, twice while they are put together
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import Axis
from jaxroof.limits import check_memory, counted
from jaxroof.structure import results

NUMBER = 8  # bytes of a number, and at most of a flag
COPIES = 2  # of the results while they are put together
PROBLEM = 2500  # bytes of one list of plans besides its plans: the numbers it was listed for
LISTED = 64  # problems whose lists of plans are not worth a sample
SAMPLE = 8  # problems whose plans are listed to learn how long the lists are
REMEDY = "expected fewer points, or a .zarr file as output, which is written in chunks"


def table_size(lengths: Sequence[int], moved: Mapping[str, Iterable[int]]) -> int:
    """Return the bytes of results, each over the axes that move it."""
    return sum(NUMBER * math.prod(lengths[d] for d in dims) for dims in moved.values())


def search_size(points: int, top: int, fields: int, numbers: int) -> int:
    """Return the bytes of the best plans at every point: their fields and their results."""
    return NUMBER * points * (top * (fields + numbers))


def check_table(axes: Sequence[Sized], moved: Mapping[str, Iterable[int]]) -> None:
    """Check that the results of a table fit in memory."""
    lengths = [len(axis) for axis in axes]
    what = f"{counted(math.prod(lengths), 'point')} of {counted(len(moved), 'result')}"
    check_memory(what, COPIES * table_size(lengths, moved), REMEDY)


def check_products(axes: Sequence[Axis], products: Mapping[str, Iterable[str]]) -> None:
    """Check that the products of a plan's fields, over the axes that move them, fit in memory."""
    for path, fields in products.items():
        compared = {path, *(f"plan.{field}" for field in fields)}
        points = math.prod(len(axis) for axis in axes if compared & set(axis.columns))
        check_memory(f"{counted(points, 'point')} of {path}", NUMBER * points, REMEDY)


def check_search(axes: Sequence[Sized], top: int, fields: int, report: Any) -> None:
    """Check that the best plans at every point of a grid fit in memory."""
    points, numbers = math.prod(len(axis) for axis in axes), winner_numbers(report)
    best = "" if top == 1 else f" with the best {top:,} plans"
    what = f"{counted(points, 'point')}{best} of {fields + numbers} results"
    check_memory(what, COPIES * search_size(points, top, fields, numbers), REMEDY)


def winner_numbers(report: Any) -> int:
    """Return how many results a search keeps of a winner: numbers, ``feasible`` and the counts."""
    return COUNTED + sum(value.dtype != bool for value in results(report).values())


# results of a search besides the winner's numbers: whether it fits, counts of plans, the least
# need and what is missing, a reason
COUNTED = 6


def check_lists(
    axes: Sequence[Axis],
    each: int,
    plans_at: Callable[[Mapping[str, Any]], int],
    remedy: str = REMEDY,
) -> None:
    """Check that the lists of plans of every point of a grid fit in memory, by a sample of them.

    Arguments: ``each`` is the bytes of one plan; ``plans_at`` lists the plans at {path: value}.
    """
    points = math.prod(len(axis) for axis in axes)
    if points <= LISTED:
        return
    check_memory(f"the plans of {counted(points, 'point')}", points * PROBLEM, remedy)
    numbers = [number * (points - 1) // (SAMPLE - 1) for number in range(SAMPLE)]
    places = np.transpose(np.unravel_index(numbers, [len(axis) for axis in axes]))
    found = 0
    for place in places:  # evenly spread, the first and last included
        values = {p: c[i] for a, i in zip(axes, place, strict=True) for p, c in a.values.items()}
        found += plans_at(values)
    mean = found / SAMPLE
    what = f"the plans of {counted(points, 'point')}, about {mean:.0f} at each,"
    check_memory(what, points * (PROBLEM + mean * each), remedy)
