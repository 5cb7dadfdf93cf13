"""Evaluate the rows of a table: each row is one configuration, with its results beside it."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.analyses.rows.columns import Cells, Faults, RowProblem, row_problem
from jaxroof.engine.runs.row_stream import RowChunk, RowResults, sizes, stream_rows
from jaxroof.errors import InputError, listing, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.plugins import estimator_of
from jaxroof.io.atomic import partial_file
from jaxroof.io.csv_blocks import RowFile, csv_line, open_rows, texts, typed
from jaxroof.io.formats import check_placeable

Path = str | os.PathLike[str]
Progress = Callable[[int, int], None]
Write = Callable[[str, int], None]  # of a text, and the number of rows in it
SHOWN = 12  # rows printed of a table
FEASIBLE, ERROR = "feasible", "error"  # a result; the column that says why a row was skipped


@dataclasses.dataclass(eq=False)
class Verdicts:
    """Counts of the rows with results, of the feasible ones, and of the verdicts on the others.

    A flag that is false in some feasible row is not a verdict: its count becomes minus infinity.
    """

    answered: int = 0
    feasible: int | None = None  # None if the estimator does not report feasibility
    failed: dict[str, float] = dataclasses.field(default_factory=dict)  # rows, by flag

    def add(self, columns: Mapping[str, np.ndarray], passed: Collection[int]) -> None:
        """Count rows by their results; rows at the positions ``passed`` have none."""
        good = np.ones(len(next(iter(columns.values()), ())), bool)
        good[[row for row in passed if row < len(good)]] = False
        self.answered += int(good.sum())
        if FEASIBLE not in columns:
            return
        feasible = columns[FEASIBLE] & good
        self.feasible = (self.feasible or 0) + int(feasible.sum())
        for name, column in columns.items():
            if column.dtype == bool and name != FEASIBLE:
                count = -np.inf if np.any(feasible & ~column) else np.sum(good & ~column)
                self.failed[name] = self.failed.get(name, 0.0) + float(count)

    @property
    def attrs(self) -> dict[str, Any]:
        """Return the counts by name; without verdicts, only of the rows ``answered``."""
        if self.feasible is None:
            return {"answered": self.answered}
        order = sorted(self.failed.items(), key=lambda one: -one[1])  # what refuses most is first
        refused = {name: int(count) for name, count in order if count > 0}
        return {"answered": self.answered, "feasible": self.feasible, "refused": refused}

    @property
    def sentence(self) -> str:
        """Return how many rows are feasible and what refused the others; may be empty."""
        if self.feasible is None or not self.answered:
            return ""
        are = "is" if self.feasible == 1 else "are"
        said = f" {self.feasible:,} of {rows_words(self.answered)} {are} feasible"
        refused = [f"{name} fails at {n:,}" for name, n in self.attrs["refused"].items()]
        return f"{said}: {listing(refused)}." if refused else f"{said}."


def rows_words(rows: int) -> str:
    """Return a number of rows in words."""
    return f"{rows:,} row" + ("" if rows == 1 else "s")


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


class Table(NamedTuple):
    """Rows of a chunk: where they are, in words, their cells, and what is wrong with some."""

    head: str
    lines: Sequence[int]
    cells: Sequence[Cells]
    faults: Faults

    def why(self, row: int) -> str:
        """Return where a row is and what is wrong with it."""
        return f"{self.head} {self.lines[row]}: {self.faults[row][1]}"


# ---- Tables of pandas ---------------------------------------------------------------------------


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

    def tables() -> Iterator[Table]:
        start, size = 0, sizes()
        while start < len(frame):
            rows = range(start, min(start + next(size), len(frame)))
            some = [column[rows.start : rows.stop] for column in cells]
            yield Table("row", rows, some, Faults())
            start = rows.stop

    parts, told, verdicts = list[RowResults](), list[str](), Verdicts()
    for answers in _answers(asked, question, tables(), keep_going):
        about = answers.chunk.about
        told += [about.why(n) if n in about.faults else "" for n in range(answers.chunk.size)]
        verdicts.add(answers.columns, about.faults)
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
    if column.dtype.kind in "iuf":
        return np.asarray(column, np.float64)
    return ["" if v is None or v != v else str(v) for v in column.tolist()]


def _joined(name: str, parts: Sequence[RowResults], bad: np.ndarray) -> np.ndarray:
    """Concatenate the parts of a column; bad rows become NaN or None."""
    none = [np.zeros(part.chunk.size, bool) for part in parts]
    pairs = zip(parts, none, strict=True)
    column = np.concatenate([part.columns.get(name, empty) for part, empty in pairs])
    if bad.any():
        column = column if column.dtype.kind == "f" else column.astype(object)
        column[bad] = np.nan if column.dtype.kind == "f" else None
    return column


def _answers(
    estimator: Estimator, question: RowProblem, tables: Iterable[Table], keep_going: bool
) -> Iterator[RowResults]:
    """Yield the results of every chunk; refused rows are among its faults, or end it."""

    def check(about: Table) -> None:
        if about.faults and not keep_going:
            raise InputError(about.why(min(about.faults)))

    def chunks() -> Iterator[RowChunk]:
        for about in tables:
            chunk = question.chunk(about.cells, len(about.lines), about.faults, about)
            check(about)
            yield chunk

    for answers in stream_rows(estimator, chunks()):
        about = answers.chunk.about
        for rows, why in answers.refused:
            for row in rows.tolist():
                about.faults.note(row, len(about.cells), str(why))
        check(about)
        yield answers


# ---- Files --------------------------------------------------------------------------------------


def evaluate_file(
    estimator: Estimator,
    path: Path,
    output: Path | None = None,
    settings: Mapping[str, Any] | None = None,
    keep_going: bool = False,
    progress: Progress | None = None,
) -> RowsWritten:
    """Evaluate every row of a CSV file; write the rows with their results to ``output``.

    ``progress`` receives (done, all) rows; all is estimated from the share of the file read so far.
    An interrupted run leaves its finished rows beside ``output`` (``NAME.partial.csv``).
    """
    if output is not None:
        _check_output(output, path)
    with open_rows(path) as file, contextlib.ExitStack() as stack:
        folder, where = pathlib.Path(path).parent, (file.path, f"{file.path}: line 1")
        question = row_problem(estimator, file.headings, settings or {}, folder, *where)
        write = stack.enter_context(partial_file(output)) if output is not None else None
        done, page = RowsWritten(headings=file.headings), Page(file.headings, keep_going)
        for answers in _answers(estimator, question, _tables(file), keep_going):
            _count(done, answers)
            if write is not None:
                page.write(write, answers)
            if progress is not None:
                total, read = os.fstat(file.stream.fileno()).st_size, file.stream.tell()
                progress(done.rows, max(done.rows, int(done.rows * total / max(read, 1))))
        if not done.rows:
            raise refusal(file.path, "no rows; expected a line for each configuration after line 1")
        if write is not None:
            page.write(write)
    return done


def _check_output(output: Path, path: Path) -> None:
    name = os.fspath(output)
    if pathlib.Path(output).suffix != ".csv":
        raise refusal(name, "rows are written as CSV; expected a name that ends in .csv")
    check_placeable(output)
    if os.path.exists(output) and os.path.exists(path) and os.path.samefile(output, path):
        raise refusal(name, "the file of the rows itself; expected another name")


def _tables(file: RowFile) -> Iterator[Table]:
    size = sizes()
    while (block := file.take(next(size))) is not None:
        faults = Faults({row: (-1, why) for row, why in block.ragged.items()})
        yield Table(f"{file.path}: line", block.lines, block.cells, faults)


def _count(done: RowsWritten, answers: RowResults) -> None:
    about = answers.chunk.about
    faults = about.faults
    if faults and not done.first:
        done.first = about.why(min(faults))
    done.rows += answers.chunk.size
    done.passed += len(faults)
    done.units = {**done.units, **answers.units}
    done.verdicts.add(answers.columns, faults)
    for row in range(min(answers.chunk.size, SHOWN - len(done.shown))):
        done.typed.append([str(column[row]) for column in about.cells])
        values = {name: column[row] for name, column in answers.columns.items()}
        done.shown.append({ERROR: faults[row][1]} if row in faults else values)


def result_name(name: str, headings: Sequence[str]) -> str:
    """Return the column name of a result, distinct from the headings of the table."""
    return f"result.{name}" if name in headings else name


class Page:
    """The rows of a file with their results, as texts: cells as typed, numbers with all digits."""

    def __init__(self, headings: Sequence[str], keep_going: bool) -> None:
        self.headings, self.keep_going = headings, keep_going
        self.names: list[str] | None = None
        self.waiting: list[RowResults] = []  # chunks before the first one with results

    def write(self, write: Write, answers: RowResults | None = None) -> None:
        """Write texts with their numbers of rows: of a chunk, or of those that wait at the end."""
        names = [] if answers is None else [*answers.columns]
        self.waiting += [] if answers is None else [answers]
        if not self.waiting or not (names or self.names is not None or answers is None):
            return
        if self.names is None:
            self.names = names
            added = [*names, *([ERROR] if self.keep_going else [])]
            heads = [result_name(name, self.headings) for name in added]
            write(csv_line([*self.headings, *heads]) + "\n", 0)
        if names and names != self.names:
            raise InputError("rows with other results than those before; expected them apart")
        for one in self.waiting:
            write(self._text(one, self.names), one.chunk.size)
        self.waiting = []

    def _text(self, answers: RowResults, names: Sequence[str]) -> str:
        about, size = answers.chunk.about, answers.chunk.size
        columns = [*map(typed, about.cells)]
        for name in names:
            values = answers.columns.get(name)
            cells = [""] * size if values is None else texts(values)
            for row in about.faults:
                cells[row] = ""
            columns.append(cells)
        if self.keep_going:
            columns.append(typed([about.why(n) if n in about.faults else "" for n in range(size)]))
        return "\n".join(map(",".join, zip(*columns, strict=True))) + "\n"
