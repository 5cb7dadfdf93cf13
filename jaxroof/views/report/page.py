"""The page of a report: a section for every result, a table of contents, nothing from elsewhere."""

import base64
import hashlib
import importlib
import math
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import xarray as xr
from rich.table import Table

from jaxroof import __version__
from jaxroof.errors import InputError, printable
from jaxroof.io.formats import frame
from jaxroof.units import unbroken
from jaxroof.views.answers import answer, first_sentence, picture
from jaxroof.views.report.markup import Markup, element, joined, rows_of, table_of
from jaxroof.views.report.provenance import (
    Result,
    choice_rows,
    input_rows,
    made_rows,
)
from jaxroof.views.text.said import Said

HERE = pathlib.Path(__file__).parent
STYLE = (HERE / "page.css").read_text(encoding="utf-8")
SCRIPT = (HERE / "page.js").read_text(encoding="utf-8")
LONGEST_TITLE = 300  # characters of a picture's title
CELLS = 100_000  # of a table of all values that a page still holds
# what a result that another program wrote, or an older jaxroof, may lack
LACKING = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


class Answered(NamedTuple):
    """A result, and what its command says of it."""

    result: Result
    title: str
    said: list[Said]
    note: str  # why the rest cannot be said


def page(results: Sequence[Result]) -> str:
    """Return the whole page."""
    answered = [_answered(one) for one in results]
    alone = len(results) == 1
    sections = [_section(one, f"result-{n}", alone) for n, one in enumerate(answered, 1)]
    name = answered[0].title if alone else f"{len(results)} results of jaxroof"
    contents = [] if alone else [_contents(answered)]
    top = element("header", element("h1", name), *contents)
    said = f"Written by jaxroof {__version__}. Everything that the page shows is inside it."
    body = element("body", top, element("main", joined(sections)), element("footer", said))
    script = Markup(f"<script>{SCRIPT}</script>")
    return f"<!doctype html>\n<html lang='en'>\n{_head(name)}\n{body}\n{script}\n</html>\n"


def _head(title: str) -> Markup:
    """Return the head: nothing is loaded from anywhere, and no script but the page's own runs."""
    rules = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(STYLE)}'; script-src '{_digest(SCRIPT)}'"
    )
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{rules}">'),
        element("title", title),
        Markup(f"<style>{STYLE}</style>"),
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _answered(result: Result) -> Answered:
    """Return a result with what its command prints, and a note where that cannot be told."""
    found: list[Said] = []
    note = ""
    try:
        found.extend(one for one in answer(result.data) if one.piece)
    except LACKING as error:
        note = f"The rest of its answer cannot be printed ({_reason(error)})."
    title = _title(result.data, found) or result.name
    said = [one for one in found if not (one.is_title and one.piece == title)]
    return Answered(result, title, said, note)


def _title(data: xr.Dataset, said: Sequence[Said]) -> str:
    """Return the title of an answer: its own if it has one, else that of the Dataset."""
    titles = [str(one.piece) for one in said if one.is_title and one.piece]
    if len(titles) == 1:
        return titles[0]
    named = [str(data.attrs[name]) for name in ("model", "system") if name in data.attrs]
    return str(data.attrs.get("title") or " on ".join(named))


def _contents(answered: Sequence[Answered]) -> Markup:
    items = []
    for n, one in enumerate(answered, 1):
        link = element("a", one.title, href=f"#result-{n}")
        items.append(element("li", link, f" {one.result.name}: {first_sentence(one.said)}"))
    return element("nav", element("ol", *items), aria_label="Contents")


def _section(answered: Answered, name: str, alone: bool) -> Markup:
    """Return one result: its answer, its picture, its tables, what it rests on, what made it."""
    result, title, pieces, note = answered
    first = next((i for i, one in enumerate(pieces) if not isinstance(one.piece, str)), len(pieces))
    said = " ".join(str(one.piece) for one in pieces[:first])
    parts = [
        *([] if alone else [element("h2", title, id=name)]),
        *map(_piece, pieces[:first]),
        _picture(result.data, title, said),
        *map(_piece, pieces[first:]),
        *([element("p", note, class_="note")] if note else []),
        _folded("Choices", ("choice", "value"), list(choice_rows(result.data))),
        _folded("Inputs", ("input", "value", "meaning"), list(input_rows(result.data))),
        _folded("How it was made", ("", ""), list(made_rows(result))),
        *([_csv(result)] if _cells(result.data) <= CELLS else []),
    ]
    return element("section", joined(parts), aria_label=f"{title} ({result.name})")


def _reason(error: BaseException) -> str:
    said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split()).partition(";")[0].rstrip(".")


def _piece(said: Said) -> Markup:
    piece = said.piece
    if isinstance(piece, Table):
        return table_of(piece)
    return element("h3" if said.is_title else "p", unbroken(str(piece)))


def _picture(data: xr.Dataset, title: str, said: str) -> Markup:
    """Return the picture of a result with its buttons, or why there is none."""
    try:
        shape = importlib.import_module("jaxroof.views.plots.style")
        kind, content = shape.embedded(picture(_titled(data)))
    except LACKING as error:
        return element("p", f"No picture: {_reason(error)}.", class_="note")
    source = f"data:{kind};base64,{base64.b64encode(content).decode()}"
    # the address is longer than any text of a file may be
    image = Markup(f'{element("img", alt=f"{title}. {said}")[:-1]} src="{source}">')
    buttons = [
        element("button", sign, type="button", data_zoom=step, aria_label=words)
        for sign, step, words in (("smaller", "out", "smaller"), ("larger", "in", "larger"))
    ]
    reset = element("button", "whole", type="button", data_zoom="whole", aria_label="whole picture")
    view = element("div", image, class_="view", tabindex="0", aria_label="picture")
    tools = element("div", *buttons, reset, class_="tools")
    return element("figure", tools, view, class_="picture")


def _titled(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose title can be drawn."""
    title = data.attrs.get("title")
    return data if title is None else data.assign_attrs(title=printable(str(title)[:LONGEST_TITLE]))


def _folded(title: str, heads: Sequence[str], rows: list[tuple[str, ...]]) -> Markup:
    """Return a table that opens when it is asked for; nothing where there are no rows."""
    if not rows:
        return Markup("")
    return element("details", element("summary", f"{title} ({len(rows)})"), rows_of(heads, rows))


def _cells(data: xr.Dataset) -> int:
    return len(data.variables) * math.prod(data.sizes.values())


def _csv(result: Result) -> Markup:
    """Return a link that keeps all values of a result as a CSV file."""
    content = base64.b64encode(frame(result.data).to_csv(index=False).encode()).decode()
    name = f"{pathlib.Path(result.name).stem}.csv"
    link = element("a", f"All values as {name}", download=name)
    return element("p", Markup(f'<a href="data:text/csv;base64,{content}" {link[3:]}'))
