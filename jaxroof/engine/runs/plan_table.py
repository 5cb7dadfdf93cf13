"""An append-only CSV file of every plan of a grid; many grids share it and reuse its rows."""

import csv
import dataclasses
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.executor import NUMPY, executor_of
from jaxroof.engine.grid.placement import with_any_placement
from jaxroof.engine.grid.tabulate import table_axes
from jaxroof.engine.runs.chunked_sweep import evaluate_sweep
from jaxroof.engine.runs.job import SweepJob
from jaxroof.engine.runs.job_size import check_rows
from jaxroof.engine.runs.plan_columns import REASON, PlanColumn, plan_columns
from jaxroof.engine.search.all_plans import DIMENSION, add_labels, add_verdicts
from jaxroof.errors import InputError, refusal, shown
from jaxroof.io.atomic import LockedAppend, locked_append
from jaxroof.io.chunk_manifest import ANEW
from jaxroof.io.locks import Path
from jaxroof.limits import out_of_memory
from jaxroof.structure import results

CHUNK = 1 << 16  # configurations written at once: about one second of work
BLOCK = 1 << 12  # lines read at once


@dataclasses.dataclass(frozen=True, eq=False)
class WrittenRows:
    """The distinct rows that a sweep needs, and the results known so far."""

    columns: Sequence[PlanColumn]  # in the order of the file
    first: np.ndarray  # of each row: its first configuration
    row_of: np.ndarray  # of each configuration: its row
    places: Mapping[tuple[Any, ...], int]  # key -> row
    found: Mapping[str, np.ndarray]  # results, by column
    there: np.ndarray  # whether a row's results are known

    @property
    def done(self) -> int:
        """Return how many configurations have results."""
        return int(np.count_nonzero(self.there[self.row_of]))


def append_plans(
    asked: SweepJob,
    path: Path,
    *,
    records: Mapping[str, str] | None = None,
    chunk: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Return every plan of a sweep; plans missing from the file are evaluated and appended.

    A row's key is every number and choice that determines it, with the estimator and version that
    made it. Rows of other sweeps of the same estimator stay. An interrupted run keeps every row
    that was written.
    Arguments: ``records`` has the names of the model and the system as the question gives them;
    ``chunk`` is the largest number of configurations written at once, at most 65,536;
    ``overwrite`` discards an existing file; ``progress`` is called with (done, all) configurations.
    Raises: InputError if the file is damaged or another kind of table, another run is writing it,
    or the disk is full.
    """
    if chunk is not None and chunk < 1:
        raise InputError(f"chunk: expected a whole number of at least 1, given {chunk}")
    _, _, shapes = table_axes(asked.estimator, asked.inputs, asked.recipe, asked.axes)
    check_rows(asked, path)
    own = plan_columns(asked, shapes, records or {})
    with locked_append(path) as file:
        lines = csv.reader(() if overwrite else file.lines(), strict=True)
        columns = _headed(file, lines, own)
        rows = _asked(columns, asked.points)
        _read(file, lines, rows)
        file.cut()
        _add(asked, file, rows, chunk or CHUNK, progress)
    return _dataset(asked, rows, shapes)


def _headed(file: LockedAppend, lines: Any, columns: Sequence[PlanColumn]) -> Sequence[PlanColumn]:
    """Return the columns in the order of the file's first line; an empty file keeps their order.

    Raises: InputError if the file's columns are not those of the sweep.
    """
    names = {column.name: column for column in columns}
    anew = [column for column in columns if not column.former]
    where, head = f"{file.path}: line 1", _next(file, lines)
    if head is None:
        *whole, last = file.rest.decode("utf-8", "replace").split(",")
        if {*whole} <= {*names} and any(name.startswith(last) for name in names):
            return anew  # an empty file, or a first line that was cut short
        raise refusal(where, f"not the names of columns; expected rows of this sweep; {ANEW}")
    for name in head:
        if name not in names or head.count(name) > 1:
            what = "there twice" if name in names else "no column of this sweep's rows"
            raise refusal(where, f"{shown(name)} is {what}; expected another file, or {ANEW}")
    for column in anew:
        # a number that this sweep lacks may be of a field that the file's version did not have
        if column.name not in head and not (column.is_key and column.key is None):
            name = f"no column {shown(column.name)}"
            raise refusal(where, f"{name}; expected rows of such a sweep, or {ANEW}")
    return [names[name] for name in head]


def _next(file: LockedAppend, lines: Any) -> list[str] | None:
    """Return the cells of the file's next line, None at the end."""
    try:
        return next(lines, None)
    except csv.Error as error:
        raise _damaged(file, lines.line_num, str(error)) from error


def _damaged(file: LockedAppend, line: int, what: str) -> InputError:
    said = f"{what}; mend the line or take it away, or {ANEW}"
    return refusal(f"{file.path}: line {line}", said)


def _asked(columns: Sequence[PlanColumn], points: int) -> WrittenRows:
    """Return the distinct rows of all configurations, still without results."""
    every = np.arange(points)
    places: dict[tuple[Any, ...], int] = {}
    keys = zip(*(column.values(every) for column in columns if column.is_key), strict=True)
    row_of = np.array([places.setdefault(key, len(places)) for key in keys])
    first = np.zeros(len(places), int)
    first[row_of[::-1]] = every[::-1]
    found = {c.name: np.zeros(len(places), c.dtype) for c in columns if c.dtype}
    return WrittenRows(columns, first, row_of, places, found, np.zeros(len(places), bool))


def _read(file: LockedAppend, lines: Any, rows: WrittenRows) -> None:
    """Read the results of the needed rows from the file, checking every line.

    Raises: InputError that names the line and the column that cannot be read.
    """
    while block := list(itertools.islice(_numbered(file, lines), BLOCK)):
        cells = [cells for _, cells in block]
        try:
            columns = zip(rows.columns, zip(*cells, strict=True), strict=True)
            values = [column.read(some) for column, some in columns]
        except (ValueError, KeyError):
            raise _unread(file, rows.columns, block) from None
        told = zip(rows.columns, values, strict=True)
        keys = zip(*(known for column, known in told if column.is_key), strict=True)
        found = {rows.places[key]: at for at, key in enumerate(keys) if key in rows.places}
        row, at = (np.array(list(some), int) for some in (found, found.values()))
        for column, known in zip(rows.columns, values, strict=True):
            if column.dtype:
                rows.found[column.name][row] = np.array(known, column.dtype)[at]
        rows.there[row] = True


def _numbered(file: LockedAppend, lines: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of every line that is not blank."""
    while (cells := _next(file, lines)) is not None:
        if cells:
            yield lines.line_num, cells


def _unread(
    file: LockedAppend, columns: Sequence[PlanColumn], block: Sequence[tuple[int, Sequence[str]]]
) -> InputError:
    """Return the error for the first line that cannot be read."""
    for number, cells in block:
        if len(cells) != len(columns):
            what = f"{len(cells)} cells; expected the {len(columns)} of line 1"
            return _damaged(file, number, what)
        for column, cell in zip(columns, cells, strict=True):
            try:
                column.parse(cell)
            except (ValueError, KeyError):
                what = f"{column.name}: {shown(cell)}; expected {column.expected}"
                return _damaged(file, number, what)
    raise AssertionError(file.path)  # one of them could not be read


def _add(
    asked: SweepJob, file: LockedAppend, rows: WrittenRows, chunk: int, progress: Progress | None
) -> None:
    """Evaluate and write the missing rows, a chunk at a time."""
    chunk = min(chunk, CHUNK)  # more would be compiled, and differ in the last bit
    try:
        for evaluated, missing in _pieces(asked, rows, chunk):
            told = _within(progress, rows.done, asked.points)
            whole = evaluate_sweep(_part(asked, rows.first[evaluated]), told)
            for start in range(0, len(missing), chunk):
                some = missing[start : start + chunk]
                data = whole.isel({DIMENSION: np.searchsorted(evaluated, some)})
                _write(file, rows, _text(rows.columns, data, rows.first[some], file.size == 0))
                for name, column in rows.found.items():
                    column[some] = data[name].values
                rows.there[some] = True
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_left(rows)) from None
    except (MemoryError, RuntimeError) as error:
        raise out_of_memory(error, _left(rows), file.path) from None


def _pieces(
    asked: SweepJob, rows: WrittenRows, chunk: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to evaluate at once, and those of them that are missing.

    Results must not depend on the chunk or on a stop. NumPy evaluates each row as if alone; a
    compiled program does not, so its rows are those of fixed blocks of the sweep.
    """
    missing = np.flatnonzero(~rows.there)
    anything = with_any_placement(asked.estimator, asked.inputs)
    if executor_of(asked.estimator, asked.recipe, anything, 1) == NUMPY:
        for start in range(0, len(missing), chunk):
            yield missing[start : start + chunk], missing[start : start + chunk]
        return
    for start in range(0, len(rows.first), CHUNK):
        block = np.arange(start, min(start + CHUNK, len(rows.first)))
        some = block[~rows.there[block]]
        if len(some):
            yield block, some


def _write(file: LockedAppend, rows: WrittenRows, text: str) -> None:
    """Append lines to the file.

    Raises: InputError that says how many configurations are already in the file.
    """
    try:
        file.add(text)
    except OSError as error:
        said = f"cannot be written: {error.strerror or error}; {_left(rows)}"
        raise refusal(file.path, said) from error


def _left(rows: WrittenRows) -> str:
    many = f"{rows.done:,} of {len(rows.row_of):,} configurations"
    return f"{many} are finished; run again to continue"


def _within(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Return a callback that reports a chunk's progress in configurations of the whole sweep."""
    if progress is None:
        return None
    return lambda done, _: progress(before + done, total)


def _part(asked: SweepJob, some: np.ndarray) -> SweepJob:
    """Return the same sweep for some of its configurations."""
    assert asked.every is not None
    columns = {path: column[some] for path, column in asked.axes[0].columns.items()}
    axis = dataclasses.replace(asked.axes[0], columns=columns)
    labels = {name: (known, at[some]) for name, (known, at) in asked.every.labels.items()}
    every = dataclasses.replace(asked.every, axis=axis, labels=labels)
    return dataclasses.replace(asked, axes=(axis,), every=every)


def _text(columns: Sequence[PlanColumn], data: xr.Dataset, some: np.ndarray, headed: bool) -> str:
    """Return configurations as lines of CSV; ``headed`` adds the header line."""
    page = io.StringIO()
    lines = csv.writer(page, lineterminator="\n")
    if headed:
        lines.writerow(column.name for column in columns)
    reasons = data[REASON].attrs["flag_meanings"].split()
    cells = []
    for column in columns:
        if column.is_key:
            values = column.values(some)
        else:
            held = np.broadcast_to(data[column.name].values, (len(some),)).tolist()
            values = [reasons[v] for v in held] if column.name == REASON else held
        cells.append(column.cells(values))
    lines.writerows(zip(*cells, strict=True))
    return page.getvalue()


def _dataset(asked: SweepJob, rows: WrittenRows, shapes: Any) -> xr.Dataset:
    """Return the configurations of a sweep in its own order, as a fresh evaluation would."""
    assert asked.every is not None
    columns = {name: ((DIMENSION,), rows.found[name][rows.row_of]) for name in results(shapes)}
    about = provenance(asked.estimator, asked.inputs, asked.recipe, asked.axes)
    meanings = field_metadata(asked.estimator.plan, shapes)
    data = dataset(columns, asked.axes, asked.inputs, meanings, about)
    whole = slice(0, asked.points)
    judgement = add_verdicts(asked.estimator, data, asked.every.inputs, asked.axes[0])
    found = add_labels(asked.every, judgement, whole)
    return found.assign_attrs(asked.about)
