"""Predicted servers beside measured ones: cells of tables, words of a row."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.estimators.serving.interval import RATE, REGIMES, TTFT
from jaxroof.units import seconds
from jaxroof.validation.serving import LEVELS, QUANTITIES, CoverScore
from jaxroof.views.text.layout import PlainTable

COVER_HEADS = ("regime", "n", "median", "p90", *(f"{level} %" for level in LEVELS))


def cover_cells(score: CoverScore) -> list[str]:
    """Return the numbers of a regime as texts."""
    median, p90, *covered = score[2:]
    return [
        score.regime,
        str(score.rows),
        f"{median:.1f}",
        f"{p90:.1f}",
        *(f"{c:.0f}" for c in covered),
    ]


def cover_table(found: Sequence[CoverScore]) -> PlainTable:
    """Return errors by regime, and how many measured values intervals of 50, 80, 90 % hold."""
    table = PlainTable("the same by regime, and what intervals at three levels hold [%]")
    table.add_column(COVER_HEADS[0], no_wrap=True)
    for head in COVER_HEADS[1:]:
        table.add_numbers(head)
    for score in found:
        table.add_row(*cover_cells(score))
    return table


def servers_sentence(found: Sequence[CoverScore]) -> str:
    """Return how far all predictions lie from what was measured."""
    every = found[-1]
    return (
        f"Half of {every.rows:,} predictions lie within {every.median:.1f} % of what was measured, "
        f"nine in ten within {every.p90:.0f} %."
    )


def server_words(one: Any) -> list[str]:
    """Return quantity, error, measured, predicted and software of a row as texts."""
    rate = one["quantity"] == "rate"
    pair = [f"{one[n]:,.0f}/s" if rate else seconds(one[n]) for n in ("measured", "predicted")]
    what = QUANTITIES[one["quantity"]][1]
    return [what, f"{100.0 * one['error']:+.1f}", *pair, f"{one['model']}, {one['software']}"]


def server_row(one: Any) -> dict[str, Any]:
    """Return what a CSV has of a measured quantity; None where there is none."""
    numbers = {name: one[name] for name in ("measured", "predicted")}
    numbers |= {"low": one["predicted"] * np.exp(-one["half"])}
    numbers |= {
        "high": one["predicted"] * np.exp(one["half"]),
        "error_percent": 100.0 * one["error"],
    }
    words = {name: one[name] for name in ("model", "software", "quantity", "regime")}
    return {
        **words,
        **{name: None if np.isnan(value) else float(value) for name, value in numbers.items()},
        "reason": one["reason"],
    }


def widths_of_servers() -> Iterator[list[Any]]:
    """Yield the half widths of every regime of servers."""
    yield from ([one.words, *one.half_widths] for one in REGIMES)
    yield from (
        [f"tokens/s, {name}", *RATE[key]] for key, name in ((False, "dense"), (True, "experts"))
    )
    yield ["TTFT", *TTFT]
