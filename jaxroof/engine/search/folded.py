"""A search by compiled folds: chunks of machines in the lanes of the devices, plan after plan."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any

import numpy as np

from jaxroof.engine.grid.axes import spread
from jaxroof.engine.grid.chunks import (
    Place,
    chunk_shape,
    iter_chunks,
    one_later,
    padded_slice,
)
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.candidates import Sizes, SortedPlans, shared_sizes
from jaxroof.engine.search.device_blocks import call_size
from jaxroof.engine.search.groups import MachineChunk, ProblemGroup, plans_that_fit
from jaxroof.engine.search.packed_inputs import PackedInputs
from jaxroof.engine.search.packed_plans import pack_plans
from jaxroof.engine.search.problem import AxisRoles, SearchProblem

EVERY = 1 << 18  # objectives of one problem that are kept, so that no plan is weighed twice


def machine_chunks(
    question: SearchProblem,
    kind: AxisRoles,
    groups: Sequence[ProblemGroup],
    sizes: Sizes | None = None,
) -> Callable[[ProblemGroup], Iterator[MachineChunk]]:
    """Return a function that folds the plans of one of the groups over all machines.

    ``sizes`` are those to pad to (default: the least that hold each group).
    """
    sizes = sizes or shared_sizes(question.estimator, (group.ready for group in groups))
    return functools.partial(_chunks, question, kind, sizes)


def _chunks(
    question: SearchProblem, kind: AxisRoles, sizes: Sizes, group: ProblemGroup
) -> Iterator[MachineChunk]:
    """Yield the winners of a group on each chunk of limits and machines in turn."""
    for shape, place, fits, found in one_later(_folds(question, kind, sizes, group)):
        used = tuple(slice(0, s.stop - s.start) for s in place)
        inside = (slice(0, len(fits)), slice(None), *used)  # without padding
        ranked = (-1, question.top, *shape)
        position, objective = (np.asarray(array).reshape(ranked)[inside] for array in found)
        compared = sum(map(len, group.ready.plans)) * math.prod(s.stop for s in used)
        yield MachineChunk(place, position, question.sign * objective, compared)


def _folds(
    question: SearchProblem, kind: AxisRoles, sizes: Sizes, group: ProblemGroup
) -> Iterator[tuple[list[int], Place, np.ndarray, Any]]:
    """Start the fold of each chunk; yield its padded shape, place, what fits and the winners."""
    limits, machine = ([question.axes[d] for d in dims] for dims in (kind.limits, kind.machine))
    axes, first = [*limits, *machine], len(limits)
    distinct, plans = pack_plans(question.estimator, group.ready, sizes)
    lead, size = plans.split.shape
    fold = fold_config(question, kind, group, size)
    # block minima per lane, or values of the second pass per lane
    cells = max(size // fold.block, (2 * fold.looks + 1) * fold.block)
    most = call_size(folding.mesh().devices[0])
    shape, shard = chunk_layout(axes, first, min(most.lanes, most.cells // cells))
    varied = {p: np.append(v, np.repeat(v[:1], lead - len(v))) for p, v in group.varied.items()}
    for place in iter_chunks(axes, shape):
        here = padded_slice(axes, place, shape)
        lanes = PackedInputs.of(spread(group.inputs, here[first:]))
        fits = plans_that_fit(question.estimator, group, here)
        # plans beyond the largest limit of the call cannot win and are not folded
        reach = np.pad(fits.reshape(len(fits), -1).max(axis=1), (0, lead - len(fits)))
        rows = np.zeros((lead, *fits.shape[1:]), np.int64)
        rows[: len(fits)] = fits
        found = folding.best(
            fold,
            shard,
            lanes,
            varied,
            distinct,
            plans._replace(counts=reach),
            rows.reshape(lead, -1, *shape[first:]),
        )
        yield shape, place, fits, found


def chunk_layout(axes: Sequence[Sized], first: int, lanes: int) -> tuple[list[int], int]:
    """Return a chunk's shape and the machine dimension that is split over the devices."""
    devices = folding.mesh().size
    sizes = [len(axis) for axis in axes]
    most = chunk_shape(sizes, max(1, lanes) * devices)
    # chunks as equal as possible, so that the last one needs little padding
    shape = [-(-size // -(-size // part)) for size, part in zip(sizes, most, strict=True)]
    if first == len(axes):
        return shape, 0
    shard = int(np.argmax(shape[first:]))
    shape[first + shard] = -(-shape[first + shard] // devices) * devices  # equal shares
    return shape, shard


def fold_config(
    question: SearchProblem, kind: AxisRoles, group: ProblemGroup, size: int
) -> folding.FoldConfig:
    """Return the static settings of a group's fold over lists padded to ``size`` plans."""
    block = 16 if size <= 1 << 16 else 64
    machines = math.prod(len(question.axes[d]) for d in kind.machine)
    per_split = not question.placements and question.top > 1
    largest = max(map(_largest_split, group.ready.plans)) if per_split else 1
    # the plans of one split are adjacent, but may span several blocks
    straddle = 1 + -(-(largest - 1) // block) if per_split else 1
    return folding.FoldConfig(
        estimator=question.estimator,
        recipe=question.recipe,
        objective=question.objective,
        sign=question.sign,
        top=question.top,
        per_split=per_split,
        looks=min(question.top * straddle, -(-size // block)),
        block=block,
        every=question.top == 1 and size * machines <= EVERY,
        rank=len(kind.machine),
    )


def _largest_split(plans: SortedPlans) -> int:
    return int(np.bincount(plans.split).max()) if len(plans) else 1
