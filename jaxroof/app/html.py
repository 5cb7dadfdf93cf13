"""Texts of the page as HTML: every word of a person or of data is escaped."""

import re
from collections.abc import Collection, Iterable, Sequence
from html import escape

import panel as pn
from rich.table import Table

from jaxroof.app.components import static
from jaxroof.views.report.markup import head, plain
from jaxroof.views.text.said import Said

NARROW = 6  # columns that a phone shows
FEW = 3  # columns whose texts take several lines on a phone
LABELS = {"where": "Rules", "mine": "My plan", "gpus": "GPUs", "margin": "Memory to leave free"}
SHELL = (  # what sentences say of the shell -> what the page has for it
    (r" `jaxroof fit --plan` with it says [^.]*\.", ""),
    (r", or see what needs least: jaxroof fit", ", or of more memory"),
    (r"ask with --estimator \w+( \(in a file: [^)]*\))?", "the page has none of these"),
    (r"--set ([\w.]+)=(\S+)", r"\1 \2"),
)
OPTION = re.compile(r"--([a-z]+)")
SWIPE = '<p class="swipe note">Swipe the table to the left to see all of its columns.</p>'


def text(content: str = "", **more: object) -> pn.pane.HTML:
    """Return a pane of HTML in the style of the page."""
    look = {"stylesheets": [static("text.css")], "sizing_mode": "stretch_width", "margin": 0}
    return pn.pane.HTML(content, **{**look, **more})


def in_controls(words: str) -> str:
    """Return a sentence that names controls of the page, not options of the shell.

    >>> in_controls("none of the 464 legal plans that --where leaves has these fields")
    'none of the 464 legal plans that Rules leaves has these fields'
    """
    for pattern, other in SHELL:
        words = re.sub(pattern, other, words)
    return OPTION.sub(lambda found: LABELS.get(found[1], found[1].capitalize()), words)


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph; nothing for no words.

    >>> paragraph("a < b", "note")
    '<p class="note">a &lt; b</p>'
    """
    of = f' class="{escape(kind)}"' if kind else ""
    return f"<p{of}>{escape(in_controls(words))}</p>" if words else ""


def alert(words: str) -> str:
    """Return a line that says what is wrong."""
    return f'<p class="alert" role="alert">{escape(in_controls(words))}</p>' if words else ""


def table(
    heads: Sequence[tuple[str, str]],
    rows: Iterable[Sequence[str]],
    caption: str,
    left: Collection[int] = (),
    best: bool = False,
) -> str:
    """Return a table of texts: heads with their explanations, the ``left`` columns words."""
    side = [' class="left"' if place in left else "" for place in range(len(heads))]
    top = "".join(
        f'<th scope="col"{of}><abbr title="{escape(about)}">{escape(name)}</abbr></th>'
        for (name, about), of in zip(heads, side, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{of}>{escape(c)}</td>" for c, of in zip(row, side, strict=True))
        + "</tr>"
        for row in rows
    )
    kind = "" if best else ' class="plain"'
    few = " few" if len(heads) <= FEW else ""
    hint = SWIPE if len(heads) > NARROW else ""
    return (
        f'{hint}<div class="scroll{few}" tabindex="0" role="region" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody{kind}>{body}</tbody></table></div>"
    )


def shell_table(shown: Table, caption: str, best: bool = False) -> str:
    """Return a table of the terminal with all its columns."""
    heads = [(head(plain(column.header)), "") for column in shown.columns]
    left = [place for place, one in enumerate(shown.columns) if one.justify != "right"]
    rows = zip(*(map(plain, column.cells) for column in shown.columns), strict=True)
    return table(heads, rows, caption, left, best)


def said_in(pieces: Iterable[Said], caption: str, best: bool = False) -> str:
    """Return what a command says: its sentences and its tables, under their titles."""
    each = (one.piece for one in pieces if one.piece and not one.is_title)
    return "".join(
        shell_table(one, str(one.title or caption), best)
        if isinstance(one, Table)
        else paragraph(str(one))
        for one in each
    )


def cards(told: Iterable[tuple[str, str, str]]) -> str:
    """Return numbers to read at a glance: a name, a value and a remark each."""
    each = (
        f'<div class="card"><span>{escape(name)}</span><b>{escape(value)}</b>'
        f"<span>{escape(remark)}</span></div>"
        for name, value, remark in told
    )
    return f'<div class="cards">{"".join(each)}</div>'


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return the legend of a picture: words and colours."""
    each = (
        f'<span class="entry"><i style="background:{escape(colour)}"></i>{escape(words)}</span>'
        for words, colour in entries
    )
    return f'<p class="legend">{"".join(each)}</p>'


def waiting(words: str) -> str:
    """Return the words of work that goes on, with a spinner; an empty line without words."""
    inside = f"<i aria-hidden='true'></i>{escape(words)}" if words else ""
    return f'<div class="busy" role="status">{inside}</div>'


def code(content: str) -> str:
    """Return a text to copy."""
    return f'<pre tabindex="0">{escape(content)}</pre>'
