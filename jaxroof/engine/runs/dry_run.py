"""What a sweep would take, before it is run: points, plans, memory, disk, and a time.

The time is that of a sample of the points, timed here and now, for as many as there are.
"""

import dataclasses
import functools
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.executor import JAX, SMALL
from jaxroof.engine.grid.size import COPIES
from jaxroof.engine.runs.chunked_sweep import chunk_layout, evaluate_sweep, searches_of
from jaxroof.engine.runs.job import SweepJob
from jaxroof.engine.runs.job_size import check_chunks, check_whole, chunk_sizes, whole_size
from jaxroof.engine.search.problem import axis_roles, most_by_numpy
from jaxroof.io.atomic import Path
from jaxroof.limits import TooLarge

FIRST, GROWTH, LAST = 8, 8, 1 << 15  # points of a sample: at first, by steps, at most
LONG = 0.3  # seconds of a sample that is long enough
SURE = 10.0  # seconds of a whole that are estimated well enough, however they grow
LESS = 0.5  # of the time a point took among fewer: what shows that points share some of it
ZARR = ".zarr"
# (points, executor) -> how many points were evaluated, and their results
Sampled = Callable[[int, str | None], tuple[int, xr.Dataset]]


class Sample(NamedTuple):
    """A timed sample of the points of a sweep."""

    points: int
    seconds: float
    before: float  # seconds of compiling or preparing, once
    data: xr.Dataset


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a sweep would take."""

    axes: Mapping[str, int]
    points: int
    memory: float  # [B]
    seconds: float
    sample: Sample
    disk: float | None = None  # [B] of a file
    plans: float | None = None  # compared at a point, on average
    chunks: int | None = None  # of a file that is written in chunks
    refused: str = ""  # why it would not be run, empty if it would


def dry_run(asked: SweepJob, output: Path | None, chunk: int | None) -> DryRun:
    """Return what a checked sweep would take, with the time of a sample of its points."""
    chunks, refused = None, ""
    try:
        if output is not None and pathlib.Path(output).suffix == ZARR:
            layout = chunk_layout(asked, chunk)
            chunks, (memory, disk, _) = layout.count, chunk_sizes(asked, layout)
            check_chunks(asked, layout, output, chunks)
        else:
            memory, disk, _ = whole_size(asked, output)
            check_whole(asked, output)
    except TooLarge as error:
        refused = str(error)
    lengths = {axis.name: len(axis) for axis in asked.axes}
    bounded = asked.searched and asked.estimator.lower_bound is not None
    found = estimated(
        lengths, functools.partial(_sampled, asked), bounded, _by_numpy(asked, chunks)
    )
    combined = found.sample.data.attrs.get("combinations")
    plans = None if combined is None else int(combined) / found.sample.points
    return dataclasses.replace(
        found, plans=plans, chunks=chunks, memory=memory, disk=disk, refused=refused
    )


def _by_numpy(asked: SweepJob, chunks: int | None) -> int:
    """Return up to how many evaluations a sweep is not compiled; several chunks use a program."""
    if not asked.searched or (chunks or 1) > 1:
        return SMALL
    _, questions = searches_of(asked, asked.axes)
    return most_by_numpy(questions[0], axis_roles(questions[0]))


def estimated(
    lengths: Mapping[str, int], sampled: Sampled, bounded: bool = False, most: int = SMALL
) -> DryRun:
    """Return what a question over axes would take, its memory and its time by a sample."""
    points = math.prod(lengths.values())
    sample = timed(sampled, points, bounded, most)
    each = sample.data.nbytes / sample.points
    seconds = sample.before + points * sample.seconds / sample.points
    return DryRun(lengths, points, COPIES * points * each, seconds, sample)


def timed(sampled: Sampled, points: int, bounded: bool = False, most: int = SMALL) -> Sample:
    """Return a sample that is large enough to be timed.

    A long one is evaluated twice: what the first time takes beyond the second is of compiling,
    and taken once. If the whole would be compiled, so is the sample; a search that passes over
    most plans by a bound (``bounded``) chooses by what is left, in the whole and in the sample.
    Up to ``most`` evaluations are not compiled. Where more points take less than their share, a
    long estimate is made of more of them.
    """
    count, executor, before, fewer = FIRST, None, 0.0, (1, math.inf)
    while True:
        first, used, data = _timed(sampled, count, executor)
        evaluations = int(data.attrs.get("combinations", used)) / used * points
        if executor is None and not bounded and evaluations > most:
            executor = JAX
            continue
        second = _timed(sampled, count, executor)[0] if executor or first > LONG else first
        before = max(before, first - second)
        grows = LESS * fewer[1] / fewer[0] < second / used  # about as the points do
        known = grows or second > 2.0 * LONG or second / used * points < SURE
        if (second > LONG and known) or count >= min(points, LAST):
            return Sample(used, second, before, data)
        count, fewer = count * GROWTH, (used, second)


def _timed(sampled: Sampled, count: int, executor: str | None) -> tuple[float, int, xr.Dataset]:
    start = time.perf_counter()
    used, data = sampled(count, executor)
    return time.perf_counter() - start, used, data


def _sampled(asked: SweepJob, count: int, executor: str | None) -> tuple[int, xr.Dataset]:
    """Return how many points a sample has, and its results."""
    axes = tuple(thinned(asked.axes, count))
    options = {**asked.options, **({"executor": executor} if executor else {})}
    some = dataclasses.replace(asked, axes=axes, options=options)
    if asked.every is not None:
        places = _places(len(asked.axes[0]), len(axes[0]))
        labels = {name: (known, at[places]) for name, (known, at) in asked.every.labels.items()}
        every = dataclasses.replace(asked.every, axis=axes[0], labels=labels)
        some = dataclasses.replace(some, options={}, every=every)
    return math.prod(map(len, axes)), evaluate_sweep(some)


def thinned(axes: Sequence[Axis], count: int) -> list[Axis]:
    """Return axes cut to about ``count`` points in all, evenly spread; ends stay."""
    lengths = thinned_lengths([len(axis) for axis in axes], count)
    pairs = zip(axes, lengths, strict=True)
    return [axis.at(_places(len(axis), length)) for axis, length in pairs]


def thinned_lengths(lengths: Sequence[int], count: int) -> list[int]:
    """Return lengths whose product is about ``count``, none longer than it was.

    >>> thinned_lengths([1000, 2, 1000], 32)
    [4, 2, 4]
    """
    found = dict.fromkeys(range(len(lengths)), 1)
    left = count
    for done, d in enumerate(sorted(found, key=lambda d: lengths[d])):
        fair = max(1, round(left ** (1 / (len(lengths) - done))))
        found[d] = min(lengths[d], fair)
        left = max(1, left // found[d])
    return list(found.values())


def _places(length: int, some: int) -> Any:
    return np.linspace(0, length - 1, some).round().astype(int)
