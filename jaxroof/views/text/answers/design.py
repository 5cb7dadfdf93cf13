"""What is said of the machine that a budget should buy."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.views.text import design as views
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.tokens import tokens_sentence


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what the budget buys, the plan, the bounds that hold, and the proof."""
    first, *rest = views.design_sentences(data)
    yield from title(str(data.attrs.get("title", "")))
    yield from quiet(first)
    yield from usual(*rest, views.design_table(data), views.label_sentence(data))
    yield from usual(interval_sentence(data))
    yield from verbose(*views.proof_sentences(data))
    yield from usual(*views.warning_sentences(data))
    yield from usual(tokens_sentence(data) if data.attrs["estimator"] == "training" else "")
