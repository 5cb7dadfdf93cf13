"""What is said of the limits of the best plan."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses.explain import explanation_of
from jaxroof.views.text import explain as views
from jaxroof.views.text.explain_sentences import best_sentence, explain_sentences
from jaxroof.views.text.plan import plan_sentence, stages_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what limits the best plan, by how much, and where that changes."""
    found = explanation_of(data)
    first, *rest = explain_sentences(found)
    yield from title(str(data.attrs.get("title", "")))
    if not found.feasible:
        yield from quiet(first)
        yield from usual(*rest, views.steps_table(found.steps))
        return
    yield from usual(best_sentence(found), plan_sentence(found.best), stages_sentence(found.best))
    yield from quiet(first)
    yield from usual(*rest, views.bars_table(found.elasticities, page.every))
    yield from verbose(*views.rest_sentences(found.elasticities))
    yield from usual(views.binding_table(found.operations))
    if found.response.sizes["switch"]:
        yield from verbose(views.switches_table(found.response, found.elasticities))
    if found.steps.sizes["step"]:
        yield from verbose(views.steps_table(found.steps))
