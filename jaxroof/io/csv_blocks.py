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
UNCLOSED = "unexpected end of data"  # message of the csv module


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
        self.headings: list[str] = []
        head = self._block(1)
        if head is None or not head.typed[0].strip():
            raise refusal(self.path, f"no header; {ADVICE}")
        if head.ragged:
            raise refusal(f"{self.path}: line 1", head.ragged[0])
        self.head = head.typed[0]
        self.headings = [cells[0].strip() for cells in head.cells]
        if len(self.headings) == 1 and any(mark in self.head for mark in ";\t"):
            raise refusal(f"{self.path}: line 1", f"no comma in {self.head[:60]!r}; {ADVICE}")

    def take(self, count: int) -> CsvBlock | None:
        """Return the next rows, about ``count`` of them, None at the end; blank lines are skipped.

        Raises: InputError if the file is not UTF-8 text or cannot be read.
        """
        while (block := self._block(count)) is not None and not block.typed:
            pass
        return block

    def _more(self) -> bool:
        """Read more lines; return whether there were any."""
        try:
            data = self.stream.read(BYTES)
            tail = self.stream.readline(LONGEST + 1) if data else b""
        except OSError as error:
            raise refusal(self.path, f"cannot be read: {error.strerror or error}") from error
        number = self.line + len(self.waiting)
        if len(tail) > LONGEST:
            line = number + data.count(b"\n")
            raise refusal(f"{self.path}: line {line}", f"longer than {LONGEST:,} bytes; {ADVICE}")
        data += tail
        self.read += len(data)
        self.waiting += self._decoded(data, number) if data else []
        return bool(data)

    def _decoded(self, data: bytes, number: int) -> list[str]:
        """Return whole lines as text, without their ends."""
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
        if "" in lines and self.headings:
            kept = [number for number, line in enumerate(lines) if line]
            numbers, lines = [numbers[n] for n in kept], [lines[n] for n in kept]
        commas = set(map(str.count, lines, itertools.repeat(",")))
        wide = len(self.headings) or max(commas) + 1
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
            if cells or wrong.get(len(typed)) or not self.headings:
                typed.append("\n".join(self.waiting[start:used]))
                records.append(cells)
                numbers.append(self.line + start)
        del self.waiting[:used]
        self.line += used
        return self._fitted(typed, records, numbers, wrong)

    def _fitted(
        self,
        typed: list[str],
        records: list[list[str]],
        lines: Sequence[int],
        wrong: dict[int, str],
    ) -> CsvBlock:
        """Return rows as columns; ragged rows are padded or cut to the width of the header."""
        wide = len(self.headings) or len(records[0])
        for row, cells in enumerate(records):
            if len(cells) == wide:
                continue
            said = f"{len(cells)} cell{'' if len(cells) == 1 else 's'}; expected the {wide} of"
            if len(cells) < wide:
                name = self.headings[len(cells)] or len(cells) + 1
                wrong.setdefault(row, f"{name}: no cell, the row has {said} line 1")
            else:
                more = "and quotes around a cell that holds a comma"
                wrong.setdefault(row, f"the row has {said} line 1, {more}")
            records[row] = [*cells, *[""] * wide][:wide]
            typed[row] = csv_line(records[row])
        columns: list[Sequence[str]] = [list(column) for column in zip(*records, strict=True)]
        return CsvBlock(typed, columns or [[] for _ in range(wide)], lines, wrong)


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
