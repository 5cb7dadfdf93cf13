"""Evaluate the rows of a table with an estimator: columns in, columns out, a chunk at a time."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.dependencies import results_without_numbers
from jaxroof.engine.grid.evaluate import evaluate_points
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.grid.placement import place_rows
from jaxroof.engine.runs.row_programs import RowGroup, RowPrograms
from jaxroof.errors import InputError
from jaxroof.estimator import Estimator
from jaxroof.records import units
from jaxroof.structure import map_numbers, results, structure

FIRST, LAST, GROWTH = 1 << 4, 1 << 15, 4  # rows of a chunk: first, largest, growth factor
QUICK = 0.25  # seconds: after a quicker chunk the next one is larger


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


def stream_rows(
    estimator: Estimator,
    chunks: Iterable[RowChunk],
    programs: RowPrograms | None = None,
    seen: int = 0,
) -> Iterator[RowResults]:
    """Yield the results of every chunk, in order.

    Arguments: ``programs`` are those that earlier rows used, ``seen`` is how many rows came before.

    If the estimator refuses a group (for example because a number is missing), its rows go into
    ``refused``; the other groups of the chunk are still evaluated.
    Raises: InputError for a result that is not one number per row, or that only some rows have.
    """
    programs = programs or RowPrograms(estimator)
    for chunk in chunks:
        seen += chunk.size
        columns: dict[str, np.ndarray] = {}
        said: dict[str, str] = {}
        refused: list[tuple[np.ndarray, InputError]] = []
        for group in chunk.groups:
            try:
                found, kinds = _answered(programs, group, seen)
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


def _answered(
    programs: RowPrograms, group: RowGroup, seen: int
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the results of a group, with the placements chosen for its plans, and their units."""
    estimator, recipe, count = programs.estimator, group.recipe, len(group.rows)
    if estimator.sizing is not None:
        return _sized(estimator, group)
    fields = () if estimator.is_placed(group.inputs) else estimator.placement
    try:
        group = group._replace(inputs=place_rows(estimator, group.inputs, recipe, count))
        if executor_of(estimator, recipe, group.inputs, seen) == NUMPY:
            pieces = iter([(0, estimator.evaluate_checked(group.inputs, recipe))])
            size = count
        else:
            size, pieces = programs.run(group)
    except InputError as error:
        raise Refused(error) from error
    found: dict[str, np.ndarray] = {}
    report = None
    for start, report in pieces:
        _store(found, start, report, count, size)
    found |= {field: getattr(group.inputs.plan, field).astype(np.int64) for field in fields}
    return found, units(type(report)) if dataclasses.is_dataclass(report) else {}


def _sized(estimator: Estimator, group: RowGroup) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the results of rows that need programs of different sizes, and their units."""
    try:
        report = results_without_numbers(estimator, group.recipe, structure(group.inputs))
    except InputError as error:
        raise Refused(error) from error
    inputs = map_numbers(lambda leaf: np.broadcast_to(leaf, len(group.rows)), group.inputs)
    found = evaluate_points(estimator, group.recipe, inputs)
    return found, units(type(report)) if dataclasses.is_dataclass(report) else {}


def _store(found: dict[str, np.ndarray], start: int, report: Any, count: int, size: int) -> None:
    """Copy the results of a piece into the columns of its group."""
    for name, value in results(report).items():
        array = np.asarray(value)
        if array.shape not in ((), (size,)):
            raise InputError(f"{name}: {array.shape[1:]} numbers a row; expected one")
        some = min(size, count - start)
        column = found.setdefault(name, np.empty(count, array.dtype))
        column[start : start + some] = array if array.ndim == 0 else array[:some]
