"""Rooflines in words: what binds an operator, by how much, and from which size on."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
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
from jaxroof.units import size
from jaxroof.views.text.compare import times
from jaxroof.views.text.layout import PlainTable, evenly
from jaxroof.views.text.said import REPORT, Page, Said, title, usual

BINDS = {"compute": "arithmetic", "memory": "memory", "link": "links"}
FEW = 4  # most cases for which a table has the additional columns
TIE = 1e-9  # times with a smaller relative difference count as equal
SHARE = "share of peak"
HOW_TO_KEEP = "Draw it with -o roofline.png (.svg, .pdf); -o FILE.nc, .csv or .json keeps it."


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what limits an operator at a shape, or along a sweep."""
    sweep = roofs.sweep_dimension(data) is not None
    yield from title(f"{data.attrs['title']}{_on(data)}")
    if not roofs.is_roofline(data):
        yield from usual(str(data.attrs["about"]))
        yield from usual(plain_sweep_table(data) if sweep else result_table(data))
        return
    yield from usual(*(sweep_sentences(data) if sweep else shape_sentences(data)))
    yield from usual(sweep_table(data, page.most) if sweep else result_table(data))
    if sweep and not page.kept:
        yield from usual(HOW_TO_KEEP)


def _on(data: xr.Dataset) -> str:
    names = [name for name, _ in roofs.cases(data) if name]
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
    parts = listing([f"{_time(time)} of {TIMES[name][1]}" for time, name in spent])
    if len(spent) == 1:
        return f"{TIMES[bound][2]}: there is {parts} and nothing else. {critical_words(point)}"
    ratio = times(spent[0][0] / spent[1][0])
    said = f"{TIMES[bound][2]}: {TIMES[spent[0][1]][1]} takes {ratio} as long as "
    said += f"{TIMES[spent[1][1]][1]}{_reach(point)}. {parts}: "
    said += f"{_time(float(point.lower))} if they overlap, {_time(float(point.upper))} if not. "
    return f"{said}{critical_words(point)}".strip()


def _bound(point: xr.Dataset) -> str:
    return TIMES[binding(point)][2] if float(point.lower) > 0 else "nothing to do"


def _reach(point: xr.Dataset) -> str:
    share = _share(point)
    if share == 0:
        return ""
    words = "the whole peak" if share >= 1 else f"{_percent(share)} of the peak"
    return f", so {words} is within reach"


def result_table(data: xr.Dataset) -> PlainTable:
    """Return every result of one shape: a row per result, a column per case, and the meaning."""
    columns, table = cases(data), PlainTable()
    table.add_column("result", no_wrap=True)
    for name, _ in columns:
        head = "value" if len(columns) == 1 else _stacked(name)
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("meaning", optional=1)
    if not is_roofline(data):
        for row in _rows(columns, [str(name) for name in data.data_vars]):
            table.add_row(*row)
        return table
    idle = {"message", "link_time"} if not np.any(data.link_time.values) else set()
    names = [str(n) for n in data.data_vars if n not in {*VERDICTS, *idle}]
    bound = [_bound(point) for _, point in columns]
    table.add_row("verdict", *bound, "What takes the longest")
    for row in _rows(columns, names):
        table.add_row(*row)
        if row[0] == "upper":
            shares = [_percent(_share(point)) for _, point in columns]
            table.add_row(SHARE, *shares, "Of the arithmetic peak, where everything overlaps")
    return table


def _rows(columns: Sequence[tuple[str, xr.Dataset]], names: Sequence[str]) -> Iterator[list[str]]:
    for name in names:
        about = columns[0][1][name].attrs
        cells = [_cell(point, name) for _, point in columns]
        yield [name, *cells, str(about.get("long_name", ""))]


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
        return f"all alike ({_time(least)} at least)"
    ratio = times(times_of[worst] / least)
    return f"{fastest_names(point)} ({_time(least)} at least), {ratio} as fast as {worst}"


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
    dim, every = sweep_dimension(data), cases(data)
    assert dim is not None
    single, few = len(every) == 1, len(every) <= FEW
    title = "Share of the peak, least time" + (", what it is bound by" if few else "")
    table = PlainTable(None if single else title)
    table.add_column(letter(data, dim), justify="right", no_wrap=True)
    for head in ("intensity", "% of peak", "lower", "upper") if single else ():
        table.add_column(head, justify="right", no_wrap=True)
    for head in ("bound by",) if single else [name for name, _ in every]:
        table.add_column(head, no_wrap=True)
    before = None
    for i in milestones(data[dim].values, most):
        points = [part.isel({dim: i}) for _, part in every]
        bound = binding(points[0])
        if single and before not in (None, bound):
            table.add_section()
        before = bound
        cells = _single_cells(points[0]) if single else [_case_cell(point, few) for point in points]
        table.add_row(at(data[dim].isel({dim: i})), *cells)
    return table


def _single_cells(point: xr.Dataset) -> list[str]:
    intensity, share = f"{float(point.intensity):.4g}", f"{100 * _share(point):.3g}"
    bounds = [_time(float(point[name])) for name in ("lower", "upper")]
    return [intensity, share, *bounds, BINDS[binding(point)]]


def _case_cell(point: xr.Dataset, few: bool) -> str:
    share, lower = f"{100 * _share(point):.3g}", _time(float(point.lower))
    bound = f"  {BINDS[binding(point)]}" if few else ""
    return f"{share:>5} %  {lower:>8}{bound}"


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
        said.append(f"{head}{turn_words(part)}. {_detail(part, dim)}".strip())
    if len(every) > 1:
        ends = [data.isel({dim: i}) for i in (0, -1)]
        words = [f"at {letter(data, dim)} = {at(end[dim])}: {fastest_words(end)}" for end in ends]
        said.append(f"Fastest {'; '.join(words)}.")
    return said


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
    dim = sweep_dimension(data)
    assert dim is not None
    table, rows = PlainTable(), milestones(data[dim].values, most)
    table.add_column("result", no_wrap=True)
    every = cases(data)
    for name, part in every:
        for i, optional in zip(rows, evenly(len(rows)), strict=True):
            head = f"{letter(data, dim)} = {at(part[dim].isel({dim: i}))}"
            whole = head if len(every) == 1 else f"{_stacked(name)}\n{head}"
            table.add_numbers(whole, optional=optional)
    for result in data.data_vars:
        cells: list[Any] = [
            amount(part[result].isel({dim: i} if dim in part[result].dims else {}))
            for _, part in every
            for i in rows
        ]
        table.add_row(str(result), *cells)
    return table


def _stacked(name: str) -> str:
    return name.replace(" ", "\n", 1)


def _time(value: float) -> str:
    return size(value, "s")


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
