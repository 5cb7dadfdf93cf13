"""What is said of the fastest plans of today's training."""

import json
from collections.abc import Iterator, Mapping, Sequence

import xarray as xr

from jaxroof.views.text import fastest_plans as views
from jaxroof.views.text import least_memory
from jaxroof.views.text.answers.plans_by_size import NOTHING, by_size, own_plans, table_of_sizes
from jaxroof.views.text.plan import plan_sentence, stages_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the fastest plans on one number of accelerators, or the fastest on each of several."""
    if data["gpus"].ndim:
        yield from answer_of_sizes(by_size(data))
        return
    yield from title(least_memory.title(data))
    yield from usual(views.answer_sentence(data), plan_sentence(data.isel(plan=0)))
    yield from quiet(views.plans_table(data))
    yield from usual(views.table_sentence(data, least_memory.shown_fields(data)))
    yield from usual(views.parts_sentence(data))
    yield from verbose(views.layer_sentence(data), views.software_sentence(data))
    yield from quiet(views.own_sentence(data))
    yield from usual(stages_sentence(data.isel(plan=0)))
    if "near" in data.attrs:
        yield from usual(views.near_sentence(*json.loads(data.attrs["near"])))


def answer_of_sizes(
    found: Sequence[xr.Dataset], none: Mapping[int, str] = NOTHING
) -> Iterator[Said]:
    """Yield the fastest plan on each number of accelerators; ``none`` says why others have none."""
    table = views.sizes_table(found)
    yield from table_of_sizes(table, found, none)
    for one in found:
        if "plans_feasible" in one:  # a file of several sizes has no counts
            yield from usual(views.size_sentence(one))
    yield from own_plans(found, views.own_sentence)
