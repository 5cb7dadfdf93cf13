"""Where the time of the best plans goes: the parts of a step, and of a layer."""

from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.fastest_plans import OF_LAYER, WAYS
from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.app.answers.plans import columns, names
from jaxroof.units import percent

WHOLE = "step_time"
LEAST = 1e-4  # share of a step below which a part is not drawn


class Part(NamedTuple):
    """One part of a stacked bar: whose bar, what it is, from where to where, and its share."""

    bar: str
    part: str
    start: float
    end: float
    share: float


def step_parts(data: xr.Dataset) -> list[Part]:
    """Return the parts of the step of every plan, in the order in which they are stacked [s]."""
    parts = parts_of(data, WHOLE) or [WHOLE]
    cells, labels = columns(data, WHOLE, *parts), [words_of(data, name) for name in parts]
    found = []
    for place, bar in enumerate(bars(data)):
        start, whole = 0.0, cells[WHOLE][place]
        for name, label in zip(parts, labels, strict=True):
            value = cells[name][place]
            if value > LEAST * whole:
                found.append(Part(bar, label, start, start + value, value / whole))
            start += max(value, 0.0)
    return found


def bars(data: xr.Dataset) -> list[str]:
    """Return what the bar of every plan is called: its place and the plan."""
    return [f"{place}  {plan}" for place, plan in enumerate(names(data), 1)]


def bounds(data: xr.Dataset) -> list[tuple[str, float, float]]:
    """Return the 80 % interval of every plan [s]; none where there is none."""
    if "step_time_low" not in data.variables:
        return []
    low, high = columns(data, "step_time_low", "step_time_high").values()
    return list(zip(bars(data), low, high, strict=True))


def layer_parts(data: xr.Dataset) -> list[tuple[str, float]]:
    """Return the shares of one layer's time of the best plan, the largest first."""
    if "layer_forward" not in data.variables:
        return []
    cells = columns(data, *(f"layer_{name}" for name in OF_LAYER))
    each = {words: cells[f"layer_{name}"][0] for name, (_, words) in OF_LAYER.items()}
    layer = sum(each.pop(way) for way in WAYS)
    shares = [(words, part / layer) for words, part in each.items()]
    return sorted((one for one in shares if one[1] > LEAST), key=lambda one: -one[1])


def largest_words(parts: list[Part]) -> str:
    """Return the two largest parts of the best plan's step.

    >>> largest_words([Part("1", "compute", 0.0, 0.8, 0.8), Part("1", "bubble", 0.8, 1.0, 0.2)])
    "Of the best plan's step, compute takes 80 %, then bubble 20 %."
    """
    best = sorted((p for p in parts if p.bar == parts[0].bar), key=lambda p: -p.share)
    first, *rest = best
    second = f", then {rest[0].part} {percent(rest[0].share)}" if rest else ""
    return f"Of the best plan's step, {first.part} takes {percent(first.share)}{second}."
