"""Every plan of a study: the best in a table, the gap to the next, and what was refused."""

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    filled_paths,
    headlines,
    need_of,
    objective_of,
    rises,
    roles,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import amount, percent, show
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.tables import per_run, thinned

ALONG = "configuration"  # the dimension of plans
TIE = 1e-9  # results with a smaller relative difference count as equal
MOST_POINTS = 30  # in a table


class Point(NamedTuple):
    """One point of a study's axes: what it is in words, and the plans tried there."""

    words: str
    data: xr.Dataset


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the best plans of a study, and what was refused."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(*plan_sentences(data))
    yield from quiet(plan_table(data, page.most))


# ---- Points and plans ---------------------------------------------------------------------------


def points(data: xr.Dataset) -> list[Point]:
    """Return the plans of each point of the axes, in the order in which they come."""
    names = _moved(data)
    if not names:
        return [Point("", data)]
    keys = list(zip(*(data[name].values.tolist() for name in names), strict=True))
    return [
        Point(
            ", ".join(_axis_words(data, n, v) for n, v in zip(names, key, strict=True)),
            data.isel({ALONG: [i for i, other in enumerate(keys) if other == key]}),
        )
        for key in dict.fromkeys(keys)
    ]


def _moved(data: xr.Dataset) -> list[str]:
    flags = {str(name) for name, one in data.data_vars.items() if "flag_meanings" in one.attrs}
    labels = [name for name in map(str, data.data_vars) if name in flags - {"reason"}]
    paths = {str(name): str(c.attrs.get("path", "plan.")) for name, c in data.coords.items()}
    known = tuple(f"{name}." for name in (*labels, "plan"))
    return [*labels, *(name for name, path in paths.items() if not path.startswith(known))]


def _value(data: xr.Dataset, name: str, value: Any) -> str:
    flags = str(data[name].attrs.get("flag_meanings", "")).split()
    if flags or isinstance(value, str):
        return flags[int(value)] if flags else str(value)
    unit = str(data[name].attrs.get("units", "1"))
    whole = float(value).is_integer() and unit in ("1", "sample")
    return f"{value:,.0f}" if whole else show(value, unit)


def _axis_words(data: xr.Dataset, name: str, value: Any) -> str:
    said = _value(data, name, value)
    if name == "gpus":
        return f"{said} accelerator{'' if value == 1 else 's'}"
    named = "flag_meanings" in data[name].attrs or isinstance(value, str)
    return said if named else f"{name.replace('global_', '').replace('_', ' ')} {said}"


def fitting(data: xr.Dataset) -> np.ndarray:
    """Return the positions of the plans that are legal and fit, the best first."""
    name = merit(data)
    value = data[name].values * (-1.0 if rises(data, name) else 1.0)
    held = np.flatnonzero(data.feasible.values.astype(bool) & np.isfinite(value))
    return held[np.argsort(value[held], kind="stable")]


def merit(data: xr.Dataset) -> str:
    """Return the result that plans are ordered by: a headline of which more is better, if any."""
    return next((n for n in headlines(data) if rises(data, n)), objective_of(data))


def capacities(data: xr.Dataset) -> np.ndarray | None:
    """Return what each plan may need, None where the data do not tell."""
    given = json.loads(data.attrs.get("inputs", "{}"))
    limit = np.ones(data.sizes[ALONG])
    paths = filled_paths(data)
    for number, path in enumerate(paths):
        name = path.rpartition(".")[2]
        known = name in data.variables and data[name].dtype.kind in "if"
        value = data[name].values if known else given.get(path, 1.0 if number else None)
        if value is None:
            return None
        limit = limit * np.asarray(value, np.float64)
    return limit if paths else None


def plan_said(data: xr.Dataset, position: int) -> str:
    """Return the split of a plan by the names of its fields."""
    fields = [name for name in roles(data)["split"] if name in data.variables]
    return " ".join(f"{words_of(data, n)} {int(data[n].values[position])}" for n in fields)


# ---- The table ----------------------------------------------------------------------------------


def plan_table(data: xr.Dataset, most: int = 10) -> PlainTable:
    """Return the best plans of a study or, if its axes vary anything, the best of each point."""
    axes, need, known, limit = _moved(data), need_of(data), roles(data), capacities(data)
    fields = [name for name in (*known["split"], *known["placement"]) if name in data.variables]
    whole = data.assign(limit=(ALONG, np.full(data.sizes[ALONG], np.inf)))
    whole = whole if limit is None else data.assign(limit=(ALONG, limit))

    def full(row: xr.Dataset) -> str:
        said = amount(float(row[need]), unit_of(data, need))
        return said if limit is None else f"{said} {percent(float(row[need] / row.limit)):>5}"

    def axis(name: str) -> Shown:
        head = name.replace("global_", "").replace("_", " ")
        return Shown(head, lambda row: _value(row, name, row[name].values.item()))

    def field(name: str) -> Shown:
        head = words_of(data, name).replace(" ", "\n").replace("microbatch", "micro-\nbatch")
        return Shown(head, lambda row: f"{int(row[name])}")

    def result(place: int, name: str) -> Shown:
        head, unit = words_of(data, name).replace(" ", "\n"), unit_of(data, name)
        return Shown(head, lambda row: amount(float(row[name]), unit), 2 * place)

    found = [point.data for point in points(whole)]
    if axes:
        found = [found[i] for i in thinned(len(found), MOST_POINTS)]
        firsts = [part.isel({ALONG: (*fitting(part), 0)[0]}) for part in found]
    else:
        firsts = [whole.isel({ALONG: i}) for i in fitting(data)[:most]]
        found = [whole] * len(firsts)
    rows = [
        one.assign(fit=len(fitting(part)), place=place)
        for place, (one, part) in enumerate(zip(firsts, found, strict=True), 1)
    ]
    count = "fit" if axes else "place"
    columns = [
        *map(axis, axes),
        Shown("fit" if axes else "#", lambda row: f"{int(row[count]):,}"),
        *map(field, fields),
        *(result(*one) for one in enumerate(_results(data))),
        *([Shown(words_of(data, need), full, 1)] if need and bool(data[need].max() > 0) else []),
    ]

    def nothing(row: xr.Dataset) -> list[str]:
        return [] if int(row.fit) else [*(c.cell(row) for c in columns[: len(axes)]), "none"]

    return PlainTable().add_rows(columns, rows, nothing)


def _results(data: xr.Dataset) -> list[str]:
    return list(dict.fromkeys([objective_of(data), *headlines(data)]))


# ---- Sentences ----------------------------------------------------------------------------------


def plan_sentences(data: xr.Dataset) -> list[str]:
    """Return the best plan, its lead, and how many plans were legal, too large or refused."""
    found = points(data)
    return [_one(data) if len(found) == 1 else _many(found), counts_sentence(data)]


def _one(data: xr.Dataset) -> str:
    """Return the best plan, and its lead over the next."""
    order = fitting(data)
    if not len(order):
        return "No plan fits."
    best = order[0]
    told = [per_run(data, name, float(data[name].values[best])) for name in _results(data)]
    said = f"Best: {plan_said(data, best)}, {', '.join(told)}"
    if len(order) == 1:
        return f"{said}; no other plan fits."
    name = merit(data)
    first, after = (float(data[name].values[i]) for i in order[:2])
    share = (first / after if rises(data, name) else after / first) - 1.0
    timed = unit_of(data, objective_of(data)) == "s"
    longer = f"takes {100 * share:.3g} % longer" if timed else f"is {100 * share:.3g} % behind"
    if share <= TIE:
        longer = "takes as long" if timed else "is as good"
    return f"{said}; the next, {plan_said(data, order[1])}, {longer}."


def _many(found: Sequence[Point]) -> str:
    """Return the best plan over all points, and at how many none fits."""
    firsts = [(p, fitting(p.data)[0]) for p in found if len(fitting(p.data))]
    if not firsts:
        return f"No plan fits at any of {len(found):,} points."
    name = merit(firsts[0][0].data)
    values = [float(point.data[name].values[i]) for point, i in firsts]
    order = int(np.argmax(values) if rises(firsts[0][0].data, name) else np.argmin(values))
    point, best = firsts[order]
    unfit = len(found) - len(firsts)
    none = f" At {unfit:,} points no plan fits." if unfit else ""
    told = f"{per_run(point.data, name, values[order])} at {point.words}"
    return f"Best of {len(found):,} points: {told}, with {plan_said(point.data, best)}.{none}"


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
    rest = f"; {tried - fit - large:,} refused: {listing(refused)}" if refused else ""
    return f"{said}{rest}."
