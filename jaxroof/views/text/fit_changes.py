"""The cheapest changes of a plan, as a sentence and a table."""

import json
from typing import Any

import xarray as xr

from jaxroof.units import percent, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table

GB = 1e9
SENT = {  # bytes of a cost, and the head of their column
    "fast_bytes": "NVLink\nGB",
    "slow_bytes": "network\nGB",
    "host_bytes": "host\nGB",
}
SHOWN = 1e-4  # parts of a step that are less are a dash


def changes_of(data: xr.Dataset) -> list[dict[str, Any]]:
    """Return the changes that an answer of ``fit`` holds."""
    found: list[dict[str, Any]] = json.loads(data.attrs.get("changes", "[]"))
    return found


def set_words(change: dict[str, Any]) -> str:
    """Return what a change sets, as a person types it.

    >>> set_words({"set": {"dp": 2.0, "recompute": "full"}})
    'dp=2 recompute=full'
    """
    return " ".join(
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in change["set"].items()
    )


def change_sentence(data: xr.Dataset) -> str:
    """Return what to change first, or that no change was found."""
    if "changes" not in data.attrs:
        return ""
    changes = changes_of(data)
    if bool(data.fits):
        if not changes:
            return ""
        best = changes[0]
        return (
            f"The memory left can be spent: {set_words(best)} needs {size(best['device'], 'B')} "
            f"and makes {_step(best['cost'])}."
        )
    fitting = [one for one in changes if one["fits"]]
    if fitting:
        best = fitting[0]
        return (
            f"Cheapest change that makes it fit: {set_words(best)} needs "
            f"{size(best['device'], 'B')} and makes {_step(best['cost'])}."
        )
    if changes:
        best = changes[0]
        return (
            "No one or two changes make it fit on as many accelerators; the nearest is "
            f"{set_words(best)} with {size(best['device'], 'B')}."
        )
    return "No one or two changes save memory on as many accelerators."


def _step(cost: float) -> str:
    way = "longer" if cost >= 0 else "shorter"
    return f"a step {percent(abs(cost), 1)} {way} by estimate"


def changes_table(data: xr.Dataset) -> PlainTable:
    """Return one row per change: what to set, its cost and the parts of it, what it saves."""
    changes = changes_of(data)
    fits = bool(data.fits)
    title = (
        "what the memory left can be spent on"
        if fits
        else "the cheapest changes, single ones first"
    )
    if not fits and not any(one["fits"] for one in changes):
        title = "the changes that come nearest"
    table = plain_table(f"{title}, on as many accelerators")
    table.add_column("set")
    table.add_numbers("step\n%")
    used = {name: head for name, head in SENT.items() if any(abs(one[name]) > 0 for one in changes)}
    if any(one["recomputed"] for one in changes):
        table.add_numbers("FLOP\n%")
    table.add_numbers(*used.values(), optional=1)
    if any(abs(one["idle"]) > SHOWN for one in changes):
        table.add_numbers("idle\n%")
    table.add_numbers("saves\nGB", "de-\nvice")
    table.add_column("fits", no_wrap=True)
    for one in changes:
        cells = [set_words(one), _share(one["cost"])]
        if any(other["recomputed"] for other in changes):
            cells.append(_share(one["recomputed"]))
        cells += [_bytes(one[name]) for name in used]
        if any(abs(other["idle"]) > SHOWN for other in changes):
            cells.append(_share(one["idle"]))
        cells += [f"{one['saved'] / GB:.2f}", f"{one['device'] / GB:.2f}"]
        table.add_row(*cells, "yes" if one["fits"] else "no")
    return table


def _share(value: float) -> str:
    return "-" if abs(value) < SHOWN else f"{100 * value:+.1f}"


def _bytes(value: float) -> str:
    return "-" if value == 0 else f"{value / GB:+.3g}"


def cost_sentence() -> str:
    """Return what the cost of a change is."""
    return (
        "Step: estimated time more than now, without overlap, of its parts: FLOP that are computed "
        "again (of the model's), bytes that a rank sends in a step (over NVLink, over the "
        "network, to its host), idle time of the pipeline. It ranks; smaller or slower kernels "
        "are not in it."
    )
