"""CSV files read in blocks; every row keeps its original text."""

import contextlib
import csv
import dataclasses
import io
import itertools
import os
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from jaxroof.errors import refusal

Path = str | os.PathLike[str]
BYTES = 1 << 22  # of one read
LONGEST = 1 << 20  # longest line in bytes
ADVICE = "expected a CSV file, UTF-8, cells apart by commas, the names of its columns in line 1"


@dataclasses.dataclass(frozen=True, eq=False)
class CsvBlock:
    """Rows of a table: their original text, their cells by column, and their line numbers."""

    typed: list[str]
    cells: list[Sequence[str]]
    lines: Sequence[int]
    ragged: dict[int, str]  # rows that do not fit the header: row -> the problem


class RowFile:
    """A CSV file open for reading: first its header, then its rows in blocks."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.stream, self.path = stream, os.fspath(path)
        self.read, self.line = 0, 1  # bytes read; number of the first waiting line
        self.waiting: list[str] = []
        self.texts = self._texts()
        self.columns = 0
        head = self._block(1)
        if head is None or not head.typed[0].strip():
            raise refusal(self.path, f"no header; {ADVICE}")
        if head.ragged:
            raise refusal(f"{self.path}: line 1", head.ragged[0])
        self.head = head.typed[0]
        self.headings = [cells[0].strip() for cells in head.cells]
        self.columns = len(self.headings)
        if self.columns == 1 and any(mark in self.head for mark in ";\t"):
            raise refusal(f"{self.path}: line 1", f"no comma in {self.head[:60]!r}; {ADVICE}")

    def take(self, count: int) -> CsvBlock | None:
        """Return the next rows, about ``count`` of them, None at the end; blank lines are skipped.

        Raises: InputError if the file is not UTF-8 text or cannot be read.
        """
        while (block := self._block(count)) is not None:
            if block.typed:
                return block
        return None

    def _texts(self) -> Iterator[list[str]]:
        """Yield the lines of each read, without their newlines."""
        rest, number = b"", 1
        while data := self._bytes():
            head, end, tail = data.rpartition(b"\n")
            whole, rest = (rest + head + end, tail) if end else (b"", rest + data)
            lines = self._decoded(whole, number) if whole else []
            number += len(lines)
            if len(rest) > LONGEST:
                what = f"longer than {LONGEST:,} bytes; {ADVICE}"
                raise refusal(f"{self.path}: line {number}", what)
            if lines:
                yield lines
        if rest:
            yield self._decoded(rest, number)

    def _bytes(self) -> bytes:
        try:
            data = self.stream.read(BYTES)
        except OSError as error:
            raise refusal(self.path, f"cannot be read: {error.strerror or error}") from error
        self.read += len(data)
        return data

    def _decoded(self, data: bytes, number: int) -> list[str]:
        try:
            text, wrong = data.decode("utf-8-sig" if number == 1 else "utf-8"), data.find(b"\0")
        except UnicodeDecodeError as error:
            text, wrong = "", error.start
        if wrong >= 0:
            line = number + data[:wrong].count(b"\n")
            raise refusal(f"{self.path}: line {line}", f"not UTF-8 text; {ADVICE}")
        lines = text.removesuffix("\n").split("\n")
        if "\r" in text:
            lines = [line.removesuffix("\r") for line in lines]
            for place, one in enumerate(lines):
                if "\r" in one:  # other readers would see two lines
                    what = "a carriage return inside; expected lines that end in LF or CRLF"
                    raise refusal(f"{self.path}: line {number + place}", what)
        return lines

    def _more(self) -> bool:
        """Read more lines; return whether there were any."""
        lines = next(self.texts, None)
        self.waiting += lines or []
        return lines is not None

    def _block(self, count: int) -> CsvBlock | None:
        """Return the rows of the next ``count`` lines, None at the end of the file."""
        while len(self.waiting) < count and self._more():
            pass
        lines = self.waiting[:count]
        if not lines:
            return None
        if '"' in ",".join(lines):
            return self._quoted(count)
        del self.waiting[:count]
        numbers: Sequence[int] = range(self.line, self.line + len(lines))
        self.line += len(lines)
        if "" in lines and self.columns:
            kept = [number for number, line in enumerate(lines) if line]
            numbers = [numbers[number] for number in kept]
            lines = [lines[number] for number in kept]
        commas = set(map(str.count, lines, itertools.repeat(",")))
        wide = self.columns or max(commas) + 1
        if commas <= {wide - 1}:
            flat = ",".join(lines).split(",") if lines else []
            return CsvBlock(lines, [flat[n::wide] for n in range(wide)], numbers, {})
        return self._fitted(lines, [line.split(",") for line in lines], numbers, {})

    def _quoted(self, count: int) -> CsvBlock:
        """Return the rows of ``count`` lines, plus lines over which a quoted cell continues."""
        used = 0

        def feed() -> Iterator[str]:
            nonlocal used
            while used < len(self.waiting) or self._more():
                used += 1
                yield self.waiting[used - 1] + "\n"

        reader = csv.reader(feed(), strict=True)
        typed: list[str] = []
        records: list[list[str]] = []
        numbers: list[int] = []
        wrong: dict[int, str] = {}
        while used < min(count, len(self.waiting)):
            start = used
            try:
                cells = next(reader)
            except csv.Error as error:
                cells = []
                said = "a quote is never closed" if str(error) == UNCLOSED else str(error)
                wrong[len(typed)] = f"{said}; expected quotes around a whole cell, doubled inside"
            lines = self.waiting[start:used]
            if cells or wrong.get(len(typed)) or not self.columns:
                typed.append("\n".join(lines))
                records.append(cells)
                numbers.append(self.line + start)
        del self.waiting[:used]
        self.line += used
        return self._fitted(typed, records, numbers, wrong)

    def _unfit(self, count: int, wide: int) -> str:
        """Return the problem of a row with more or fewer cells than the header."""
        said = f"{count} cell{'' if count == 1 else 's'}; expected the {wide} of line 1"
        if count < wide:
            return f"{self.headings[count] or count + 1}: no cell, the row has {said}"
        return f"the row has {said}, and quotes around a cell that holds a comma"

    def _fitted(
        self,
        typed: list[str],
        records: list[list[str]],
        lines: Sequence[int],
        wrong: dict[int, str],
    ) -> CsvBlock:
        """Return rows as columns; ragged rows are padded or cut to the width of the header."""
        wide = self.columns or len(records[0])
        ragged = dict(wrong)
        for row, cells in enumerate(records):
            if len(cells) != wide:
                ragged.setdefault(row, self._unfit(len(cells), wide))
                records[row] = [*cells, *[""] * wide][:wide]
                typed[row] = csv_line(records[row])
        columns: list[Sequence[str]] = [list(column) for column in zip(*records, strict=True)]
        return CsvBlock(typed, columns or [[] for _ in range(wide)], lines, ragged)


UNCLOSED = "unexpected end of data"  # message of the csv module


def csv_line(cells: Sequence[str]) -> str:
    """Return cells as one line of a CSV file, without a newline.

    >>> csv_line(["a,b", "2"])
    '"a,b",2'
    """
    page = io.StringIO()
    csv.writer(page, lineterminator="").writerow(cells)
    return page.getvalue()


@contextlib.contextmanager
def open_rows(path: Path) -> Iterator[RowFile]:
    """Open a CSV file for the block.

    Raises: InputError that starts with the file's name if it cannot be read or has no header.
    """
    name = os.fspath(path)
    try:
        stream = open(path, "rb")  # noqa: SIM115 -- closed below; the block's own errors pass
    except FileNotFoundError:
        raise refusal(name, "no such file") from None
    except OSError as error:
        raise refusal(name, f"cannot be read: {error.strerror or error}") from error
    with stream:
        yield RowFile(stream, path)
