"""A search that passes over the plans whose lower bound exceeds what known plans reach.

Most plans are passed over (``plans_left.py``); what is left on any machine is evaluated exactly.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np

from jaxroof.engine.grid.chunks import Place, chunk_shape, iter_chunks, padded_size, padded_slice
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.search import direct
from jaxroof.engine.search.candidates import distinct_part_rows, subset
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, plans_that_fit
from jaxroof.engine.search.plans_left import is_bounded, plans_left
from jaxroof.engine.search.problem import AxisRoles, SearchProblem

LEAST_PLANS = 4096  # fewer are compared sooner than they are bounded
MOST_TOP = 64  # best plans that are asked for, beyond which too many incumbents are needed
FEWEST, FEWEST_ROWS = 1 << 14, 64  # least padded number of plans that are left, and of their rows
LANES = 1024  # machines times limits of one call


def is_worthwhile(question: SearchProblem, groups: Sequence[ProblemGroup]) -> bool:
    """Return whether the estimator bounds the objective, and there are plans to pass over."""
    plans = max((len(some) for group in groups for some in group.ready.plans), default=0)
    return plans >= LEAST_PLANS and question.top <= MOST_TOP and is_bounded(question)


def chunks_of_group(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Pass over plans on each chunk of limits and machines, then search what is left exactly."""
    order = kind.limits + kind.machine
    axes, first = [question.axes[d] for d in order], len(kind.limits)
    most = chunk_shape([len(axis) for axis in axes], LANES)
    # chunks as equal as possible, so that they share compiled programs
    parts = [-(-len(axis) // part) for axis, part in zip(axes, most, strict=True)]
    shape = [-(-len(axis) // part) for axis, part in zip(axes, parts, strict=True)]
    for place in iter_chunks(axes, shape):
        here = padded_slice(axes, place, [some.stop - some.start for some in place])
        fits = plans_that_fit(question.estimator, group, here)
        left = plans_left(question, group, here[first:], fits)
        fewer = dataclasses.replace(group, ready=subset(group.ready, left))
        cut = dict(zip(order, here, strict=True))
        some = dataclasses.replace(
            question, axes=tuple(cut.get(d, axis) for d, axis in enumerate(question.axes))
        )
        for chunk in _exact_chunks(some, kind, fewer):
            yield _of_all(chunk, left, place)


def _exact_chunks(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Search every plan of a group, by who is faster for as many."""
    machines = math.prod(len(question.axes[d]) for d in kind.limits + kind.machine)
    total = len(next(iter(group.ready.every.values()))) * machines
    executor = executor_of(
        question.estimator, question.recipe, question.inputs, total, question.executor
    )
    if executor == NUMPY:
        return direct.chunks_of_group(question, kind, group)
    from jaxroof.engine.search import folded

    rows, sizes = distinct_part_rows(question.estimator, group.ready)
    # what is left differs from chunk to chunk: few sizes, so that few programs are compiled
    sizes = sizes._replace(
        plans=padded_size(sizes.plans, FEWEST, factor=4),
        rows=tuple(padded_size(len(r.first), FEWEST_ROWS, factor=4) for r in rows.values()),
    )
    return folded.machine_chunks(question, kind, [group], sizes)(group)


def _of_all(chunk: MachineChunk, left: Sequence[np.ndarray], place: Place) -> MachineChunk:
    """Return winners among what is left as winners among all plans."""
    position = np.stack(
        [
            np.where(winner >= 0, np.append(here, -1)[winner], -1)
            for winner, here in zip(chunk.position, left, strict=True)
        ]
    )
    whole = tuple(
        slice(outer.start + inner.start, outer.start + inner.stop)
        for outer, inner in zip(place, chunk.place, strict=True)
    )
    lanes = math.prod(some.stop - some.start for some in chunk.place)
    return MachineChunk(whole, position, chunk.objective, sum(map(len, left)) * lanes)
