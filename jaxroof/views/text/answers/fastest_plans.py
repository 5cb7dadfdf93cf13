"""What is said of the fastest plans of today's training."""

from collections.abc import Iterator, Mapping, Sequence

import xarray as xr

from jaxroof.views.text import fastest_plans as views
from jaxroof.views.text import least_memory
from jaxroof.views.text.answers.plans_by_size import NOTHING, own_plans, table_of_sizes
from jaxroof.views.text.plan import plan_sentence, stages_sentence
from jaxroof.views.text.said import Said, quiet, title, usual, verbose


def answer(data: xr.Dataset, near: tuple[int, float] | None = None) -> Iterator[Said]:
    """Yield the fastest plans on one number of accelerators.

    ``near`` is another batch, and how many times as many tokens a second it trains.
    """
    yield from title(least_memory.title(data))
    yield from usual(views.answer_sentence(data), plan_sentence(data.isel(plan=0)))
    yield from quiet(views.plans_table(data))
    yield from usual(views.table_sentence(data, least_memory.shown_fields(data)))
    yield from usual(views.parts_sentence(data))
    yield from verbose(views.layer_sentence(data), views.software_sentence(data))
    yield from quiet(views.own_sentence(data))
    yield from usual(stages_sentence(data.isel(plan=0)))
    if near is not None:
        yield from usual(views.near_sentence(*near))


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
