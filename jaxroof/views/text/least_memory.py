"""Plans by the memory that they need, and whether any fits: a table, and sentences."""

import json
from collections.abc import Iterator, Sequence

import xarray as xr

from jaxroof.analyses.result_metadata import head_of, parts_of
from jaxroof.analyses.training_plans import MOST
from jaxroof.errors import listing
from jaxroof.units import gigabytes, percent, size, too_much
from jaxroof.views.text.assumed import assumed_sentences
from jaxroof.views.text.layout import NARROW, PlainTable, Shown
from jaxroof.views.text.margin import host_sentences, margin_of
from jaxroof.views.text.plan import (
    field_columns,
    fields_words,
    filled_sentence,
    glossary,
    plan_sentence,
    shown_fields,
    usual_words,
)
from jaxroof.views.text.ranked import (
    by_size,
    counts_sentence,
    missed_words,
    numbered,
    table_of_sizes,
    title_of,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

GB = 1e9
GROUPS = ("weights", "gradients", "optimizer", "activations")  # shown before the others
WAYS = {  # other ways to ask: where a plan fits then, on how many accelerators, and where none does
    "offload": ("Without offload the fewest are {:,}.", "Without offload none hold it."),
    "constraints": (
        "Without your constraints a plan fits on these {:,}.",
        "No plan fits without your constraints either.",
    ),
    "accelerators": (
        "The fewest accelerators that hold it are {:,}.",
        f"No number of accelerators up to {MOST:,} holds it.",
    ),
}


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the leanest plans on one number of accelerators, or on the fewest if none was given."""
    if data["gpus"].ndim:
        yield from _sizes(by_size(data))
        return
    yield from title(title_of(data))
    yield from leanest(data)
    yield from verbose(counts_sentence(data))
    yield from usual(own_sentence(data), *assumed_sentences(data))


def leanest(data: xr.Dataset, table: bool = True) -> Iterator[Said]:
    """Yield the plan that needs least, what fills it, other ways to ask, and the leanest."""
    searched = json.loads(data.attrs.get("options", "{}")).get("gpus") is None
    said = [answer_sentence(data, searched), largest_sentence(data)]
    for way, gpus in json.loads(data.attrs.get("ways", "{}")).items():
        holds, none = WAYS[way]
        said.append(none if gpus is None else holds.format(gpus))
    yield from usual(" ".join(said), plan_sentence(data.isel(plan=0)))
    if table:
        yield from quiet(plans_table(data))
        yield from usual(glossary(data, shown_fields(data)))


def _sizes(found: Sequence[xr.Dataset]) -> Iterator[Said]:
    """Yield the leanest plan on each number of accelerators."""
    columns = measures("HBM\n[GB]", float(found[0].capacity))
    yield from table_of_sizes("the plan that needs least", columns, found)


def measures(head: str, capacity: float) -> list[Shown]:
    """Return the columns of what a plan needs."""

    def share(row: xr.Dataset) -> str:
        return margin_of(row).share(float(row.device), float(row.capacity))

    return [
        Shown(head, lambda row: gigabytes(float(row.device))),
        Shown(f"% of\n{capacity / GB:.4g}", share),
    ]


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, the memory of its fullest stage, and what fills it."""
    number, rows = numbered(data)

    def group(place: int, name: str) -> Shown:
        words = head_of(data, name)
        soon = 1 if place < len(GROUPS) else 2
        return Shown(NARROW.get(words, words), lambda row: gigabytes(float(row[name])), soon)

    columns = [
        number,
        *field_columns(data, shown_fields(data)),
        *measures("HBM", float(data.capacity)),
        Shown("stage", lambda row: f"{int(row.stage)}", 3),
        *(group(*one) for one in enumerate(parts_of(data, "device"))),
    ]
    return PlainTable("bytes of the fullest accelerator [GB]").add_rows(columns, rows)


def answer_sentence(data: xr.Dataset, searched: bool) -> str:
    """Return the plan that needs least, and whether it fits; ``searched``: on the fewest of all."""
    best = data.isel(plan=0)
    capacity, device, gpus = float(data.capacity), float(best.device), int(data.gpus)
    plan = usual_words(best)
    needs = f"{size(device, 'B')} of {size(capacity, 'B')} ({percent(device / capacity)})"
    if not bool(data.fits):
        where = f"up to {gpus:,}" if searched else f"{gpus:,}"
        if "why_none" in data.attrs:
            return f"No plan fits on {where} accelerators: {data.attrs['why_none']}."
        return (
            f"No plan fits on {where} accelerators. The leanest ({plan}) needs "
            f"{too_much(device, capacity)}."
        )
    if searched:
        return f"The fewest accelerators that hold it are {gpus:,}: {plan} needs {needs}."
    return f"Least memory: {plan} needs {needs}."


def largest_sentence(data: xr.Dataset) -> str:
    """Return what fills the leanest plan most, and how far to trust its memory."""
    best = data.isel(plan=0)
    groups = sorted(parts_of(best, "device"), key=lambda name: -float(best[name]))[:2]
    said = listing([f"{head_of(best, g)} {size(float(best[g]), 'B')}" for g in groups])
    doubt = margin_of(data).sentence(float(best.device), float(data.capacity))
    every = (f"It is filled by {said} above all.", doubt, *host_sentences(data))
    return " ".join(filter(None, every))


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan; empty if there is none."""
    if "own" not in data:
        return ""
    own, capacity = float(data.own), float(data.capacity)
    said = fields_words(data, json.loads(str(data.own_plan.values)))
    missed = missed_words(data, capacity)
    if "device" in missed:
        missed["device"] = f"{size(own - capacity, 'B')} more than there is"
    needs = ", ".join([size(own, "B"), *missed.values()])
    more = size(own - float(data.device.values[0]), "B")
    return (
        f"Yours, at its leanest: {said} needs {needs}: place {int(data.own_place):,} of "
        f"{int(data.plans_legal):,}, {more} more than the least.{filled_sentence(data)}"
    )
