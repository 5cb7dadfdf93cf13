"""Plans by the memory that they need: a table, and sentences on what fits and what was refused."""

import json
from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.result_metadata import head_of, parts_of, said_of
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.margin import host_sentences, margin_of
from jaxroof.views.text.plan import (
    fields_words,
    filled_sentence,
    is_usual,
    plan_numbers,
    used_fields,
)
from jaxroof.views.text.tables import plain_table

GB = 1e9
ALWAYS = ("data", "tensor", "pipeline")  # degrees that are shown whatever they are


def title(data: xr.Dataset) -> str:
    """Return the question: model, machine and batch."""
    asked = json.loads(data.attrs["inputs"])
    return (
        f"{data.attrs['model']} on {int(data.gpus):,} x {data.attrs['system']}, batch "
        f"{int(asked['global_batch']):,} of {int(asked['model.sequence']):,} tokens"
    )


def shown_fields(data: xr.Dataset) -> list[str]:
    """Return the plan fields to show: the degrees, and what is not as usual in every plan.

    Tensor ranks always share the tokens in a list of plans.
    """
    fields = [name for name in used_fields(data) if name != "sequence_parallel"]
    return [name for name in fields if name in ALWAYS or not is_usual(data, name)]


def plan_words(plan: xr.Dataset) -> str:
    """Return the fields of one plan that are not at their usual value, by their short names."""
    return fields_words(plan, plan_numbers(plan), shown_fields(plan))


def plans_table(data: xr.Dataset) -> PlainTable:
    """Return one row a plan: its fields, the memory of its fullest stage, and what fills it."""
    capacity, fields = float(data.capacity), shown_fields(data)
    table = plain_table("bytes of the fullest accelerator [GB]")
    table.add_numbers("#", *(head_of(data, field) for field in fields))
    table.add_numbers("HBM", f"% of\n{capacity / GB:.4g}")
    table.add_numbers("stage", optional=3)
    groups = parts_of(data, "device")
    for place, group in enumerate(groups):
        table.add_numbers(_head(data, group), optional=1 if place < len(GROUPS) else 2)
    for place in range(data.sizes["plan"]):
        row = data.isel(plan=place)
        table.add_row(
            str(place + 1),
            *(said_of(row, field) for field in fields),
            _number(float(row.device)),
            margin_of(data).share(float(row.device), capacity),
            f"{int(row.stage)}",
            *(_number(float(row[group])) for group in groups),
        )
    return table


GROUPS = ("weights", "gradients", "optimizer", "activations")  # shown before the others
HEADS = {  # of narrow columns
    "gradients": "gra-\ndients",
    "optimizer": "opti-\nmizer",
    "activations": "acti-\nvations",
    "momentary": "momen-\ntary",
    "outside of tensors": "out-\nside",
}


def _head(data: xr.Dataset, group: str) -> str:
    words = head_of(data, group)
    return HEADS.get(words, words)


def _number(value: float) -> str:
    return "-" if value == 0 else f"{value / GB:.2f}" if value < 99.95 * GB else f"{value / GB:.0f}"


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans are legal, how many fit, and what refused the others."""
    legal, fits = int(data.plans_legal), int(data.plans_feasible)
    rules = json.loads(data.attrs["where"])
    asked = f" with {' and '.join(rules)}" if rules else ""
    plans = "1 legal plan" if legal == 1 else f"{legal:,} legal plans"
    kept = f"{plans}{asked}; {fits:,} fit in {size(float(data.capacity), 'B')}."
    refused, reasons = (json.loads(data.attrs[name]) for name in ("refused", "reasons"))
    said = [f"{words} ({refused[name]:,})" for name, words in reasons.items() if refused.get(name)]
    dropped = f" The rules dropped {listing(said)}." if said else ""
    where = f" Your constraints dropped {refused['where']:,} plans." if refused.get("where") else ""
    return f"{kept}{dropped}{where}"


def answer_sentence(data: xr.Dataset, searched: bool) -> str:
    """Return the plan that needs least, and whether it fits; ``searched``: on the fewest of all."""
    best = data.isel(plan=0)
    capacity, device, gpus = float(data.capacity), float(best.device), int(data.gpus)
    plan = plan_words(best)
    needs = f"{size(device, 'B')} of {size(capacity, 'B')} ({percent(device / capacity)})"
    if not bool(data.fits):
        missing = size(device - capacity, "B")
        where = f"up to {gpus:,}" if searched else f"{gpus:,}"
        return (
            f"No plan fits on {where} accelerators. The leanest ({plan}) needs "
            f"{size(device, 'B')}, {missing} more than the {size(capacity, 'B')} there are."
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
    return " ".join(
        filter(None, (f"It is filled by {said} above all.", doubt, *host_sentences(data)))
    )


def own_sentence(data: xr.Dataset) -> str:
    """Return the place of the user's plan; empty if there is none."""
    if "own" not in data:
        return ""
    own, capacity = float(data.own), float(data.capacity)
    plan = json.loads(str(data.own_plan.values))
    said = fields_words(data, plan)
    over = own - capacity
    fits = "" if over <= 0.0 else f", {size(over, 'B')} more than there is"
    more = size(own - float(data.device.values[0]), "B")
    return (
        f"Yours, at its leanest: {said} needs {size(own, 'B')}{fits}: place "
        f"{int(data.own_place):,} of {int(data.plans_legal):,}, {more} more than the least."
        f"{filled_sentence(data)}"
    )


def fields_of_sizes(rows: Sequence[xr.Dataset]) -> list[str]:
    """Return the plan fields to show of the first plan of several numbers of accelerators."""
    best = [row.isel(plan=0) for row in rows]
    return [f for f in used_fields(best[0]) if any(f in shown_fields(one) for one in best)]


def sizes_table(rows: Sequence[xr.Dataset]) -> PlainTable:
    """Return one row a number of accelerators: plans, those that fit, and the leanest."""
    table = plain_table("the plan that needs least, by number of accelerators")
    best, fields = [row.isel(plan=0) for row in rows], fields_of_sizes(rows)
    table.add_numbers("gpus")
    counted = "plans_legal" in rows[0]  # a file of several sizes has no counts
    table.add_numbers(*(("plans", "fit") if counted else ()), optional=1)
    table.add_numbers(*(head_of(best[0], field) for field in fields))
    table.add_numbers("HBM\n[GB]", f"% of\n{float(rows[0].capacity) / GB:.4g}")
    for row, one in zip(rows, best, strict=True):
        counts = (row.plans_legal, row.plans_feasible) if counted else ()
        table.add_row(
            f"{int(row.gpus):,}",
            *(f"{int(count):,}" for count in counts),
            *(said_of(one, field) for field in fields),
            _number(float(one.device)),
            margin_of(one).share(float(one.device), float(row.capacity)),
        )
    return table
