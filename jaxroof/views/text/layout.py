"""Layout of tables and sentences for a page width: no number is cut, no line is too long."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from jaxroof.units import JOIN, unbroken

GAP = 2  # blanks between two columns
EDGES = 2  # blanks beside the first column and the last
NARROWEST = 20  # minimum width of a text column that wraps [characters]
COMFORTABLE = 36  # the same while optional columns can still be dropped


@dataclasses.dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: its cells, their alignment, and its order of removal."""

    head: Text
    cells: tuple[Text, ...]
    justify: JustifyMethod
    wraps: bool
    optional: int  # 0: always shown; otherwise, smaller numbers are added first

    @functools.cached_property
    def widths(self) -> tuple[int, int]:
        """Return the width of its longest line, and of its longest word."""
        texts = [text.plain for text in (self.head, *self.cells)]
        lines = (cell_len(line) for text in texts for line in text.split("\n"))
        words = (cell_len(word) for text in texts for word in text.split())
        return max(lines), max(words, default=0)


class Shown(NamedTuple):
    """One column as it is declared: its head, what it shows of a row, when it leaves, its side."""

    head: str
    cell: Callable[[Any], str]
    optional: int = 0
    side: JustifyMethod = "right"
    wraps: bool = False  # its texts


NARROW = {  # heads of narrow columns
    "gradients": "gra-\ndients",
    "optimizer": "opti-\nmizer",
    "activations": "acti-\nvations",
    "momentary": "momen-\ntary",
    "buffers": "buf-\nfers",
    "outside of tensors": "out-\nside",
    "allocated": "allo-\ncated",
    "reserved": "re-\nserved",
    "device": "de-\nvice",
}


class PlainTable(Table):
    """A table that fits its page.

    On a narrow page, optional columns are dropped first, all of one number together. If that is
    not enough, columns go on below, each piece with the first column.
    """

    def __init__(self, title: str | None = None) -> None:
        super().__init__(title=None if title is None else Text(title))
        self.optional: list[int] = []

    def add_column(
        self, header: RenderableType = "", *args: Any, optional: int = 0, **kwargs: Any
    ) -> None:
        """Add a column as rich does; without ``no_wrap`` its cells are texts that wrap.

        Columns with a larger ``optional`` are dropped sooner on a narrow page; 0 is never dropped.
        """
        super().add_column(header, *args, **kwargs)
        self.optional.append(optional)

    def add_rows(
        self,
        columns: Sequence[Shown],
        rows: Iterable[Any],
        instead: Callable[[Any], Sequence[str]] = lambda row: (),
    ) -> "PlainTable":
        """Add columns that say what they show of a row, and the rows; return the table.

        ``instead`` are the first cells of a row without a plan: dashes follow; empty of others.
        """
        for head, _, optional, side, wraps in columns:
            self.add_column(head, justify=side, no_wrap=not wraps, optional=optional)
        for row in rows:
            cells = [*instead(row)]
            dashes = ["-"] * (len(columns) - len(cells))
            self.add_row(*([*cells, *dashes] if cells else [c.cell(row) for c in columns]))
        return self

    def add_numbers(self, *heads: str, optional: int = 0) -> None:
        """Add columns of numbers, right-aligned and without wrapping."""
        for head in heads:
            self.add_column(head, justify="right", no_wrap=True, optional=optional)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title, the table as wide as the page allows, and the dropped columns."""
        if self.title is not None:
            yield from _text_lines(console, str(self.title), options.max_width, "table.title")
        columns = [
            Column(
                _text(column.header),
                tuple(map(_text, column.cells)),
                column.justify,
                not column.no_wrap,
                optional,
            )
            for column, optional in zip(self.columns, self.optional, strict=True)
        ]
        ends = [row.end_section for row in self.rows]
        kept = with_optional(columns, options.max_width)
        for piece in pieces(kept, options.max_width):
            for line in console.render_lines(_table(piece, ends), options, pad=False):
                yield from _without_blanks(line)
        missing = [_flat(column.head) for column in columns if column not in kept]
        if any(missing):
            said = f"Not shown at this width: {', '.join(filter(None, missing))}."
            yield from _text_lines(console, said, options.max_width)
            yield Segment.line()


# ---- Sentences ----------------------------------------------------------------------------------


def wrapped(page: Console, text: str, width: int) -> list[str]:
    """Return a text wrapped at a width; a number stays on one line with its unit.

    >>> wrapped(Console(), "the plan needs 124.6 GB of 141 GB", 30)
    ['the plan needs 124.6 GB', 'of 141 GB']
    """
    lines = Text(unbroken(text)).wrap(page, width)
    return [line.plain.replace(JOIN, " ").rstrip() for line in lines]


def _text_lines(console: Console, text: str, width: int, style: str = "") -> Iterator[Segment]:
    for line in wrapped(console, text, width):
        yield Segment(line, console.get_style(style))
        yield Segment.line()


# ---- Columns ------------------------------------------------------------------------------------


def evenly(count: int) -> list[int]:
    """Return the removal order of the columns of an axis, so that those left are evenly spaced.

    >>> evenly(9)
    [0, 3, 2, 3, 1, 3, 2, 3, 0]
    """
    soon = [0] * count

    def halve(first: int, last: int, number: int) -> None:
        if last - first > 1:
            middle = (first + last) // 2
            soon[middle] = number
            halve(first, middle, number + 1)
            halve(middle, last, number + 1)

    halve(0, count - 1, 1)
    return soon


def with_optional(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the least optional columns, and those of the others that fit into a width."""
    ranks = sorted({column.optional for column in columns})
    numbers = set(ranks[:1])
    for number in ranks[1:]:
        more = [column for column in columns if column.optional in numbers | {number}]
        if table_width(more, COMFORTABLE) <= width:
            numbers.add(number)
    return [column for column in columns if column.optional in numbers]


def table_width(columns: Sequence[Column], text: int) -> int:
    """Return the width of a table: its columns, the gaps between them and its edges.

    A wrapping column is ``text`` wide: less if its lines are shorter, more if a word is longer.
    """
    return sum(column_width(each, text) for each in columns) + GAP * (len(columns) - 1) + EDGES


def column_width(column: Column, text: int) -> int:
    """Return the width of a column."""
    line, word = column.widths
    return min(line, max(text, word)) if column.wraps else line


def pieces(columns: Sequence[Column], width: int) -> list[list[Column]]:
    """Return columns as tables one below the other that fit a width, each with the first column."""
    first, *others = columns
    found = [[first]]
    for column in others:
        if len(found[-1]) > 1 and table_width([*found[-1], column], NARROWEST) > width:
            found.append([first])
        found[-1].append(column)
    return found


def _table(columns: Sequence[Column], ends: Sequence[bool]) -> Table:
    """Return columns as a rich table, none of them too narrow to read."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    for column in columns:
        table.add_column(
            column.head,
            justify=column.justify,
            no_wrap=not column.wraps,
            min_width=column_width(column, NARROWEST),
            overflow="fold",
        )
    for row, end in zip(zip(*(column.cells for column in columns), strict=True), ends, strict=True):
        table.add_row(*row, end_section=end)
    return table


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else Text(unbroken(str(cell)))


def _flat(head: Text) -> str:
    text = head.plain.replace(JOIN, " ").replace("-\n", "").replace("\n/", "/")
    return " ".join(text.split())


def _without_blanks(line: list[Segment]) -> Iterator[Segment]:
    length = len("".join(segment.text for segment in line).rstrip())
    for text, style, _ in line:
        if shown := text[:length].replace(JOIN, " "):
            yield Segment(shown, style)
        length = max(0, length - len(text))
    yield Segment.line()
