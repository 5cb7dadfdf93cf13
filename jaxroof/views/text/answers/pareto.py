"""What is said of the stairs of step time against memory."""

import json
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from jaxroof.catalog.needs import training_capacities
from jaxroof.views.text import pareto as views
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.tokens import tokens_sentence

GAIN = 0.01  # speed that a stair must add to be shown, unless asked otherwise


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what more memory buys on each of some numbers of accelerators.

    Attributes say more of the question: stairs add a ``gain`` of speed or more; ``most_days`` asks
    for the smallest machine that trains in so many; ``sizes`` are those without a stair too.
    """
    asked = data.attrs
    gain, days = float(asked.get("gain", GAIN)), asked.get("most_days")
    most_days = None if days is None else float(days)
    sizes = json.loads(asked["sizes"]) if "sizes" in asked else sizes_of(data)
    today, there = data.attrs["estimator"] != "published", data.sizes["step_number"] > 0
    each = {n: data.isel(step_number=np.flatnonzero(data["gpus"].values == n)) for n in sizes}
    capacities = training_capacities(today)
    yield from title(_title(data))
    if len(sizes) < 2:
        yield from _stairs(data, each, gain, most_days, capacities)
    else:
        if most_days is not None:
            yield from usual(*views.days_sentences(each, most_days, capacities))
        yield from quiet(views.sizes_table(each, gain, most_days, capacities))
        yield from usual(*views.sizes_sentences(each, None if most_days else gain))
        yield from usual(views.glossary_of(data))
    if there:
        yield from usual(tokens_sentence(data) if today else "")
        yield from verbose(interval_sentence(data))


def _title(data: xr.Dataset) -> str:
    """Return the title with the batch; empty where the one or the other varies or is not known."""
    named, batch = data.attrs.get("title"), json.loads(data.attrs["inputs"]).get("global_batch")
    return f"{named}, batch {int(batch):,}" if named and batch else ""


def _stairs(
    stairs: xr.Dataset,
    each: Mapping[int, xr.Dataset],
    gain: float,
    most_days: float | None,
    capacities: views.Capacities,
) -> Iterator[Said]:
    if not stairs.sizes["step_number"]:
        yield from quiet("No plan is legal.")
        return
    chosen = views.stairs_to_show(stairs, gain)
    if most_days is not None:
        yield from usual(*views.days_sentences(each, most_days, capacities))
    yield from usual(*views.stairs_sentences(stairs, gain))
    yield from quiet(views.stairs_table(stairs, chosen, capacities))
    yield from usual(views.glossary_of(stairs))
    yield from usual(views.shown_sentence(stairs, len(chosen), gain))
    yield from verbose(views.ends_sentence(stairs))


def sizes_of(data: xr.Dataset) -> list[int]:
    """Return the numbers of accelerators that a file has stairs of."""
    return list(dict.fromkeys(data["gpus"].values.ravel().tolist()))
