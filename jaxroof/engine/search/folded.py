"""A search by compiled folds: chunks of machines in the lanes of the devices, plan after plan."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.axes import spread
from jaxroof.engine.grid.chunks import (
    Place,
    chunk_shape,
    iter_chunks,
    one_later,
    pad_points,
    padded_size,
    padded_slice,
)
from jaxroof.engine.search import candidates
from jaxroof.engine.search import fold as folding
from jaxroof.engine.search.candidates import (
    PreparedPlans,
    SortedPlans,
)
from jaxroof.engine.search.problem import (
    AxisRoles,
    MachineChunk,
    ProblemGroup,
    SearchProblem,
    plans_that_fit,
)
from jaxroof.estimator import Estimator, reads

EVERY = 1 << 18  # objectives of one problem that are kept, so that no plan is weighed twice


class Sizes(NamedTuple):
    """The padded sizes of packed plans; calls of equal sizes share one compiled program."""

    questions: int
    plans: int
    rows: tuple[int, ...]  # distinct rows of each part


def machine_chunks(
    question: SearchProblem, kind: AxisRoles, groups: Sequence[ProblemGroup]
) -> Callable[[ProblemGroup], Iterator[MachineChunk]]:
    """Return a function that folds the plans of one of the groups over all machines."""
    every, parts = [group.ready for group in groups], question.estimator.parts.values()
    sizes = Sizes(
        padded_size(max(len(ready.plans) for ready in every), 1),
        padded_size(max(len(some) for ready in every for some in ready.plans), candidates.PLANS),
        tuple(
            padded_size(
                max(len(ready.rows_of(reads(part)).first) for ready in every), candidates.ROWS
            )
            for part in parts
        ),
    )
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
        lanes = spread(group.inputs, here[first:])
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
    machines = math.prod(len(question.axes[d]) for d in kind.machine)
    every = question.top == 1 and size * machines <= EVERY
    block = 1 if every else 16 if size <= 1 << 16 else 64
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
        rank=len(kind.machine),
    )


def _largest_split(plans: SortedPlans) -> int:
    return int(np.bincount(plans.split).max()) if len(plans) else 1


NARROW = np.iinfo(np.uint16).max  # plans whose numbers are all this small take half the memory


@functools.lru_cache(maxsize=2)
def pack_plans(
    estimator: Estimator, ready: PreparedPlans, sizes: Sizes
) -> tuple[folding.Distinct, folding.Plans]:
    """Return the distinct rows of each part and the plans of several problems, both padded."""
    count = np.array([len(q) for q in ready.plans])
    largest = max((int(c.max(initial=0)) for q in ready.plans for c in q.plans.values()), default=0)
    narrow = np.uint16 if max(largest, *sizes.rows, 0) <= NARROW else np.uint32
    together = ready.every

    def square(values: np.ndarray, kind: Any) -> Any:
        rows = np.ones((sizes.questions, sizes.plans), kind)
        for row, column in zip(rows, np.split(values, np.cumsum(count)[:-1]), strict=False):
            row[: len(column)] = column
            row[len(column) :] = column[-1] if len(column) else 0
        return rows

    distinct: folding.Distinct = {}
    numbers = {}
    for (name, part), size in zip(estimator.parts.items(), sizes.rows, strict=True):
        rows = ready.rows_of(reads(part))
        some = ready.at(rows.first, reads(part)).items()
        distinct[name] = {f: pad_points(c.astype(np.float64), size) for f, c in some}
        numbers[name] = square(rows.number(slice(None)), narrow)
    plans = folding.Plans(
        fields={f: square(column, narrow) for f, column in together.items()},
        rows=numbers,
        split=square(np.concatenate([q.split for q in ready.plans]), np.int32),
        counts=np.pad(count, (0, sizes.questions - len(count))),
    )
    return folding.replicate(distinct), folding.replicate(plans)


Array = Any  # a NumPy array on the host, a JAX array on the devices


NUMBER = 8  # bytes
RESIDENT = 2048  # threads in flight on a multiprocessor (CUDA C++ Programming Guide, table 28)
SHARE = 1 / 16  # of a device's memory that the block minima of one call may take


class CallSize(NamedTuple):
    """The most that one call gives each device."""

    lanes: int  # machines times limits
    cells: int  # block minima, or plans of the second pass


CPU = CallSize(lanes=1024, cells=1 << 23)  # the lanes stay in the cache of a core


def call_size(device: Any) -> CallSize:
    """Return the most that one call gives a device.

    A GPU gets a lane for each thread that its multiprocessors keep in flight, and as many cells as
    a share of its memory holds. Whatever says nothing of its memory is treated as a CPU core.
    """
    multiprocessors = getattr(device, "core_count", None)
    memory = (device.memory_stats() or {}).get("bytes_limit")
    if device.platform == "cpu" or not multiprocessors or not memory:
        return CPU
    lanes, cells = multiprocessors * RESIDENT, int(memory * SHARE) // NUMBER
    return CallSize(max(CPU.lanes, lanes), max(CPU.cells, cells))
