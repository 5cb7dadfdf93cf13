"""What is said of the plans of today's training that need the least memory."""

import json
from collections.abc import Iterator, Mapping, Sequence

import xarray as xr

from jaxroof.views.text import least_memory as views
from jaxroof.views.text.answers.plans_by_size import NOTHING, own_plans, table_of_sizes
from jaxroof.views.text.plan import glossary, plan_sentence
from jaxroof.views.text.said import Said, quiet, title, usual, verbose


def answer(data: xr.Dataset) -> Iterator[Said]:
    """Yield the leanest plans on one number of accelerators, or on the fewest if none was given."""
    searched = json.loads(data.attrs.get("options", "{}")).get("gpus") is None
    said = f"{views.answer_sentence(data, searched)} {views.largest_sentence(data)}"
    yield from title(views.title(data))
    yield from usual(said, plan_sentence(data.isel(plan=0)))
    yield from quiet(views.plans_table(data))
    yield from usual(glossary(data, views.shown_fields(data)))
    yield from verbose(views.counts_sentence(data))
    yield from usual(views.own_sentence(data))


def answer_of_sizes(
    found: Sequence[xr.Dataset], none: Mapping[int, str] = NOTHING
) -> Iterator[Said]:
    """Yield the leanest plan on each number of accelerators; ``none`` says why others have none."""
    yield from table_of_sizes(views.sizes_table(found), found, none)
    yield from own_plans(found, views.own_sentence)
