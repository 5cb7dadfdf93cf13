"""Rooflines in words: what binds an operator, by how much, and from which size on."""

from collections.abc import Callable, Iterator

import numpy as np
import xarray as xr
from rich.console import JustifyMethod

from jaxroof.analyses.roofline_reading import (
    PHYSICAL,
    TIMES,
    VERDICTS,
    at,
    binding,
    cases,
    critical_sizes,
    critical_words,
    has_critical,
    is_critical,
    is_roofline,
    letter,
    milestones,
    number,
    on_links,
    sweep_dimension,
    turn_words,
)
from jaxroof.errors import listing
from jaxroof.estimators.book.common import DTYPES
from jaxroof.units import size, times
from jaxroof.views.text.layout import PlainTable, Shown, evenly
from jaxroof.views.text.said import REPORT, Page, Said, title, usual

BINDS = {"compute": "arithmetic", "memory": "memory", "link": "links"}
FEW = 4  # most cases for which a table has the additional columns
TIE = 1e-9  # times with a smaller relative difference count as equal
SHARE = "share of peak"
READ = {  # of the results of a roofline
    "verdict": "What takes the longest",
    SHARE: "Of the arithmetic peak, where everything overlaps",
}
HOW_TO_KEEP = "Draw it with -o roofline.png (.svg, .pdf); -o FILE.nc, .csv or .json keeps it."


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what limits an operator at a shape, or along a sweep."""
    sweep = sweep_dimension(data) is not None
    yield from title(f"{data.attrs['title']}{_on(data)}")
    if not is_roofline(data):
        yield from usual(str(data.attrs["about"]))
        yield from usual(plain_sweep_table(data) if sweep else result_table(data))
        return
    yield from usual(*(sweep_sentences(data) if sweep else shape_sentences(data)))
    yield from usual(sweep_table(data, page.most) if sweep else result_table(data))
    if sweep and not page.kept:
        yield from usual(HOW_TO_KEEP)


def _on(data: xr.Dataset) -> str:
    names = [name for name, _ in cases(data) if name]
    if len(names) == 1:
        return f" {'in' if names[0].partition(',')[0] in DTYPES else 'on'} {names[0]}"
    return f", {len(names)} cases" if names else ""


# ---- One shape ----------------------------------------------------------------------------------


def verdict(point: xr.Dataset) -> str:
    """Return what binds at one shape, by how much, and from which size on arithmetic does."""
    spent = [(float(point[time]), name) for name, (time, _, _) in TIMES.items()]
    spent = sorted((pair for pair in spent if pair[0] > 0), key=lambda pair: -pair[0])
    if not spent:
        return "Nothing to do: there is neither arithmetic nor traffic."
    bound = binding(point)
    parts = listing([f"{size(time, 's')} of {TIMES[name][1]}" for time, name in spent])
    if len(spent) == 1:
        return f"{TIMES[bound][2]}: there is {parts} and nothing else. {critical_words(point)}"
    ratio = times(spent[0][0] / spent[1][0])
    said = f"{TIMES[bound][2]}: {TIMES[spent[0][1]][1]} takes {ratio} as long as "
    said += f"{TIMES[spent[1][1]][1]}{_reach(point)}. {parts}: "
    said += (
        f"{size(float(point.lower), 's')} if they overlap, {size(float(point.upper), 's')} if not. "
    )
    return f"{said}{critical_words(point)}".strip()


def _bound(point: xr.Dataset) -> str:
    return TIMES[binding(point)][2] if float(point.lower) > 0 else "nothing to do"


def _reach(point: xr.Dataset) -> str:
    share = _share(point)
    if share == 0:
        return ""
    words = "the whole peak" if share >= 1 else f"{_percent(point)} of the peak"
    return f", so {words} is within reach"


def result_table(data: xr.Dataset) -> PlainTable:
    """Return every result of one shape: a row per result, a column per case, and the meaning."""
    every, read = cases(data), is_roofline(data)
    idle = {*VERDICTS} if read else set()
    idle |= {"message", "link_time"} if read and not np.any(data.link_time.values) else set()
    names = [str(name) for name in data.data_vars if name not in idle]
    meaning = {name: str(every[0][1][name].attrs.get("long_name", "")) for name in names}
    if read:
        meaning = {**READ, **meaning}

    def case(name: str, point: xr.Dataset) -> Shown:
        def cell(result: str) -> str:
            if result in READ and read:
                return _percent(point) if result == SHARE else _bound(point)
            return _cell(point, result)

        return Shown("value" if len(every) == 1 else name.replace(" ", "\n", 1), cell)

    columns = [
        Shown("result", str, 0, "left"),
        *(case(*one) for one in every),
        Shown("meaning", lambda result: meaning[result], 1, "left", wraps=True),
    ]
    return PlainTable().add_rows(columns, meaning)


def _cell(point: xr.Dataset, name: str) -> str:
    dashed = is_roofline(point) and name in ("critical", "critical_small")
    return "-" if dashed and not has_critical(point) else amount(point[name])


def amount(value: xr.DataArray) -> str:
    """Return one result as text, a flag in words."""
    if value.dtype.kind == "b":
        return "yes" if bool(value) else "no"
    found, unit = float(value), str(value.attrs.get("units", "1"))
    if not np.isfinite(found):
        return "-"
    return size(found, unit) if unit in PHYSICAL else f"{number(found)} {unit}".removesuffix(" 1")


def fastest_names(point: xr.Dataset) -> str:
    """Return which of several cases take the least time at one shape."""
    least = float(point.lower.min())
    found = [name for name, one in cases(point) if float(one.lower) <= least * (1 + TIE)]
    return listing(found)


def fastest_words(point: xr.Dataset) -> str:
    """Return which of several cases take the least time at one shape, and by how much."""
    times_of = {name: float(one.lower) for name, one in cases(point)}
    worst = max(times_of, key=lambda name: times_of[name])
    least = min(times_of.values())
    if times_of[worst] <= least * (1 + TIE):
        return f"all alike ({size(least, 's')} at least)"
    ratio = times(times_of[worst] / least)
    return f"{fastest_names(point)} ({size(least, 's')} at least), {ratio} as fast as {worst}"


def shape_sentences(data: xr.Dataset) -> list[str]:
    """Return a verdict for one case; for several, a short one for each and the fastest."""
    every = cases(data)
    if len(every) == 1:
        return [_capital(verdict(every[0][1]))]
    said = []
    for name, point in every:
        words = _bound(point) + _reach(point).replace(", so", ",").replace(" is ", " ")
        about = critical_words(point) if float(point.lower) > 0 else ""
        said.append(f"{name}: {words}. {about}".strip())
    return [*said, f"Fastest: {fastest_words(data)}."]


# ---- A sweep ------------------------------------------------------------------------------------


def sweep_table(data: xr.Dataset, most: int = 12) -> PlainTable:
    """Return a few sizes of a sweep: the share of the peak reached, the bounds, what binds.

    Several cases have one column each for the share of the peak and the lower bound and, if there
    are few cases, for what binds.
    """
    dim, every = str(sweep_dimension(data)), cases(data)
    single, few = len(every) == 1, len(every) <= FEW

    def bound(point: xr.Dataset) -> str:
        return BINDS[binding(point)]

    def case(name: str, part: xr.Dataset) -> Shown:
        def cell(i: int) -> str:
            point = part.isel({dim: i})
            said = f"{100 * _share(point):>5.3g} %  {size(float(point.lower), 's'):>8}"
            return f"{said}  {bound(point)}" if few else said

        return Shown(name, cell, 0, "left")

    def alone(head: str, cell: Callable[[xr.Dataset], str], side: JustifyMethod = "right") -> Shown:
        return Shown(head, lambda i: cell(every[0][1].isel({dim: i})), 0, side)

    columns = [
        alone("intensity", lambda point: f"{float(point.intensity):.4g}"),
        alone("% of peak", lambda point: f"{100 * _share(point):.3g}"),
        alone("lower", lambda point: size(float(point.lower), "s")),
        alone("upper", lambda point: size(float(point.upper), "s")),
        alone("bound by", bound, "left"),
    ]
    places = milestones(data[dim].values, most)
    first = Shown(letter(data, dim), lambda i: at(data[dim].isel({dim: i})))
    title = "Share of the peak, least time" + (", what it is bound by" if few else "")
    columns = [first, *(columns if single else (case(*one) for one in every))]
    return PlainTable(None if single else title).add_rows(columns, places)


def _share(point: xr.Dataset) -> float:
    least = float(point.lower)
    return float(point.math_time) / least if least > 0 else 0.0


def sweep_sentences(data: xr.Dataset) -> list[str]:
    """Return where every case changes from one bound to another, and which case is the fastest."""
    dim, every = sweep_dimension(data), cases(data)
    assert dim is not None
    said = []
    for name, part in every:
        head = f"{name}: " if name else ""
        if not np.any(part.lower.values > 0):
            said.append(f"{head}nothing to do.")
            continue
        turns = turn_words(part) if name else _capital(turn_words(part))
        said.append(f"{head}{turns}. {_detail(part, dim)}".strip())
    if len(every) > 1:
        ends = [data.isel({dim: i}) for i in (0, -1)]
        words = [f"at {letter(data, dim)} = {at(end[dim])}: {fastest_words(end)}" for end in ends]
        said.append(f"Fastest {'; '.join(words)}.")
    return said


def grid_sentence(data: xr.Dataset) -> str:
    """Return at how many points of a grid each limit binds."""
    spent = xr.broadcast(*(data[time] for time, _, _ in TIMES.values()))
    most = np.argmax([one.values.ravel() for one in spent], axis=0)
    counts = zip(np.bincount(most, minlength=len(TIMES)), TIMES.values(), strict=True)
    said = [f"{verdict} at {count:,}" for count, (_, _, verdict) in counts if count]
    return _capital(f"{listing(said)} of {most.size:,} points.")


def _detail(part: xr.Dataset, dim: str) -> str:
    said, name, links = [], letter(part, dim), on_links(part)
    balance = np.unique((part.link_balance if links else part.balance).values)
    if len(balance) == 1:
        said.append(f"{'link balance' if links else 'balance'} {number(balance[0])} FLOP/B")
    if is_critical(part):
        said.append(f"critical {name} {critical_sizes(part.isel({dim: -1}), name)}")
    elif name == part.attrs.get("critical_letter") and not np.any(part.critical_exists.values):
        said.append(f"no {name} makes it compute bound")
    return f"{_capital('; '.join(said))}." if said else ""


def plain_sweep_table(data: xr.Dataset, most: int = 8) -> PlainTable:
    """Return every result at a few points of a sweep: one row per result, one column per point."""
    dim, every = str(sweep_dimension(data)), cases(data)

    def point(name: str, part: xr.Dataset, i: int, soon: int) -> Shown:
        def cell(result: str) -> str:
            return amount(part[result].isel({dim: i} if dim in part[result].dims else {}))

        head = f"{letter(data, dim)} = {at(part[dim].isel({dim: i}))}"
        return Shown(head if len(every) == 1 else f"{name}\n{head}", cell, soon)

    places = milestones(data[dim].values, most)
    order = [*zip(places, evenly(len(places)), strict=True)]
    points = [point(*one, *place) for one in every for place in order]
    return PlainTable().add_rows([Shown("result", str, 0, "left"), *points], data.data_vars)


def _percent(point: xr.Dataset) -> str:
    return f"{100 * _share(point):.3g} %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
