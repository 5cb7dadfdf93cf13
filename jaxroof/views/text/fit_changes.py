"""The cheapest changes of a plan, as a sentence and a table."""

import json
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.units import percent, seconds, size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table

GB = 1e9
SHOWN = 5e-5  # parts of a step that are less are a dash


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
        if "step_time" not in data:
            return f"{_no_step_time(data)}: what could use the memory left has no price."
        if not changes:
            return ""
        best = changes[0]
        return (
            f"A shorter step on as many accelerators: {set_words(best)} needs "
            f"{size(best['device'], 'B')} and {_price(best)}."
        )
    fitting = [one for one in changes if one["fits"]]
    if fitting:
        best = min(fitting, key=_cost)  # a pair may be cheaper than every single change
        first = "Cheapest" if best["cost"] is not None else "Leanest"
        return (
            f"{first} change that makes it fit: {set_words(best)} needs "
            f"{size(best['device'], 'B')} and {_price(best)}."
        )
    if changes:
        best = changes[0]
        return (
            "No one or two changes make it fit on as many accelerators; the nearest is "
            f"{set_words(best)} with {size(best['device'], 'B')}.{_fewest(data)}"
        )
    return f"No one or two changes save memory on as many accelerators.{_fewest(data)}"


def _cost(change: dict[str, Any]) -> float:
    """Return the cost of a change; one that is not known is more than any."""
    return np.inf if change["cost"] is None else float(change["cost"])


def _fewest(data: xr.Dataset) -> str:
    """Return on how many more accelerators another plan fits, if that is known."""
    if "fewest" not in data.attrs:
        return ""
    more = int(data.attrs["fewest"])
    return f" With more accelerators, the first number that holds any plan is {more:,}."


def _no_step_time(data: xr.Dataset) -> str:
    return f"No run on the chip of {data.attrs['system']} was measured, so there is no step time"


def _price(change: dict[str, Any]) -> str:
    """Return what a change does to the step time, in words."""
    cost = change["cost"]
    if cost is None:
        return "has no price"
    if abs(cost) < SHOWN:
        return f"the step takes as long, {seconds(change['step_time'])}"
    way = "longer" if cost > 0 else "shorter"
    return f"makes a step {percent(abs(cost), 1)} {way}, {seconds(change['step_time'])}"


def changes_table(data: xr.Dataset) -> PlainTable:
    """Return one row per change: what to set, the step time with it, the memory, what it saves."""
    changes = changes_of(data)
    fits = bool(data.fits)
    title = "what makes a step shorter" if fits else "the cheapest changes, single ones first"
    if not fits and not any(one["fits"] for one in changes):
        title = "the changes that come nearest"
    table = plain_table(f"{title}, on as many accelerators")
    table.add_column("set")
    priced = any(one["cost"] is not None for one in changes)
    if priced:
        table.add_numbers("step\n%", "step\ntime")
    table.add_numbers("saves\nGB", "de-\nvice")
    table.add_column("fits", no_wrap=True)
    for one in changes:
        table.add_row(
            set_words(one),
            *((_share(one["cost"]), _time(one["step_time"])) if priced else ()),
            f"{one['saved'] / GB:.2f}",
            f"{one['device'] / GB:.2f}",
            "yes" if one["fits"] else "no",
        )
    return table


def _share(value: float | None) -> str:
    return "?" if value is None else "-" if abs(value) < SHOWN else f"{100 * value:+.1f}"


def _time(value: float | None) -> str:
    return "?" if value is None else seconds(value)


def price_sentence(data: xr.Dataset) -> str:
    """Return why changes have no price, if some have none: memory alone ranks them."""
    if all(one["cost"] is not None for one in changes_of(data)):
        return ""
    if "step_time" not in data:
        return f"{_no_step_time(data)}: memory alone ranks the changes."
    return (
        "No step time knows activations in host memory, nor layers moved between stages: such "
        "changes have no price (?), and come last."
    )


def cost_sentence() -> str:
    """Return what the price of a change is."""
    return (
        "Step: the step time with the change, as a search has it of that plan, and what that is "
        "more than now."
    )
