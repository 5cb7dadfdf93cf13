"""What is said of pipeline schedules side by side."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.views.text import schedule as views
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.plan import plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best schedule, what it gains and needs, and all of them in a table."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(plan_line(data))
    yield from usual(*views.schedule_sentences(data))
    yield from quiet(views.schedules_table(data))
    yield from usual(views.GLOSSARY, views.closed_form_sentence(data))
    yield from verbose(interval_sentence(data))
