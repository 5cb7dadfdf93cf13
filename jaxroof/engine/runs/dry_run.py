"""What a question would take, before it is run: points, plans, memory, disk, and a time.

The time is that of samples of the points, timed here and now: what one more point takes, and what
is taken once.
"""

import dataclasses
import functools
import math
import pathlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.executor import JAX, SMALL
from jaxroof.engine.grid.size import COPIES, NUMBER
from jaxroof.engine.runs.chunked_sweep import chunk_layout, evaluate_sweep, searches_of
from jaxroof.engine.runs.job import SweepJob, check_chunks, check_whole, chunk_sizes, whole_size
from jaxroof.engine.search.problem import axis_roles, most_by_numpy
from jaxroof.estimator import Estimator
from jaxroof.io.atomic import Path
from jaxroof.limits import TooLarge

if TYPE_CHECKING:
    from jaxroof.engine.codesign.machines import DesignProblem

FIRST, GROWTH, LAST = 8, 8, 1 << 18  # points of a sample: at first, by steps, at most
LONG, ENOUGH = 0.3, 2.0  # seconds of a sample: long enough beside a smaller one, and by itself
# of a design of GPT-3 1T and of ViT: how often all starts are searched, and all plans bounded
SEARCHES, BOUNDS = 4, 8
SLOPED = 256  # plans whose slopes are timed
ZARR = ".zarr"
# (points, executor) -> how many points were evaluated, and their results
Sampled = Callable[[int, str | None], tuple[int, xr.Dataset]]


class Sample(NamedTuple):
    """A timed sample of the points of a question."""

    points: int
    seconds: float
    before: float  # seconds of compiling or preparing, once
    data: xr.Dataset


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a question would take."""

    axes: Mapping[str, int]
    points: int
    memory: float  # [B]
    seconds: float
    sample: Sample
    disk: float | None = None  # [B] of a file
    plans: float | None = None  # compared at a point, on average
    chunks: int | None = None  # of a file that is written in chunks
    refused: str = ""  # why it would not be run, empty if it would


def estimated(
    axes: Mapping[str, int],
    sampled: Sampled,
    points: int | None = None,
    *,
    bounded: bool = False,
    most: int = SMALL,
) -> DryRun:
    """Return what a question over axes would take, its memory and its time by samples.

    Samples grow until one is long enough. What it takes beyond the one before is of its points;
    the rest is taken once. One that compiles, or a long one, is evaluated twice: what the first
    time takes beyond the second is taken once too. If the whole would be compiled, so is the
    sample, which is so beyond ``most`` evaluations; a search that passes over most plans by a bound
    (``bounded``) chooses by what is left, in the whole and in the sample.
    """
    points = math.prod(axes.values()) if points is None else points
    count, executor, before, fewer = FIRST, None, 0.0, (0, 0.0)
    while True:
        first, used, data = _timed(sampled, count, executor)
        evaluations = int(data.attrs.get("combinations", used)) / used * points
        if executor is None and not bounded and evaluations > most:
            executor = JAX
            continue
        second = _timed(sampled, count, executor)[0] if executor or first > LONG else first
        before = max(before, first - second)
        each = max(second - fewer[1], 0.0) / max(used - fewer[0], 1)
        long = second > (LONG if fewer[0] else ENOUGH)
        if long or used >= points or count >= min(points, LAST):
            break
        count, fewer = count * GROWTH, (used, second)
    seconds = before + second + each * max(points - used, 0)
    memory = COPIES * data.nbytes / used * points
    return DryRun(axes, points, memory, seconds, Sample(used, second, before, data))


def _timed(sampled: Sampled, count: int, executor: str | None) -> tuple[float, int, xr.Dataset]:
    start = time.perf_counter()
    used, data = sampled(count, executor)
    return time.perf_counter() - start, used, data


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
    found = estimated(
        {axis.name: len(axis) for axis in asked.axes},
        functools.partial(_sampled, asked),
        bounded=asked.searched and asked.estimator.lower_bound is not None,
        most=_by_numpy(asked, chunks),
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
    """Return lengths whose product is about ``count``, none longer than it was."""
    found = dict.fromkeys(range(len(lengths)), 1)
    left = count
    for done, d in enumerate(sorted(found, key=lambda d: lengths[d])):
        fair = max(1, round(left ** (1 / (len(lengths) - done))))
        found[d] = min(lengths[d], fair)
        left = max(1, left // found[d])
    return list(found.values())


def _places(length: int, some: int) -> Any:
    return np.linspace(0, length - 1, some).round().astype(int)


def dry_run_of_design(task: "DesignProblem") -> DryRun:
    """Return what a design would take: starts, plans, memory, and a time by samples.

    The plans are listed. A search of all starts, and the slopes of some plans, are timed.
    """
    from jaxroof.engine.codesign import descent, machines

    start = time.perf_counter()
    plans, some = machines.feasible_plans(task), descent.initial_machines(task.market, task.starts)
    listed = time.perf_counter() - start
    first = {field: column[:SLOPED] for field, column in plans.plans.items()}
    count, fields = len(plans.low[:SLOPED]), len(task.market.way)
    start = time.perf_counter()
    machines.best_plan_rows(task, plans, some)
    searched = time.perf_counter() - start
    start = time.perf_counter()
    machines.value_and_slope(task, first, np.tile(some[0], (count, 1)))
    sloped = (time.perf_counter() - start) * len(plans.low) / count
    kept = len(plans.low) * (len(plans.plans) + COPIES * (2 * fields + 2))
    return DryRun(
        axes={"start": task.starts, "field": fields},
        points=task.starts,
        memory=float(NUMBER * (kept + task.starts * plans.legal * task.searched)),
        seconds=listed + SEARCHES * searched + BOUNDS * sloped,
        sample=Sample(task.starts, searched, listed, xr.Dataset()),
        plans=float(plans.legal),
    )


def dry_run_of_draws(
    estimator: Estimator, inputs: Any, *, distributions: Any, samples: int = 1024, **more: Any
) -> DryRun:
    """Return what a search in draws of its inputs would take, its time by samples of few draws.

    The arguments are those of ``uncertain``.
    """
    from jaxroof.engine.uncertainty.distributions import check_draws
    from jaxroof.engine.uncertainty.uncertain import LISTED, uncertain

    check_draws(samples, more.get("seed", 0))
    places: dict[str, int] = {}

    def points(draws: int) -> int:  # the current inputs, two halves, and their crossings
        return math.prod(places.values()) * (1 + draws // 2 * (2 + len(distributions)))

    def sampled(count: int, executor: str | None) -> tuple[int, xr.Dataset]:
        few = {"samples": min(count, samples), "distributions": distributions}
        data = uncertain(estimator, inputs, **few, **more)
        places.update({str(name): length for name, length in data.feasible_share.sizes.items()})
        return points(few["samples"]), data

    sampled(FIRST, None)
    whole = points(samples)
    found = estimated({**places, "draw": samples}, sampled, whole, bounded=True)
    each = found.sample.data.nbytes / found.sample.points
    numbers = NUMBER * LISTED * (len(estimator.plan_fields) + 2) + each
    return dataclasses.replace(found, memory=COPIES * numbers * whole)
