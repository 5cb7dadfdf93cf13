"""The console for results, and the option that sets each field."""

import os
from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from jaxroof.cli.detail import detail
from jaxroof.errors import printable
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.layout import wrapped
from jaxroof.views.text.said import Said

PARAGRAPH = 3  # lines from which a sentence stands alone


def console() -> Console:
    """Return the console for results; when piped, it is as wide as the tables need, or COLUMNS."""
    wide = Console()
    return wide if _has_width(wide) else Console(width=max(wide.width, 160))


def _has_width(page: Console) -> bool:
    return page.is_terminal or os.environ.get("COLUMNS", "").isdigit()


def print_text(page: Console, *texts: str, style: str | None = None) -> None:
    """Print sentences, each wrapped at the width of the page, or on one line when piped."""
    for text in filter(None, texts):
        text = "\n".join(map(printable, text.splitlines()))
        lines = wrapped(page, text, page.width) if _has_width(page) else [text.rstrip()]
        page.print("\n".join(lines), style=style, soft_wrap=True, markup=False, highlight=False)


def say(at: Detail, *shown: RenderableType, style: str | None = None) -> None:
    """Print sentences and tables, if that much of an answer is asked for."""
    if detail() < at:
        return
    page = console()
    for each in shown:
        if isinstance(each, str):
            print_text(page, each, style=style)
        else:
            page.print(each)


def say_all(answer: Iterable[Said]) -> None:
    """Print the pieces of an answer that are asked for, long sentences and tables apart."""
    page, level = console(), detail()
    before = 0  # lines of the sentence before; none after a table
    for at, piece, is_title in answer:
        if level < at or not piece:
            continue
        lines = len(wrapped(page, piece, page.width)) if isinstance(piece, str) else 0
        titled = isinstance(piece, Table) and piece.title is not None
        if before and (titled or max(before, lines) >= PARAGRAPH):
            say(at, Text())
        say(at, piece, style="bold" if is_title else None)
        before = 0 if is_title else lines


OPTION_OF = {  # fields that have an option
    "model": "--model",
    "system": "--system",
    "gpus": "--gpus",
    "global_batch": "--batch",
    "split": "--split",
}
