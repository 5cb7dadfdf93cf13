"""A search that leaves out plans that can win nowhere in a box of machines, and loses no winner.

Let f_p(z) be the objective of plan p in coordinates z in which it is convex (``convexity.py``: the
step time is convex, piecewise linear in reciprocal rates and latencies), and B a box of machines
that lies in the convex hull of its corners v (``boxes.py``). The tangent of p at the centre c is a
lower bound, l_p(z) = f_p(c) + f_p'(c) (z - c) <= f_p(z). If for some incumbent q

    l_p(v) > f_q(v) + s |f_q(v)| at every corner v, with a slack s above the ties of the search,

then p is slower than q on every machine of B by more than a tie: l_p - f_q - s |f_q| is concave
(linear minus convex), so its minimum over the hull is at a corner. Hence p cannot win where q fits.

What fits: plans are sorted by need, so what fits a machine is a prefix of the list. The incumbents
of a level of the limit are the best plans at the centre among those that fit all of the box at this
level. A plan is compared with those of the lowest level at which it fits anywhere in the box: they
fit at all higher levels too, and where it fits at a lower machine of the box. For the best k, the
bound is the largest of the k incumbents at each corner. With one plan per split, those are the best
of k splits: in each of the k turns, at least one of these splits is still left, and its plan is
better. Plans that tie within the slack are kept, so the first position among them still wins.

What is left is evaluated exactly on all machines of the box. If the law of convexity fails, on
samples before or on any incumbent or sampled plan after, the plain fold answers instead.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.chunks import Place, iter_chunks, one_later
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.search import folded
from jaxroof.engine.search.boxes import Slices, box_columns, cut
from jaxroof.engine.search.candidates import Sizes, shared_sizes
from jaxroof.engine.search.convexity import convex_coordinates, objectives_at
from jaxroof.engine.search.exact_boxes import exact_chunk, exact_winners
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, fits_by_limit
from jaxroof.engine.search.problem import AxisRoles, SearchProblem
from jaxroof.engine.search.survivors import BoxSearch, Survivors, survivors
from jaxroof.estimator import TIE
from jaxroof.structure import structure

COMBINATIONS = 2_000_000_000  # fewer are folded sooner than the programs of this file are compiled
LEAST_MACHINES = 64  # fewer are folded
LEAST_BOX = 8  # machines of a box, below which pruning costs more than it saves
PLANS = 1 << 26  # pairs of a plan and a box that are tested in one call
BOXES = 1024  # boxes tested in one call, per device
SLAB = 1 << 19  # winners that a device finds in one call
SPOTS = 512  # plans that are evaluated beside the winners of a slab
EVERY = 8  # one of so many slabs is checked in this way

Chunks = Callable[[ProblemGroup], Iterator[MachineChunk]]


def is_worthwhile(question: SearchProblem, kind: AxisRoles, combinations: int) -> bool:
    """Return whether a search is large enough to be pruned."""
    machines = math.prod(len(question.axes[d]) for d in kind.machine)
    return combinations >= COMBINATIONS and machines >= LEAST_MACHINES


def machine_chunks(
    question: SearchProblem, kind: AxisRoles, groups: Sequence[ProblemGroup]
) -> Chunks:
    """Return a function that finds the best plans of a group by pruning, or else by the fold."""
    sizes = shared_sizes(question.estimator, (group.ready for group in groups))
    plain = folded.machine_chunks(question, kind, groups)
    return functools.partial(_chunks, question, kind, sizes, plain)


def _chunks(
    question: SearchProblem, kind: AxisRoles, sizes: Sizes, plain: Chunks, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Prune a group's plans on each box of machines, then search what is left exactly."""
    cuts = _boxes(question, kind, group)
    if cuts is None:
        yield from plain(group)
        return
    limits = [question.axes[d] for d in kind.limits]
    machine = [some.axis for some in cuts]
    fits = fits_by_limit(question.estimator, group, [*limits, *machine])
    levels = tuple(len(axis) for axis in limits)
    whole = (len(fits), math.prod(levels))
    fits = np.broadcast_to(fits, (len(fits), *levels, *fits.shape[1 + len(limits) :]))
    task = BoxSearch(
        question, kind, group, sizes, cuts, fits.reshape(*whole, *fits.shape[-len(cuts) :])
    )
    grid = [range(len(some)) for some in cuts]
    lanes = max(1, min(BOXES // whole[1], PLANS // (sizes.questions * sizes.plans)))
    shape, shard = folded.chunk_layout(grid, 0, lanes)
    draw = np.random.default_rng(0)
    for place in iter_chunks(grid, shape):
        left = survivors(task, place, shape, shard)
        for number, chunk in enumerate(_slabs(task, left, place) if left is not None else ()):
            if number % EVERY == 0 and left is not None and not _holds(task, left, chunk, draw):
                left = None
                break
            yield chunk
        if left is None:  # the law is broken
            yield from plain(group)
            return


def _boxes(question: SearchProblem, kind: AxisRoles, group: ProblemGroup) -> list[Slices] | None:
    """Return the slices of each machine axis, or None where the law of convexity fails."""
    machine = [question.axes[d] for d in kind.machine]
    if not any(map(len, group.ready.plans)):
        return None
    found = dependencies(question.estimator, question.recipe, structure(question.inputs))
    read = found.results[question.objective]
    moving = [path for axis in machine for path in axis.columns if path in read]
    coordinates = convex_coordinates(question, group, machine, moving)
    cuts = [] if coordinates is None else cut(machine, coordinates)
    return cuts if math.prod(some.side for some in cuts) >= LEAST_BOX else None


def _slabs(task: BoxSearch, left: Survivors, place: Place) -> Iterator[MachineChunk]:
    """Yield the winners of the boxes of a place, some boxes at a time."""
    compared = len(left.box) * math.prod(some.side for some in task.cuts)  # said of the first
    for here, winners in one_later(_winners(task, left, place)):
        yield exact_chunk(task, here, winners, compared)
        compared = 0


def _winners(task: BoxSearch, left: Survivors, place: Place) -> Iterator[tuple[Place, Any]]:
    """Start the exact search of some boxes at a time; yield their place and the winners."""
    sizes = [p.stop - p.start for p in place]
    numbers = np.arange(math.prod(sizes)).reshape(sizes)
    outputs = len(task.fits) * task.fits.shape[1] * task.question.top
    machines = math.prod(some.side for some in task.cuts)
    grid = [range(size) for size in sizes]
    shape, shard = folded.chunk_layout(grid, 0, SLAB // (outputs * machines))
    for some in iter_chunks(grid, shape):
        here = tuple(
            slice(p.start + s.start, p.start + s.stop) for p, s in zip(place, some, strict=True)
        )
        yield here, exact_winners(task, left, numbers[some], here, shape, shard)


def _holds(
    task: BoxSearch, left: Survivors, chunk: MachineChunk, draw: np.random.Generator
) -> bool:
    """Return whether no sampled plan is better than a winner.

    The plans are those that were not pruned on some other box: the closest to winning.
    """
    if not len(left.box):
        return True
    limits = len(task.kind.limits)
    some = draw.integers(len(left.box), size=min(SPOTS, len(left.box)))
    problem, position = left.problem[some], left.position[some]
    size = chunk.position.shape[2:]
    at = [draw.integers(n, size=len(some)) for n in size]
    winner = chunk.position[(problem, 0, *at)]
    best = task.question.sign * chunk.objective[(problem, 0, *at)]
    machine = [i + p.start for i, p in zip(at, chunk.place, strict=True)][limits:]
    columns = box_columns(task.cuts, machine)
    value = objectives_at(task.question, task.group, problem, position, columns)
    level = np.ravel_multi_index((0 * some, *at[:limits]), (1, *size[:limits]))
    there = [i if n > 1 else 0 for i, n in zip(machine, task.fits.shape[2:], strict=True)]
    fits = position < task.fits[(problem, level, *there)]
    return bool(np.all(~fits | ((winner >= 0) & (value >= best - 2.0 * TIE * np.abs(best)))))
