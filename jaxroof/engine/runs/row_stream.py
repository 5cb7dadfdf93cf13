"""Evaluate the rows of a table with an estimator: columns in, columns out, a chunk at a time.

A chunk is cut into padded pieces whose size is a power of two. So one program serves a file of any
length, a short file is not evaluated at thousands of points, and memory use stays constant.
"""

import dataclasses
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxroof.engine.grid.evaluate import evaluate_jit, evaluate_points, pad_points, results
from jaxroof.engine.grid.placement import place_rows
from jaxroof.errors import InputError
from jaxroof.estimator import Estimator
from jaxroof.records import units

MOST = 4096  # most points of a piece
SHORT = 16  # fewer pieces than this reuse a smaller program
SCRATCH = 1 << 26  # most bytes of temporary memory for the program of one piece
AHEAD = 4  # pieces in flight at once
FIRST, LAST, GROWTH = 1 << 4, 1 << 15, 4  # rows of a chunk: first, largest, growth factor
QUICK = 0.25  # seconds: after a quicker chunk the next one is larger


class RowGroup(NamedTuple):
    """Rows of a chunk that share a program: the same recipe, and the same numbers given."""

    rows: np.ndarray  # their positions in the chunk
    inputs: Any  # a record whose leaves are numbers, or columns with one value per row
    recipe: Any


class RowChunk(NamedTuple):
    """A chunk of rows in groups; rows in no group are invalid; ``about`` is the caller's."""

    size: int
    groups: Sequence[RowGroup]
    about: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class RowResults:
    """The results of a chunk as columns; NaN or 0 where a row has none."""

    chunk: RowChunk
    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    refused: Sequence[tuple[np.ndarray, InputError]]  # rows refused, and why


class Size:
    """Adaptive chunk size: it grows fourfold while a chunk takes under 0.25 s.

    So an interrupt loses little."""

    def __init__(self) -> None:
        self.rows, self.since = 0, 0.0

    def next(self) -> int:
        """Return the rows of the next chunk; the time since the last call counts as one chunk's."""
        now = time.perf_counter()
        quick, self.since = now - self.since < QUICK, now
        grown = self.rows * GROWTH if quick else self.rows
        self.rows = min(grown or FIRST, LAST)
        return self.rows


class Programs:
    """The compiled programs of an estimator, by recipe, structure and size."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.known: dict[Any, dict[int, Any]] = {}
        self.most: dict[Any, int] = {}

    def fitting(self, group: RowGroup) -> tuple[int, Any]:
        """Return the piece size and the program for a group; few sizes are compiled."""
        leaves, structure = jax.tree.flatten(group.inputs)
        shape = (group.recipe, structure, tuple(np.ndim(leaf) for leaf in leaves))
        known, most = self.known.setdefault(shape, {}), self.most.get(shape, MOST)
        rows = len(group.rows)
        size = min(most, 1 << (rows - 1).bit_length())
        enough = [held for held in known if held >= size]
        near = [held for held in known if rows < SHORT * held]
        if enough or near:
            size = min(enough) if enough else max(near)
            return size, known[size]
        program = self._compiled(group, size)
        scratch = getattr(program.memory_analysis(), "temp_size_in_bytes", 0)
        if scratch > SCRATCH and size > 1:
            fits = int(SCRATCH * size / scratch)
            size = self.most[shape] = 1 << max(fits.bit_length() - 1, 0)
            program = self._compiled(group, size)
        known[size] = program
        return size, program

    def _compiled(self, group: RowGroup, size: int) -> Any:
        inputs = jax.tree.map(lambda leaf: _piece(leaf, 0, size), group.inputs)
        return evaluate_jit.lower(self.estimator, group.recipe, inputs).compile()


def stream_rows(estimator: Estimator, chunks: Iterable[RowChunk]) -> Iterator[RowResults]:
    """Yield the results of every chunk, in order.

    If the estimator refuses a group (for example because a number is missing), its rows go into
    ``refused``; the other groups of the chunk are still evaluated.
    Raises: InputError for a result that is not one number per row, or that only some rows have.
    """
    programs = Programs(estimator)
    for chunk in chunks:
        columns: dict[str, np.ndarray] = {}
        said: dict[str, str] = {}
        refused: list[tuple[np.ndarray, InputError]] = []
        for group in chunk.groups:
            try:
                found, kinds = _answered(programs, group)
            except Refused as error:
                refused.append((group.rows, error.why))
                continue
            if columns and set(columns) != set(found):
                raise InputError("rows with other results than those before; expected them apart")
            said |= kinds
            for name, values in found.items():
                if len(group.rows) == chunk.size:
                    columns[name] = values
                    continue
                nothing = np.nan if values.dtype.kind == "f" else 0
                whole = columns.setdefault(name, np.full(chunk.size, nothing, values.dtype))
                whole[group.rows] = values
        yield RowResults(chunk, columns, said, refused)


class Refused(Exception):
    """The estimator refuses the inputs of a group; ``why`` is its error."""

    def __init__(self, why: InputError) -> None:
        super().__init__(str(why))
        self.why = why


def _answered(programs: Programs, group: RowGroup) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the results of a group, with the placements chosen for its plans, and their units."""
    estimator, count, report = programs.estimator, len(group.rows), None
    if estimator.sizing is not None:
        return _sized(estimator, group)
    fields = () if estimator.is_placed(group.inputs) else estimator.placement
    try:
        group = group._replace(inputs=place_rows(estimator, group.inputs, group.recipe, count))
        size, program = programs.fitting(group)
    except InputError as error:
        raise Refused(error) from error
    found: dict[str, np.ndarray] = {}
    waiting: deque[tuple[int, Any]] = deque()
    for start in range(0, count, size):
        piece = jax.tree.map(lambda leaf, s=start: _piece(leaf, s, size), group.inputs)
        waiting.append((start, program(piece)))
        if len(waiting) > AHEAD:
            _store(found, *waiting.popleft(), count, size)
    while waiting:
        start, report = waiting.popleft()
        _store(found, start, report, count, size)
    found |= {field: getattr(group.inputs.plan, field).astype(np.int64) for field in fields}
    return found, units(type(report)) if dataclasses.is_dataclass(report) else {}


def _sized(estimator: Estimator, group: RowGroup) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the results of rows that need programs of different sizes, and their units."""
    try:
        report = jax.eval_shape(lambda i: estimator.evaluate(i, group.recipe), group.inputs)
    except InputError as error:
        raise Refused(error) from error
    inputs = jax.tree.map(lambda leaf: np.broadcast_to(leaf, len(group.rows)), group.inputs)
    found = evaluate_points(estimator, group.recipe, inputs)
    return found, units(type(report)) if dataclasses.is_dataclass(report) else {}


def _piece(leaf: Any, start: int, size: int) -> Any:
    """Return one piece of a column, padded to full size; a single number stays as it is."""
    if np.ndim(leaf) == 0:
        return np.float64(leaf)
    part = leaf[start : start + size]
    return part if len(part) == size else pad_points(part, size)


def _store(found: dict[str, np.ndarray], start: int, report: Any, count: int, size: int) -> None:
    """Copy the results of a piece into the columns of its group."""
    for name, value in results(report).items():
        array = np.asarray(value)
        if array.shape not in ((), (size,)):
            raise InputError(f"{name}: {array.shape[1:]} numbers a row; expected one")
        some = min(size, count - start)
        column = found.setdefault(name, np.empty(count, array.dtype))
        column[start : start + some] = array if array.ndim == 0 else array[:some]
