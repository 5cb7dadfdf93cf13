"""What is said of a search in every draw of what is uncertain."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.views.text import uncertain as views
from jaxroof.views.text.plan import glossary
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.uncertain_inputs import inputs_table

PLANS = 5  # of the table, unless asked otherwise


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the quantiles, the plan to commit to, and what to measure first.

    Attributes say how far measured runs ``spread``, and how many plans have a row (``top``).
    """
    spread, most = views.spread_sentence(data), int(data.attrs.get("top", PLANS))
    yield from title(str(data.attrs.get("title", "")))
    if "gpus" in data.sizes:
        yield from usual(*views.sizes_sentences(data), spread)
        yield from quiet(views.sizes_table(data))
    else:
        yield from quiet(*views.sentences(data))
        yield from usual(spread)
        if float(data["feasible_share"]) > 0:
            yield from usual(views.bands_table(data), views.plans_table(data, most))
    yield from usual(glossary(data), inputs_table(data))
