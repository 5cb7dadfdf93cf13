"""HTML as text: what comes from a file is escaped, tables keep every column."""

import html
import re
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from jaxroof.errors import printable
from jaxroof.units import JOIN

VOID = ("img", "meta")  # elements without an end
LONGEST = 4000  # characters of one text of a file that a page repeats


class Markup(str):
    """HTML that may stand in a page as it is."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as HTML: nothing in it is a tag, a control character or endless.

    >>> escaped("<script>alert('1 > 0')</script>")
    '&lt;script&gt;alert(&#x27;1 &gt; 0&#x27;)&lt;/script&gt;'
    """
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    lines = (
        "&nbsp;".join(html.escape(printable(part)) for part in line.split(JOIN))
        for line in cut.split("\n")
    )
    return Markup("\n".join(lines))


def element(tag: str, *children: str, **attributes: str) -> Markup:
    """Return an element; children that are no Markup, and all attributes, are escaped.

    >>> element("p", "a < b", element("b", "c"), class_="answer")
    '<p class="answer">a &lt; b<b>c</b></p>'
    """
    named = (
        f' {name.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for name, value in attributes.items()
    )
    inner = (child if isinstance(child, Markup) else escaped(child) for child in children)
    end = "" if tag in VOID else f"</{tag}>"
    return Markup(f"<{tag}{''.join(named)}>{''.join(inner)}{end}")


def joined(parts: Iterable[Markup]) -> Markup:
    """Return pieces of HTML one after the other."""
    return Markup("\n".join(parts))


def table_of(table: Table) -> Markup:
    """Return a table of the terminal as HTML: all columns, numbers on the right."""
    sides = ["number" if column.justify == "right" else "text" for column in table.columns]
    heads = [head(plain(column.header)) for column in table.columns]
    rows = zip(*(map(plain, column.cells) for column in table.columns), strict=True)
    title = plain(table.title)
    return _table(title, heads, rows, sides)


def rows_of(heads: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> Markup:
    """Return rows of texts as an HTML table."""
    return _table(caption, heads, rows, ["text"] * len(heads))


def _table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], sides: Sequence[str]
) -> Markup:
    def row(tag: str, cells: Sequence[str]) -> Markup:
        both = zip(cells, sides, strict=True)
        # a head without words heads nothing
        each = (element(tag if cell else "td", cell, class_=side) for cell, side in both)
        return element("tr", *each)

    head = [element("thead", row("th", heads))] if any(heads) else []
    body = element("tbody", joined(row("td", cells) for cells in rows))
    above = [element("caption", caption)] if caption else []
    inner = element("table", *above, *head, body)
    return element("div", inner, class_="scroll", tabindex="0")


def plain(cell: object) -> str:
    """Return the text of a cell of a table."""
    return "" if cell is None else cell.plain if isinstance(cell, Text) else str(cell)


def head(text: str) -> str:
    r"""Return a head on one line, its word put together again where it was cut.

    >>> head("micro-\nbatch [s]"), head("h100-\nnvs8")
    ('microbatch [s]', 'h100-nvs8')
    """
    whole = re.sub(r"(?<=[A-Za-z])-\n(?=[a-z]+\b)", "", text).replace("-\n", "-")
    return " ".join(whole.replace("\n/", "/").split())
