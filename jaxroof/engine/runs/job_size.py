"""The size of a sweep: its results in memory and on disk, whole or in pieces.

What the numbers take in each kind of file was measured on searches of 90,000 to 1,000,000 points.
"""

import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroof.engine.grid.axes import replace_all
from jaxroof.engine.grid.chunks import programs
from jaxroof.engine.grid.size import (
    COPIES,
    NUMBER,
    REMEDY,
    search_size,
    table_size,
    winner_numbers,
)
from jaxroof.engine.grid.tabulate import axes_of_results
from jaxroof.engine.runs.job import SweepJob
from jaxroof.engine.search.candidates import plan_product
from jaxroof.engine.search.problem import constraints_of, searchable_report
from jaxroof.io.layout import Layout
from jaxroof.limits import check_disk, check_memory, counted

COMPRESSED = 0.1  # of a store's numbers that it takes on disk: 1/40 to 1/4 were measured
LINE = 2000  # bytes of a finished chunk in the record of a store
WHOLE = "expected fewer points"


# plans x points that are searched in some seconds: every plan weighed, or most passed over by a
# bound, whose evaluation takes longer
WEIGHED, BOUNDED = 1 << 30, 1 << 27


class FileSize(NamedTuple):
    """What a kind of file takes, for each byte of the results."""

    memory: float  # while it is written, with the results
    disk: float
    full: bool = False  # every column is written at every point


FILES = {
    "": FileSize(COPIES, 0.0),
    ".nc": FileSize(COPIES + 0.5, 1.0),
    ".csv": FileSize(5.0, 1.5, full=True),
    ".json": FileSize(5.0, 2.5),
}


def results_size(asked: SweepJob, lengths: Mapping[str, int] | None = None) -> tuple[int, int]:
    """Return how many results a sweep has, and their bytes; ``lengths`` are those of its axes.

    By default the axes are whole.
    """
    sizes = {axis.name: len(axis) for axis in asked.axes} | dict(lengths or {})
    points, fields = math.prod(sizes.values()), len(asked.estimator.plan_fields)
    if asked.searched:
        report = searchable_report(asked.estimator, asked.inputs, asked.recipe)
        numbers, top = winner_numbers(report), asked.options.get("top", 1)
        return fields + numbers, search_size(points, top, fields, numbers)
    number, size = 0, 0
    for recipe, grid in programs(asked.axes, asked.recipe):
        moved = axes_of_results(asked.estimator, asked.inputs, recipe, grid)
        some = table_size([sizes[axis.name] for axis in grid], moved)
        number, size = max(number, len(moved)), size + some
    if asked.every is not None:  # the values on its axis are columns of the result too
        columns = len(asked.axes[0].columns)
        return number + columns, size + NUMBER * points * columns
    return number, size


def check_whole(asked: SweepJob, output: str | os.PathLike[str] | None) -> None:
    """Check that a sweep that is computed whole fits in memory, and its file on the disk."""
    memory, disk, what = whole_size(asked, output)
    check_memory(what, memory, WHOLE if asked.every is not None else REMEDY)
    if output is not None:
        check_disk(what, disk, pathlib.Path(output).parent, WHOLE)


def whole_size(asked: SweepJob, output: str | os.PathLike[str] | None) -> tuple[float, float, str]:
    """Return the bytes of memory and of disk of a sweep that is computed whole, and its words."""
    number, size = results_size(asked)
    about = FILES.get("" if output is None else pathlib.Path(output).suffix, FILES[""])
    if about.full:
        size = NUMBER * asked.points * (number + len(asked.axes))
    top = asked.options.get("top", 1) if asked.searched else 1
    best = "" if top == 1 else f" with the best {top:,} plans"
    what = f"{counted(asked.points, 'point')}{best} of {counted(number, 'result')}"
    return about.memory * size, about.disk * size, what


def check_chunks(asked: SweepJob, layout: Layout, path: Any, missing: int) -> None:
    """Check that a piece of a store fits in memory, and the missing ones on the disk."""
    memory, disk, number = chunk_sizes(asked, layout)
    points = math.prod(layout.inner.values())
    where = os.fspath(path)
    what = f"{where}: pieces of {counted(points, 'point')} of {counted(number, 'result')}"
    check_memory(what, memory, "expected smaller ones, by --chunk")
    what = f"{where}: {counted(asked.points, 'point')} of {counted(number, 'result')}, compressed,"
    check_disk(what, disk * missing / layout.count, _folder(path), WHOLE)
    remedy = "expected larger ones, by --chunk, or fewer points"
    check_memory(f"{where}: {counted(layout.count, 'chunk')}", LINE * layout.count, remedy)


def chunk_sizes(asked: SweepJob, layout: Layout) -> tuple[float, float, int]:
    """Return the bytes of memory of a piece, of all chunks on disk, and how many results."""
    number, size = results_size(asked, layout.inner)
    return COPIES * size, COMPRESSED * results_size(asked)[1], number


def searched_points(asked: SweepJob) -> int:
    """Return how many points of a search are some seconds of work, by the plans of its ends."""
    estimator, where = asked.estimator, asked.options.get("where", ())
    ends = (replace_all(asked.inputs, _values(asked, place)) for place in (0, -1))
    rules = constraints_of(estimator, where)
    most = max(plan_product(estimator, some, asked.recipe, rules).size for some in ends)
    return (WEIGHED if estimator.lower_bound is None else BOUNDED) // max(1, most)


def _values(asked: SweepJob, place: int) -> dict[str, Any]:
    return {path: column[place] for axis in asked.axes for path, column in axis.columns.items()}


def _folder(path: Any) -> pathlib.Path:
    return pathlib.Path(path).parent
