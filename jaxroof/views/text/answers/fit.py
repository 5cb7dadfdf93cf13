"""What is said of whether a training step fits."""

from collections.abc import Iterator

import xarray as xr
from rich.text import Text

from jaxroof.views.text import fit as views
from jaxroof.views.text import fit_changes as changes
from jaxroof.views.text.plan import plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield whether it fits, the memory of every stage, and changes that would make it fit."""
    yield from title(views.title(data))
    yield from quiet(views.answer_sentence(data))
    yield from usual(plan_line(data))
    yield from usual(changes.change_sentence(data), *views.open_sentences(data))
    yield from usual(views.stages_table(data))
    if page.bars:
        bars = views.bars(data, min(page.width, 100))
        yield from usual(*(Text(line, overflow="ignore", no_wrap=True) for line in bars))
        yield from verbose(views.legend_sentence())
    yield from usual(views.mark_sentence(data))
    if changes.changes_of(data):
        yield from usual(changes.changes_table(data), changes.price_sentence(data))
        yield from verbose(changes.cost_sentence())
    yield from verbose(*views.assumption_sentences(data))
