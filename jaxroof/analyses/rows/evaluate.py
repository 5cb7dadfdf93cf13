"""Evaluate the rows of a table: each row is one configuration, with its results beside it."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.rows.cells import Cells, Faults, RowProblem
from jaxroof.analyses.rows.columns import check_complete, read_columns, shared_of
from jaxroof.analyses.rows.verdicts import Verdicts
from jaxroof.analyses.rows.writer import ERROR, Page, result_name
from jaxroof.engine.runs.row_stream import RowChunk, RowResults, Size, stream_rows
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.plugins import estimator_of
from jaxroof.io.atomic import partial_file
from jaxroof.io.csv_blocks import CsvBlock, RowFile, open_rows
from jaxroof.io.formats import check_placeable

Path = str | os.PathLike[str]
Progress = Callable[[int, int], None]
SHOWN = 12  # rows printed of a table
# (a file of rows, whether bad rows are passed over) -> the results of its chunks, in their order
Elsewhere = Callable[[RowFile, bool], Generator[RowResults]]


@dataclasses.dataclass(eq=False)
class RowsWritten:
    """The outcome of evaluating a file of rows, and its first rows."""

    rows: int = 0
    passed: int = 0  # rows skipped
    first: str = ""  # why the first skipped row was skipped
    verdicts: Verdicts = dataclasses.field(default_factory=Verdicts)
    headings: Sequence[str] = ()
    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    shown: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    typed: list[list[str]] = dataclasses.field(default_factory=list)


def evaluate_rows(
    estimator: Estimator | str,
    frame: Any,
    settings: Mapping[str, Any] | None = None,
    keep_going: bool = False,
    **more: Any,
) -> Any:
    """Return a table (pandas) with an estimator's results for each row as additional columns.

    Arguments: ``frame``'s columns are dotted paths, names from the catalogue or choices, as in a
    file of rows; ``settings`` and ``more`` are shared by all rows; with ``keep_going``, a column
    ``error`` says why a row has no results, instead of an exception.
    Returns: the table; its ``attrs`` count the rows ``answered``, ``feasible`` and ``refused``.
    Raises: InputError naming the row and the column that cannot be used.
    """
    here = pathlib.Path.cwd()
    asked = estimator_of(estimator, here, trust=True) if isinstance(estimator, str) else estimator
    if not hasattr(frame, "columns"):
        raise refusal("rows", f"expected a table (pandas), given a {type(frame).__name__}")
    headings = [str(name).strip() for name in frame.columns]
    question = row_problem(asked, headings, {**(settings or {}), **more}, here, "rows", "rows")
    cells = [_plain(frame.iloc[:, number]) for number in range(len(headings))]

    def chunks() -> Iterator[RowChunk]:
        size, start = Size(), 0
        while start < len(frame):
            stop = min(start + size.next(), len(frame))
            places = [f"row {number}" for number in range(start, stop)]
            some, faults = [column[start:stop] for column in cells], Faults()
            yield question.chunk(some, stop - start, faults, (places, faults))
            start = stop

    parts, told, verdicts = list[RowResults](), list[str](), Verdicts()
    for answers in stream_rows(asked, _checked(chunks(), keep_going)):
        _refuse(answers, keep_going)
        places, faults = answers.chunk.about
        told += [f"{p}: {faults[n][1]}" if n in faults else "" for n, p in enumerate(places)]
        verdicts.add(answers.columns, faults)
        parts.append(answers)
    bad = np.array([why != "" for why in told], bool)
    names = next((list(part.columns) for part in parts if part.columns), [])
    found = {result_name(name, headings): _joined(name, parts, bad) for name in names}
    if keep_going:
        found[result_name(ERROR, headings)] = np.array(told, object)
    made = frame.assign(**found)
    made.attrs |= verdicts.attrs
    return made


def _plain(column: Any) -> Cells:
    """Return a column of a frame as numbers or as texts."""
    if column.dtype.kind in "iuf":
        return np.asarray(column, np.float64)
    values = column.tolist()
    return ["" if v is None or v != v else str(v) for v in values]


def _joined(name: str, parts: Sequence[RowResults], bad: np.ndarray) -> np.ndarray:
    """Concatenate the parts of a column; bad rows become NaN or None."""
    column = np.concatenate(
        [part.columns.get(name, np.zeros(part.chunk.size, bool)) for part in parts]
    )
    if bad.any():
        column = column if column.dtype.kind == "f" else column.astype(object)
        column[bad] = np.nan if column.dtype.kind == "f" else None
    return column


def row_problem(
    estimator: Estimator,
    headings: Sequence[str],
    shared: Mapping[str, Any],
    folder: Path,
    where: str,
    head: str,
) -> RowProblem:
    """Return the problem of a table, checked before rows are read; ``head`` locates headings."""

    def beside(read: Callable[[str], Any]) -> Callable[[str], Any]:
        file = pathlib.Path(folder)
        return lambda text: read(str(file / text) if text.endswith(".toml") else text)

    if not dataclasses.is_dataclass(estimator.inputs):
        raise InputError(
            f"{estimator.name}: its inputs are no record; expected an estimator of one"
        )
    with _led(head):
        columns = read_columns(estimator, headings)
    with _led("--set"):
        given = shared_of(estimator, shared, columns)
    with _led(where):
        check_complete(estimator, columns, given)
    names = {path: beside(read) for path, read in estimator.names.items()}
    return RowProblem(estimator, columns, given, names)


@contextlib.contextmanager
def _led(where: str) -> Iterator[None]:
    """Prefix every error raised in the block with its location."""
    try:
        yield
    except InputError as error:
        raise refusal(where, str(error)) from error


def _checked(chunks: Iterator[RowChunk], keep_going: bool) -> Iterator[RowChunk]:
    return (check_rows(chunk, keep_going) for chunk in chunks)


def _refuse(answers: RowResults, keep_going: bool) -> None:
    """Record the rows that the estimator cannot evaluate, or raise for the first of them."""
    places, faults = answers.chunk.about[:2]
    for rows, why in sorted(answers.refused, key=lambda one: int(one[0][0])):
        if not keep_going:
            raise refusal(places[int(rows[0])], str(why))
        for row in rows.tolist():
            faults.note(row, len(places), str(why))


class _Places(Sequence[str]):
    """The location of each row of a file, in words."""

    def __init__(self, path: str, lines: Sequence[int]) -> None:
        self.path, self.lines = path, lines

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, row: Any) -> Any:
        return f"{self.path}: line {self.lines[row]}"


def places_of(path: str, block: CsvBlock) -> Sequence[str]:
    """Return where each row of a block is, in words."""
    return _Places(path, block.lines)


def evaluate_file(
    estimator: Estimator,
    path: Path,
    output: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> RowsWritten:
    """Evaluate every row of a CSV file; write the rows with their results to ``output``.

    ``progress`` receives (done, all) rows; all is estimated from the share of the file read so far.
    ``elsewhere`` has other processes evaluate the rows.
    An interrupted run leaves its finished rows beside ``output`` (``NAME.partial.csv``).
    Raises: InputError naming the file, the line and the column that cannot be used.
    """
    if output is not None:
        _check_output(output, path)
    with open_rows(path) as file, contextlib.ExitStack() as stack:
        folder = pathlib.Path(path).parent
        where = (file.path, f"{file.path}: line 1")
        question = row_problem(estimator, file.headings, settings or {}, folder, *where)
        write = stack.enter_context(partial_file(output)) if output is not None else None
        done = RowsWritten(headings=file.headings)
        page = Page(file, keep_going)
        if elsewhere is None:
            found = stream_rows(estimator, _checked(_chunks(file, question), keep_going))
        else:
            found = stack.enter_context(contextlib.closing(elsewhere(file, keep_going)))
        for answers in found:
            _refuse(answers, keep_going)
            _count(done, answers)
            if write is not None:
                page.write(answers, write)
            if progress is not None:
                total = os.fstat(file.stream.fileno()).st_size
                progress(done.rows, max(done.rows, int(done.rows * total / max(file.read, 1))))
        if not done.rows:
            raise refusal(file.path, "no rows; expected a line for each configuration after line 1")
        if write is not None:
            page.end(write)
    return done


def _check_output(output: Path, path: Path) -> None:
    """Check, before any work, that a file of rows can be written."""
    name = os.fspath(output)
    if pathlib.Path(output).suffix != ".csv":
        raise refusal(name, "rows are written as CSV; expected a name that ends in .csv")
    check_placeable(output)
    if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
        raise refusal(name, "the file of the rows itself; expected another name")


def _chunks(file: RowFile, question: RowProblem) -> Iterator[RowChunk]:
    size = Size()
    while (block := file.take(size.next())) is not None:
        yield chunk_of_block(question, file.path, block)


def chunk_of_block(question: RowProblem, path: str, block: CsvBlock) -> RowChunk:
    """Return the rows of a block of a file in groups, with their places and their faults."""
    faults = Faults()
    for row, why in block.ragged.items():
        faults.note(row, -1, why)
    about = (places_of(path, block), faults, block)
    return question.chunk(block.cells, len(block.typed), faults, about)


def check_rows(chunk: RowChunk, keep_going: bool) -> RowChunk:
    """Return a chunk; raise at the first row with an error, unless ``keep_going``."""
    places, faults = chunk.about[:2]
    if faults and not keep_going:
        row = min(faults)
        raise refusal(places[row], faults[row][1])
    return chunk


def _count(done: RowsWritten, answers: RowResults) -> None:
    """Add a chunk's results to the outcome of a file."""
    places, faults, block = answers.chunk.about
    if faults and not done.first:
        done.first = f"{places[min(faults)]}: {faults[min(faults)][1]}"
    done.rows += answers.chunk.size
    done.passed += len(faults)
    done.units = {**done.units, **answers.units}
    done.verdicts.add(answers.columns, faults)
    for row in range(min(answers.chunk.size, SHOWN - len(done.shown))):
        done.typed.append([column[row] for column in block.cells])
        values = {name: column[row] for name, column in answers.columns.items()}
        done.shown.append({ERROR: faults[row][1]} if row in faults else values)
