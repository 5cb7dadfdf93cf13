"""CSV files read in blocks of rows, every cell a text as it was typed."""

import contextlib
import csv
import functools
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd

from jaxroof.errors import InputError, refusal

Path = str | os.PathLike[str]
LONGEST = 1 << 20  # characters of a line that are read at once
ADVICE = "expected a CSV file, UTF-8, cells apart by commas, the names of its columns in line 1"
TRUTH = np.array(["false", "true"], object)
SAID = {  # start of what Python's reader says of a row -> what is wrong
    "unexpected end of data": "a quote is never closed",
    "field larger than": f"a cell of more than {csv.field_size_limit():,} characters",
    "new-line character": "a carriage return inside; expected lines that end in LF or CRLF",
}


class CsvBlock(NamedTuple):
    """Rows of a table: their cells by column, and the numbers of their lines."""

    cells: list[Sequence[str]]
    lines: Sequence[int]
    ragged: dict[int, str]  # rows that do not fit the header: row -> the problem


class RowFile:
    """A CSV file open for reading: first its header, then its rows in blocks."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream, self.path = stream, os.fspath(path)
        self.text = io.TextIOWrapper(stream, "utf-8-sig", newline="\n")
        self.lines = iter(functools.partial(self.text.readline, LONGEST), "")
        self.waiting: list[str] = []  # lines that are not yet read as CSV, the last one first
        self.reader = csv.reader(self._fed(), strict=True)
        self.line = 1  # number of the next line
        rows, wrong = self._records(1)
        head = rows[0] if rows else []
        if wrong:
            raise refusal(f"{self.path}: line 1", wrong)
        if not any(map(str.strip, head)):
            raise refusal(self.path, f"no header; {ADVICE}")
        self.headings = [cell.strip() for cell in head]
        if len(head) == 1 and any(mark in head[0] for mark in ";\t"):
            raise refusal(f"{self.path}: line 1", f"no comma in {head[0][:60]!r}; {ADVICE}")

    def take(self, count: int) -> CsvBlock | None:
        """Return the next rows, at most ``count``, None at the end; blank lines are skipped."""
        while (block := self._block(count)) is not None and not block.lines:
            pass
        return block

    def _fed(self) -> Iterator[str]:
        """Yield the lines that Python's reader reads."""
        while line := self.waiting.pop() if self.waiting else next(self.lines, ""):
            self.line += 1
            yield line

    def _block(self, count: int) -> CsvBlock | None:
        wide = len(self.headings)
        with self._errors():
            lines = [] if self.waiting else [*itertools.islice(self.lines, count)]
        text = "".join(lines)
        if lines and not any(mark in text for mark in '"\r') and "\n" not in lines:
            flat = text.removesuffix("\n").replace("\n", ",").split(",")
            if {*map(str.count, lines, itertools.repeat(","))} == {wide - 1}:
                self.line += len(lines)
                numbers = range(self.line - len(lines), self.line)
                return CsvBlock([flat[place::wide] for place in range(wide)], numbers, {})
        self.waiting = self.waiting or lines[::-1]
        first = self.line
        records, wrong = self._records(count)
        records += [[""]] if wrong else []
        if not records:
            return None
        heights = [1] * len(records)
        if self.line != first + len(records):  # cells over several lines
            heights = [1 + sum(cell.count("\n") for cell in cells) for cells in records]
        kept = [row for row, cells in enumerate(records) if cells]
        lines = (first + np.cumsum([0, *heights]))[kept].tolist()
        records = [records[row] for row in kept]
        ragged = {len(records) - 1: wrong} if wrong else {}
        for row, cells in enumerate(records) if {*map(len, records)} != {wide} else ():
            if len(cells) != wide:
                ragged.setdefault(row, self._misfit(cells))
                records[row] = [*cells, *[""] * wide][:wide]
        return CsvBlock([*zip(*records, strict=True)], lines, ragged)

    def _records(self, count: int) -> tuple[list[list[str]], str]:
        """Return the next rows, and what is wrong with the one behind them if it is no CSV."""
        found: list[list[str]] = []
        try:
            with self._errors():  # what is read before an error stays
                found.extend(itertools.islice(self.reader, count))
        except csv.Error as error:
            said = next((words for start, words in SAID.items() if start in str(error)), str(error))
            return found, f"{said}; expected quotes around a whole cell, doubled inside"
        return found, ""

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of reading into those of one line."""
        try:
            yield
        except UnicodeDecodeError:
            raise self._not_text() from None
        except OSError as error:
            raise refusal(self.path, f"cannot be read: {error.strerror or error}") from error

    def _not_text(self) -> InputError:
        """Return the error of the first line that is not UTF-8."""
        self.stream.seek(0)
        for number, line in enumerate(self.stream, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return refusal(f"{self.path}: line {number}", f"not UTF-8 text; {ADVICE}")
        return refusal(self.path, f"not UTF-8 text; {ADVICE}")

    def _misfit(self, cells: Sequence[str]) -> str:
        """Return what is wrong with a row of another width than the header."""
        wide = len(self.headings)
        said = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}; expected the {wide} of line 1"
        if len(cells) > wide:
            return f"the row has {said}, and quotes around a cell that holds a comma"
        return f"{self.headings[len(cells)] or len(cells) + 1}: no cell, the row has {said}"


def typed(cells: Sequence[str]) -> Sequence[str]:
    """Return cells as a CSV file holds them: in quotes where they need them.

    >>> typed(["a,b", "2"])
    ['"a,b"', '2']
    """
    if not any(mark in "".join(cells) for mark in '",\r\n'):
        return cells
    return [
        '"' + one.replace('"', '""') + '"' if any(mark in one for mark in '",\r\n') else one
        for one in cells
    ]


def texts(column: np.ndarray) -> list[str]:
    """Return numbers as texts that parse back to the same values; empty for NaN.

    >>> texts(np.array([0.1, np.nan])), texts(np.array([True, False]))
    (['0.1', ''], ['true', 'false'])
    """
    if column.dtype.kind == "b":
        return TRUTH[column.astype(np.int64)].tolist()
    places, values = pd.factorize(column)  # -1, which is the last place, for NaN
    return np.array([*map(repr, values.tolist()), ""], object)[places].tolist()


def csv_line(cells: Sequence[str]) -> str:
    """Return cells as one line of a CSV file, without a newline.

    >>> csv_line(["a,b", "2"])
    '"a,b",2'
    """
    return ",".join(typed(cells))


@contextlib.contextmanager
def open_rows(path: Path) -> Iterator[RowFile]:
    """Open a CSV file for the block."""
    name = os.fspath(path)
    try:
        stream = open(path, "rb")  # noqa: SIM115 -- closed below; the block's own errors pass
    except FileNotFoundError:
        raise refusal(name, "no such file") from None
    except OSError as error:
        raise refusal(name, f"cannot be read: {error.strerror or error}") from error
    with stream:
        yield RowFile(stream, path)
