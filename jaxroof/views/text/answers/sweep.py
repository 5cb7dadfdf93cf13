"""What is said of the results of a sweep file, by what it asks."""

from collections.abc import Iterator

import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.views.text import (
    all_plans,
    elasticities,
    fit_stages,
    roofline,
    search,
    stages,
    tables,
)
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.plan import glossary
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the results of a sweep."""
    question = data.attrs.get("question")
    yield from title(str(data.attrs.get("title", "")))
    if question == "fit_stages":
        yield from usual(fit_stages.stages_sentence(data))
        yield from quiet(fit_stages.fullest_table(data))
    elif "stage" in data.sizes:
        yield from usual(stages.stage_sentence(data))
        yield from quiet(stages.stage_table(data))
    elif data.attrs.get("answer") == "plans" or question == "every plan":
        yield from usual(*all_plans.plan_sentences(data))
        yield from quiet(all_plans.plan_table(data, page.most))
    elif "parameter" in data.sizes:
        yield from usual(elasticities.binding_sentence(data))
        yield from quiet(elasticities.binding_table(data))
        yield from usual(*search.sweep_sentences(data.drop_dims("parameter")))
    elif data.sizes or ("step_time" in data and "feasible" in data):
        yield from _grid(data, page.most)
    else:
        yield from _point(data)


def _grid(data: xr.Dataset, most: int) -> Iterator[Said]:
    """Yield the headline result of a grid."""
    count, *found = search.sweep_sentences(data)
    yield from usual(*found)
    grid = tables.grid_table(data, most)
    if grid is not None:
        yield from quiet(grid)
    yield from usual(glossary(data) if "plans_feasible" in data else "")
    yield from verbose(interval_sentence(data))
    yield from usual(count)


def _point(data: xr.Dataset) -> Iterator[Said]:
    """Yield all results of a single point."""
    yield from usual(*(roofline.shape_sentences(data) if roofs.is_roofline(data) else ()))
    yield from quiet(roofline.result_table(data))
    yield from usual(*search.sweep_sentences(data))
