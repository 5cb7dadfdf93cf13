"""Every plan of a study in a table and in sentences: the best, the gaps, the refused plans."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.analyses.result_metadata import (
    headlines,
    need_of,
    objective_of,
    rises,
    roles,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import percent
from jaxroof.views.plan_styles import (
    ALONG,
    DEGREES,
    PIECES,
    Point,
    capacities,
    degrees,
    fitting,
    head_of,
    is_parallel,
    merit,
    moved,
    points,
    split_words,
    styles_of,
    value_words,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.tables import amount, per_run, plain_table

SHARES = {"communication_overhead": "links\n%", "idle_share": "idle\n%", "mfu": "MFU\n%"}
TIE = 1e-9  # throughputs with a smaller relative difference count as equal
MOST_POINTS = 30  # in a table


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the best plans of a study, and what was refused."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(*plan_sentences(data))
    yield from quiet(plan_table(data, page.most))


def plan_table(data: xr.Dataset, most: int = 10) -> Table:
    """Return the best plans of a study or, if its axes vary anything, the best of each point.

    Gaps are in step time, relative to the best plan.
    """
    found, axes = points(data), moved(data)
    table, shown = plain_table(), _shown(data)
    heads = [*map(head_of, axes), "fit"] if axes else ["#"]
    table.add_numbers(*heads, *_own(data).values())
    for name in _results(data):
        table.add_numbers(_result_head(data, name), optional=0 if name == objective_of(data) else 2)
    table.add_numbers(*([] if axes else ["behind\n%"]))
    for name, head in shown.items():
        table.add_numbers(head, optional=3 if name in SHARES else 1)
    if not axes:
        order = fitting(data)
        for place, position in enumerate(order[:most], 1):
            behind = [_behind(data, order[0], position)]
            table.add_row(str(place), *_cells(data, position, behind, shown))
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
    """Return the results in the data besides time and throughput: name, head."""
    shares = {name: head for name, head in SHARES.items() if name in data}
    need = need_of(data)
    needs = bool(need) and bool(data[need].max() > 0)
    return {**shares, **({need: words_of(data, need)} if needs else {})}


def _own(data: xr.Dataset) -> dict[str, str]:
    """Return the shown plan fields with their heads."""
    if is_parallel(data):
        pieces = {name: head for name, head in PIECES.items() if name in data.variables}
        return {**{name: DEGREES[name] for name in degrees(data)}, **pieces}
    known = roles(data)
    fields = [name for name in (*known["split"], *known["placement"]) if name in data.variables]
    return {name: words_of(data, name).replace(" ", "\n") for name in fields}


def plan_said(data: xr.Dataset, position: int) -> str:
    """Return a plan in words: its degrees, or its fields by name."""
    if is_parallel(data):
        return split_words(data, position)
    names = [name for name in _own(data) if name not in roles(data)["placement"]]
    return " ".join(f"{words_of(data, n)} {int(data[n].values[position])}" for n in names)


def _results(data: xr.Dataset) -> list[str]:
    """Return the results shown for each plan: the objective and the headlines."""
    return list(dict.fromkeys([objective_of(data), *headlines(data)]))


def _result_head(data: xr.Dataset, name: str) -> str:
    """Return the head of a result's column; samples per second are named after the unit counted."""
    unit = unit_of(data, name)
    counted = unit.removesuffix("/s")
    if counted != unit and counted not in ("B", "FLOP"):
        return f"{counted}s\n/s"
    return words_of(data, name).replace(" ", "\n")


def _result(data: xr.Dataset, name: str, value: float) -> str:
    unit = unit_of(data, name)
    counted = unit.removesuffix("/s")
    return rate(value) if counted != unit and counted not in ("B", "FLOP") else amount(value, unit)


def _thinned(found: Sequence[Point]) -> list[Point]:
    if len(found) <= MOST_POINTS:
        return list(found)
    return [found[round(i)] for i in np.linspace(0, len(found) - 1, MOST_POINTS).tolist()]


def _cells(data: xr.Dataset, position: int, gap: list[str], shown: Mapping[str, str]) -> list[str]:
    """Return a plan's degrees and results, one cell each."""
    row, limit = data.isel({ALONG: position}), capacities(data)
    return [
        *[str(int(row[name])) for name in _own(data)],
        *[_result(data, name, float(row[name])) for name in _results(data)],
        *gap,
        *[f"{100 * float(row[name]):.1f}" for name in shown if name in SHARES],
        *[_full(data, float(row[n]), limit, position) for n in shown if n not in SHARES],
    ]


def _full(data: xr.Dataset, need: float, limit: np.ndarray | None, position: int) -> str:
    unit = unit_of(data, need_of(data))
    if limit is None:
        return amount(need, unit)
    return f"{amount(need, unit)} {percent(need / float(limit[position])):>5}"


def rate(value: float) -> str:
    """Return a rate in samples per second as text.

    >>> rate(55313.02), rate(3.14159)
    ('55,313', '3.142')
    """
    return f"{value:,.0f}" if value >= 1000.0 else f"{value:.4g}"


def _per_cent(best: float, other: float) -> str:
    """Return how much longer a step takes at another throughput, in percent."""
    share = best / other - 1.0
    return "-" if share <= TIE else f"{100 * share:.3g}"


def plan_sentences(data: xr.Dataset) -> list[str]:
    """Return the best plan, its lead, and how many plans were legal, too large or refused."""
    found = points(data)
    said = [_one(data)] if len(found) == 1 else _many(found)
    return [*said, counts_sentence(data)]


def _one(data: xr.Dataset) -> str:
    """Return the best plan, its lead over the next, and the best plan of every other style."""
    order = fitting(data)
    if not len(order):
        return "No plan fits."
    best = order[0]
    heads = f" ({' x '.join(degrees(data))})" if is_parallel(data) else ""
    told = [_said(data, name, float(data[name].values[best])) for name in _results(data)]
    said = f"Best: {plan_said(data, best)}{heads}, {', '.join(told)}"
    if len(order) == 1:
        return f"{said}; no other plan fits."
    share = _behind(data, best, order[1])
    timed = unit_of(data, objective_of(data)) == "s"
    longer = f"takes {share} % longer" if timed else f"is {share} % behind"
    if share == "-":
        longer = "takes as long" if timed else "is as good"
    others = _others(data, order) if is_parallel(data) else ""
    return f"{said}; the next, {plan_said(data, order[1])}, {longer}.{others}"


def _said(data: xr.Dataset, name: str, value: float) -> str:
    """Return a result within a sentence; samples per second are named after the unit counted."""
    head = _result_head(data, name)
    said = _result(data, name, value)
    return (
        f"{said} {head.replace(chr(10), '')}" if said == rate(value) else per_run(data, name, value)
    )


def _behind(data: xr.Dataset, best: int, other: int) -> str:
    """Return how much worse another plan's objective is, in percent."""
    name = merit(data)
    values = data[name].values
    pair = (best, other) if rises(data, name) else (other, best)
    return _per_cent(float(values[pair[0]]), float(values[pair[1]]))


def _others(data: xr.Dataset, order: np.ndarray) -> str:
    """Return the best plan of every style other than that of the best plan."""
    styles = styles_of(data)
    firsts = {str(styles[i]): i for i in order[::-1]}  # the fastest plan is assigned last
    own = str(styles[order[0]])
    places = {int(i): place for place, i in enumerate(order)}
    said = [
        f"{style} {_behind(data, order[0], i)} % ({split_words(data, i)})"
        for style, i in sorted(firsts.items(), key=lambda item: places[int(item[1])])
        if style != own
    ]
    return f" Behind {own}, the best of every other style: {'; '.join(said)}." if said else ""


def _many(found: Sequence[Point]) -> list[str]:
    """Return the best plan over all points, and at how many points each style is best."""
    firsts = [(p, fitting(p.data)[0]) for p in found if len(fitting(p.data))]
    if not firsts:
        return [f"No plan fits at any of {len(found):,} points."]
    if not is_parallel(found[0].data) or "throughput" not in found[0].data:
        return [_best_of(firsts, len(found))]
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


def _best_of(firsts: Sequence[tuple[Point, int]], points: int) -> str:
    """Return the best plan over all points."""
    name = merit(firsts[0][0].data)
    values = [float(point.data[name].values[i]) for point, i in firsts]
    order = int(np.argmax(values) if rises(firsts[0][0].data, name) else np.argmin(values))
    point, best = firsts[order]
    unfit = points - len(firsts)
    none = f" At {unfit:,} points no plan fits." if unfit else ""
    told = f"{per_run(point.data, name, values[order])} at {point.words}"
    return f"Best of {points:,} points: {told}, with {plan_said(point.data, best)}.{none}"


def counts_sentence(data: xr.Dataset) -> str:
    """Return how many plans were tried, are legal and fit, and which rules refused the others."""
    flags = str(data.reason.attrs["flag_meanings"]).split()
    counts = dict(zip(flags, np.bincount(data.reason.values, minlength=len(flags)), strict=True))
    fits, over, *_ = flags  # precede the names of the rules
    tried, fit, large = data.sizes[ALONG], int(counts[fits]), int(counts[over])
    said = f"{tried:,} plans tried: {fit + large:,} legal"
    said += f", {large:,} of them too large" if large else ", all of which fit" if fit else ""
    refused = [
        f'"{data[name].attrs.get("long_name", name) if name in data else name}" fails ({count:,})'
        for name, count in counts.items()
        if count and name not in (fits, over)
    ]
    return (
        f"{said}; {tried - fit - large:,} refused: {listing(refused)}." if refused else f"{said}."
    )
