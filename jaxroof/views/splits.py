"""Every plan of a study as a table and in sentences: the best, the gaps, what is refused."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.views.styles import (
    ALONG,
    DEGREES,
    PIECES,
    Point,
    capacities,
    degrees,
    fitting,
    head_of,
    moved,
    points,
    split_words,
    styles_of,
    value_words,
)
from jaxroof.views.tables import filled, plain_table, seconds, size
from jaxroof.views.words import listing

FITS, MEMORY = "fits", "memory"  # flags of `reason` beside the names of rules
SHARES = {"communication_overhead": "links\n%", "idle_share": "idle\n%", "mfu": "MFU\n%"}
TIE = 1e-9  # throughputs that differ by less are the same
MOST_POINTS = 30  # of a table


def plan_table(data: xr.Dataset, most: int = 10) -> Table:
    """Return the best plans of a study, or where its axes move anything the best of each point.

    Gaps are of step time, to the best plan.
    """
    found, axes = points(data), moved(data)
    table, shown = plain_table(), _shown(data)
    heads = [*map(head_of, axes), "fit"] if axes else ["#"]
    own = [*(DEGREES[name] for name in degrees(data)), *_pieces(data).values()]
    table.add_numbers(*heads, *own, "step\ntime")
    table.add_numbers("samples\n/s", optional=2)
    table.add_numbers(*([] if axes else ["behind\n%"]))
    for name, head in shown.items():
        table.add_numbers(head, optional=3 if name in SHARES else 1)
    if not axes:
        order = fitting(data)
        for place, position in enumerate(order[:most], 1):
            rates = data.throughput.values[[order[0], position]]
            table.add_row(str(place), *_cells(data, position, [_per_cent(*rates)], shown))
        return table
    for _, part in _thinned(found):
        order = fitting(part)
        at = [value_words(part, name, part[name].values[0].item()) for name in axes]
        if len(order):
            table.add_row(*at, f"{len(order):,}", *_cells(part, order[0], [], shown))
        else:
            table.add_row(*at, "none", *["-"] * (len(table.columns) - len(at) - 1))
    return table


def _shown(data: xr.Dataset) -> dict[str, str]:
    """Return the results beside time and throughput that the data have: name, head."""
    shares = {name: head for name, head in SHARES.items() if name in data}
    return {**shares, **({"memory": "memory"} if data.memory.max() > 0 else {})}


def _pieces(data: xr.Dataset) -> dict[str, str]:
    return {name: head for name, head in PIECES.items() if name in data.variables}


def _thinned(found: Sequence[Point]) -> list[Point]:
    if len(found) <= MOST_POINTS:
        return list(found)
    return [found[round(i)] for i in np.linspace(0, len(found) - 1, MOST_POINTS).tolist()]


def _cells(data: xr.Dataset, position: int, gap: list[str], shown: Mapping[str, str]) -> list[str]:
    """Return a plan's degrees and results, a cell each."""
    row, limit = data.isel({ALONG: position}), capacities(data)
    return [
        *[str(int(row[name])) for name in (*degrees(data), *_pieces(data))],
        seconds(float(row.step_time)),
        rate(float(row.throughput)),
        *gap,
        *[f"{100 * float(row[name]):.1f}" for name in shown if name in SHARES],
        *[_full(float(row[name]), limit, position) for name in shown if name not in SHARES],
    ]


def _full(memory: float, limit: np.ndarray | None, position: int) -> str:
    return size(memory, "B") if limit is None else filled(memory, float(limit[position]))


def rate(value: float) -> str:
    """Return samples a second as people read them.

    >>> rate(55313.02), rate(3.14159)
    ('55,313', '3.142')
    """
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.4g}"


def _per_cent(best: float, other: float) -> str:
    """Return how much longer a step takes at another throughput, in per cent."""
    share = best / other - 1.0
    return "-" if share <= TIE else f"{100 * share:.3g}"


def plan_sentences(data: xr.Dataset) -> list[str]:
    """Return what the best plan is, by how much, and how many were legal, too large and refused."""
    found = points(data)
    said = [_one(data)] if len(found) == 1 else _many(found)
    return [*said, counts_sentence(data)]


def _one(data: xr.Dataset) -> str:
    """Return the best plan, how far behind the next is, and the best of every other style."""
    order = fitting(data)
    if not len(order):
        return "No plan fits."
    best, rates = order[0], data.throughput.values
    heads = " x ".join(degrees(data))
    time = seconds(float(data.step_time.values[best]))
    said = (
        f"Best: {split_words(data, best)} ({heads}), {time} a step, {rate(rates[best])} samples/s"
    )
    if len(order) == 1:
        return f"{said}; no other plan fits."
    share = _per_cent(rates[best], rates[order[1]])
    longer = "takes as long" if share == "-" else f"takes {share} % longer"
    return f"{said}; the next, {split_words(data, order[1])}, {longer}.{_others(data, order)}"


def _others(data: xr.Dataset, order: np.ndarray) -> str:
    """Return the best plan of every style but that of the best."""
    styles = styles_of(data)
    firsts = {str(styles[i]): i for i in order[::-1]}  # the last one kept is the fastest
    own = str(styles[order[0]])
    rates = data.throughput.values
    said = [
        f"{style} {_per_cent(rates[order[0]], rates[i])} % ({split_words(data, i)})"
        for style, i in sorted(firsts.items(), key=lambda item: -rates[item[1]])
        if style != own
    ]
    return f" Behind {own}, the best of every other style: {'; '.join(said)}." if said else ""


def _many(found: Sequence[Point]) -> list[str]:
    """Return the best plan of all points, and at how many points each style is the best."""
    firsts = [(p, fitting(p.data)[0]) for p in found if len(fitting(p.data))]
    if not firsts:
        return [f"No plan fits at any of {len(found):,} points."]
    rates = [float(p.data.throughput.values[i]) for p, i in firsts]
    point, best = firsts[int(np.argmax(rates))]
    wins: dict[str, int] = {}
    for part, i in firsts:
        style = str(styles_of(part.data)[i])
        wins[style] = wins.get(style, 0) + 1
    said = [f"{s} at {count}" for s, count in sorted(wins.items(), key=lambda item: -item[1])]
    heads = " x ".join(degrees(point.data))
    unfit = len(found) - len(firsts)
    none = f" At {unfit:,} points no plan fits." if unfit else ""
    return [
        f"Most samples a second: {rate(max(rates))} at {point.words}, with "
        f"{split_words(point.data, best)} ({heads}).",
        f"Best style of {len(found):,} points: {listing(said)}.{none}",
    ]


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans were tried, are legal and fit, and which rules refused the others."""
    flags = str(data.reason.attrs["flag_meanings"]).split()
    counts = dict(zip(flags, np.bincount(data.reason.values, minlength=len(flags)), strict=True))
    tried, fit, large = data.sizes[ALONG], int(counts[FITS]), int(counts.get(MEMORY, 0))
    said = f"{tried:,} plans tried: {fit + large:,} legal"
    said += f", {large:,} of them too large" if large else ", all of which fit" if fit else ""
    refused = [
        f'"{data[name].attrs.get("long_name", name) if name in data else name}" fails ({count:,})'
        for name, count in counts.items()
        if count and name not in (FITS, MEMORY)
    ]
    return (
        f"{said}; {tried - fit - large:,} refused: {listing(refused)}." if refused else f"{said}."
    )
