"""What becomes of an answer: it is printed, written, drawn; and of what would be too large."""

import importlib
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Iterable
from typing import Any

import click
import xarray as xr
from rich.console import Console
from rich.table import Table
from rich.text import Text

from jaxroof.cli.options import DETAIL
from jaxroof.cli.printing import print_entries
from jaxroof.cli.progress import working
from jaxroof.errors import InputError, printable, shown
from jaxroof.io.formats import WRITERS, check_writable, json_text, write
from jaxroof.limits import disk_limit, memory_limit
from jaxroof.views.answers import answer, picture
from jaxroof.views.text.layout import wrapped
from jaxroof.views.text.said import Detail, Page, Said

PICTURES = (".png", ".svg", ".pdf")
PARAGRAPH = 3  # lines from which a sentence stands alone


def detail() -> Detail:
    """Return how much the command that runs is to print."""
    context = click.get_current_context(silent=True)
    return Detail.USUAL if context is None else Detail[context.meta.get(DETAIL, "usual").upper()]


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


def say_all(said: Iterable[Said]) -> None:
    """Print the pieces of an answer that are asked for, long sentences and tables apart."""
    page, level = console(), detail()
    before, first = 0, True  # lines of the sentence before; none after a table
    for at, piece, is_title in said:
        if level < at or not piece:
            continue
        lines = len(wrapped(page, piece, page.width)) if isinstance(piece, str) else 0
        titled = isinstance(piece, Table) and piece.title is not None
        apart = isinstance(piece, str) and max(before, lines) >= PARAGRAPH  # tables are, anyway
        if before and (titled or apart):
            page.print(Text())
        if isinstance(piece, str):
            print_text(page, piece, style="bold" if is_title else None)
        elif first:
            with page.capture() as shown_first:
                page.print(piece)
            print(shown_first.get().lstrip("\n"), end="")
        else:
            page.print(piece)
        first = False
        before = 0 if is_title else lines


def is_picture(output: str | None) -> bool:
    """Return whether a name has the suffix of a picture."""
    return output is not None and pathlib.Path(output).suffix in PICTURES


def check_output(output: str | None, kinds: Collection[str] = (*PICTURES, *WRITERS)) -> None:
    """Check, before any work, that a picture or one of the kinds of files can be written.

    Raises: InputError with the reason it cannot.
    """
    if output is None:
        return
    kind = pathlib.Path(output).suffix
    if kind in PICTURES and kind in kinds:
        importlib.import_module("jaxroof.views.plots").drawable(output)  # raises if it cannot
    elif kind not in kinds:
        known = ", ".join(kinds)
        said = f"cannot tell the kind of file from {shown(kind)}; expected a name that ends in"
        raise InputError(f"{output}: {said} {known}")
    elif kind in WRITERS:
        check_writable(output)


def deliver(
    data: xr.Dataset,
    output: str | None = None,
    *,
    said: Iterable[Said] | None = None,
    table: xr.Dataset | None = None,
    report: bool = True,
) -> None:
    """Write an answer to a file, or draw it if its name is of a picture; print it, or its JSON.

    Arguments: ``said`` is what is printed, unless it is as usual; ``table`` takes the place of the
    data in a CSV file; unless ``report``, the caller says what was written.
    """
    write_or_draw(data if table is None else table, output, data)
    if detail() is Detail.JSON:
        print(json_text(data))
    say_all(answer(data, Page(console().width)) if said is None else said)
    report_written(output if report else None)


def write_or_draw(data: xr.Dataset, output: str | None, drawn: xr.Dataset) -> None:
    """Write results to a file, or draw them if its name has the suffix of a picture."""
    if output is not None and is_picture(output):
        from jaxroof.views import plots

        plots.save(picture(drawn), output)
    elif output is not None:
        write(data, output)


def report_written(output: str | None) -> None:
    """Report the file that was written, if one was requested."""
    if output is not None:
        print(f"wrote {output}", file=sys.stderr)


def print_dry_run(asked: Callable[[], Any], output: str | None = None) -> int:
    """Print what a question would take; return 2 where it would be refused."""
    from jaxroof.views.text.dry_run import dry_run_rows

    with working("timing a sample of the points"):
        found = asked()
    disk = None if output is None else disk_limit(pathlib.Path(output).parent)
    print_entries(dry_run_rows(found, memory_limit(), disk))
    if found.refused:
        print(f"jaxroof: {found.refused}", file=sys.stderr)
    return 2 if found.refused else 0
