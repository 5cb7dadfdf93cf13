"""Rows with their results as text: cells exactly as typed, numbers with all digits."""

from collections.abc import Callable, Sequence

import numpy as np

from jaxroof.engine.runs.row_stream import RowResults
from jaxroof.errors import InputError
from jaxroof.io.csv_blocks import RowFile, csv_line

Write = Callable[[str, int], None]  # a text, and the number of rows in it
ERROR = "error"  # the column that says why a row was skipped
ALIKE = 256  # values examined to decide whether a column repeats itself
TRUTH = np.array(["false", "true"], object)


def result_name(name: str, headings: Sequence[str]) -> str:
    """Return the column name of a result, distinct from the headings of the table."""
    return f"result.{name}" if name in headings else name


class Page:
    """The rows of a file with their results, as texts."""

    def __init__(self, file: RowFile, keep_going: bool) -> None:
        self.file, self.keep_going = file, keep_going
        self.names: list[str] | None = None
        self.waiting: list[RowResults] = []  # chunks before the first one with results

    def write(self, answers: RowResults, write: Write) -> None:
        """Write a chunk, with the header before the first."""
        if self.names is None and not answers.columns:
            self.waiting.append(answers)
            return
        if self.names is None:
            self.begin(list(answers.columns), write)
        if answers.columns and list(answers.columns) != self.names:
            raise InputError("rows with other results than those before; expected them apart")
        write(self._text(answers), answers.chunk.size)

    def begin(self, names: list[str], write: Write) -> None:
        """Write the header, then the waiting rows."""
        self.names = names
        added = [*names, *([ERROR] if self.keep_going else [])]
        heads = [result_name(name, self.file.headings) for name in added]
        write(f"{','.join([self.file.head, *heads])}\n", 0)
        for answers in self.waiting:
            write(self._text(answers), answers.chunk.size)
        self.waiting = []

    def end(self, write: Write) -> None:
        """Write the rows still waiting."""
        if self.names is None:
            self.begin([], write)

    def _text(self, answers: RowResults) -> str:
        places, faults, block = answers.chunk.about
        size = answers.chunk.size
        added: list[list[str]] = []
        for name in self.names or []:
            values = answers.columns.get(name)
            cells = [""] * size if values is None else texts(values)
            for row in faults:
                cells[row] = ""
            added.append(cells)
        if self.keep_going:
            said = [""] * size
            for row, (_, why) in faults.items():
                said[row] = csv_line([f"{places[row]}: {why}"])
            added.append(said)
        return "\n".join(map(",".join, zip(block.typed, *added, strict=True))) + "\n"


def texts(column: np.ndarray) -> list[str]:
    """Return numbers as texts that parse back to the same values; empty for NaN.

    >>> texts(np.array([0.1, np.nan])), texts(np.array([True, False]))
    (['0.1', ''], ['true', 'false'])
    """
    if column.dtype.kind == "b":
        return TRUTH[column.astype(np.int64)].tolist()
    values = column.tolist()
    some = values[:ALIKE]
    if len(values) > ALIKE and len(set(some)) < ALIKE // 2:
        table = {value: repr(value) for value in set(values)}
        found = list(map(table.__getitem__, values))
    else:
        found = list(map(repr, values))
    if column.dtype.kind == "f":
        for row in np.flatnonzero(np.isnan(column)).tolist():
            found[row] = ""
    return found
