"""Sentences about a search: the plans, those that fit, what binds, and close alternatives."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    headlines,
    need_of,
    objective_of,
    parts_of,
    rises,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text.interval import interval_words
from jaxroof.views.text.plan import placed_words, placement_fields, plan_fields, plan_words
from jaxroof.views.text.scaling_limits import limits_sentences
from jaxroof.views.text.tables import amount, tick

OF, LEAST = "step_time", 0.005  # parts of it with smaller shares are not worth words
TOO_LARGE, NO_LEGAL_PLAN = 1, 2  # values of the flag `reason`


def counts_sentence(
    data: xr.Dataset, limit: float, refusals: Mapping[str, str], where: Sequence[str]
) -> str:
    """Return how many plans there were, how many fit, and the reasons against the rest."""
    legal, fits = data.sizes["plan"], int(data.feasible.sum())
    refused = json.loads(data.attrs["refused"])
    asked = f" with {' and '.join(where)}" if where else ""
    said = [
        f"{refusals[name]} ({count:,})"
        for name, count in refused.items()
        if count and name in refusals
    ]
    rules = f" The rules of the split dropped {listing(said)}." if said else ""
    if refused.get("where"):
        rules += f" Your constraints dropped {refused['where']:,} plans."
    over = legal - fits
    need, unit = data[need_of(data)].values, unit_of(data, need_of(data))
    kept = f"{_plans(legal)}{asked}; {fits:,} fit in {size(limit, unit)}"
    if over:
        least, most = size(need.min(), unit), size(need.max(), unit)
        kept += f", {over:,} need more (plans need {least} to {most})"
    return f"{kept}.{rules}"


def best_sentence(best: xr.Dataset, fits: int | None, limit: float) -> str:
    """Return the best of the plans that fit, its speed and memory; ``fits`` is None if unknown."""
    count = "" if fits is None else f"{fits:,} "
    of = ", the only plan that fits" if fits == 1 else f" of the {count}plans that fit"
    need = float(best[need_of(best)])
    return (
        f"Best{of}: {plan_words(best)}, {seconds(float(best.step_time))} a step, "
        f"{float(best.throughput):.5g} samples/s, {size(need, unit_of(best, need_of(best)))} of "
        f"{size(limit, unit_of(best, need_of(best)))} ({percent(need / limit)})."
    )


def parts_sentence(best: xr.Dataset) -> str:
    """Return where the time of a step goes."""
    shares = {name: float(best[name]) / float(best.step_time) for name in parts_of(best, OF)}
    order = sorted(shares, key=lambda name: -shares[name])
    said = [f"{words_of(best, n)} {percent(shares[n])}" for n in order if shares[n] >= LEAST]
    return f"Where the step's time goes: {listing(said)}."


def close_sentence(data: xr.Dataset, order: np.ndarray, objective: str, within: float) -> str:
    """Return how many plans are close to the best, and which of them needs the least memory."""
    value, unit = data[objective].values[order], unit_of(data, need_of(data))
    close = order[np.abs(value - value[0]) <= within * np.abs(value[0])]
    share = f"{100 * within:.3g} %"
    if len(close) == 1:
        return f"No other plan that fits is within {share}."
    need = data[need_of(data)].values[close]
    lean = data.isel(plan=int(close[np.argmin(need)]))
    many = len(close) - 1
    first = "One other plan is" if many == 1 else f"{many:,} other plans are"
    if float(lean[objective]) == value[0]:
        return f"{first} within {share}; none of them needs less memory."
    gap = _behind(float(lean[objective]), float(value[0]))
    worse = f"is {gap} slower" if unit_of(data, objective) == "s" else f"is {gap} behind"
    lead = f"{first} within {share}: " if many == 1 else f"{first} within {share}; the leanest, "
    said = f"{placed_words(lean)}{',' * (many > 1)}"
    return f"{lead}{said} uses {size(float(need.min()), unit)} and {worse}."


def nothing_fits(data: xr.Dataset, limit: float) -> str:
    """Return which memory term is too large, by how much, and the least that any plan needs."""
    if data.sizes["plan"] == 0:
        return "no legal plan."
    need = need_of(data)
    unit = unit_of(data, need)
    lean = data.isel(plan=int(np.argmin(data[need].values)))
    parts = {words_of(data, name): float(lean[name]) for name in parts_of(data, need)}
    over = float(lean[need]) - limit
    said = (
        f"nothing fits: the leanest plan ({plan_words(lean)}) needs {size(limit + over, unit)} "
        f"of the {size(limit, unit)} there is, {size(over, unit)} too much."
    )
    if not parts:
        return said
    order = sorted(parts.items(), key=lambda item: -item[1])
    terms = ", ".join(f"{words} {size(value, unit)}" for words, value in order)
    return f"{said} Largest term: {order[0][0]} ({terms})."


def mine_sentences(
    data: xr.Dataset, mine: int, order: np.ndarray, objective: str, limit: float
) -> str:
    """Return the rank of the user's plan, its gap to the best, and the differences."""
    row = data.isel(plan=mine)
    said = f"Yours: {placed_words(row)}, {seconds(float(row.step_time))} a step"
    if not bool(row.feasible):
        need, unit = float(row[need_of(data)]), unit_of(data, need_of(data))
        return (
            f"{said}, but it does not fit: it needs {size(need, unit)}, "
            f"{size(need - limit, unit)} more than the {size(limit, unit)} there are."
        )
    best = data.isel(plan=int(order[0]))
    place = int(np.flatnonzero(order == mine)[0]) + 1
    if place == 1:
        return f"{said}: it is the best of the {len(order):,} plans that fit."
    gap = _behind(float(row[objective]), float(best[objective]))
    worse = "slower" if objective == OF else f"behind the best in {objective.replace('_', ' ')}"
    return (
        f"{said}: place {place:,} of the {len(order):,} plans that fit, {gap} {worse}. "
        f"It has {listing(_other_fields(row, best))}, and spends {listing(_more(row, best))}."
    )


def _other_fields(row: xr.Dataset, best: xr.Dataset) -> list[str]:
    placed = placement_fields(row)
    return [
        f"{'fast ' * (name in placed)}{words_of(row, name)} {int(row.data_vars[name])} instead of "
        f"{int(best.data_vars[name])}"
        for name in plan_fields(row)
        if int(row.data_vars[name]) != int(best.data_vars[name])
    ]


def _more(row: xr.Dataset, best: xr.Dataset) -> list[str]:
    """Return the two parts of the time in which a plan spends most more than the best."""
    differences = {n: float(row[n]) - float(best[n]) for n in parts_of(row, OF)}
    worst = sorted(differences, key=lambda n: -differences[n])[:2]
    return [
        f"{seconds(differences[n])} more in {words_of(row, n)}" for n in worst if differences[n] > 0
    ]


def _behind(value: float, best: float) -> str:
    """Return the difference from the best in percent, or the value itself if the best is 0."""
    return f"{100 * abs(value / best - 1.0):.2g} %" if best else f"{abs(value):.3g}"


def _plans(count: int) -> str:
    return "1 legal plan" if count == 1 else f"{count:,} legal plans"


def sweep_sentences(data: xr.Dataset) -> list[str]:
    """Return the size of a grid, its range, and where nothing fits and why."""
    best = data.isel(rank=0) if "rank" in data.sizes else data
    points = int(np.prod(list(best.sizes.values()), initial=1))
    aim = next(iter(headlines(best)), "")
    if not objective_of(best) or not aim or "feasible" not in best:
        return [f"{_points(points)}.", *limits_sentences(best)]
    searched = "plans_legal" in best
    counted = (
        f", {int(data.attrs['combinations']):,} combinations of plan and point weighed"
        if searched
        else ""
    )
    said = [f"{_points(points)}{counted}."]
    value, feasible = xr.broadcast(best[aim], best.feasible)
    if feasible.values.any():
        said.append(_range(best, aim, value.where(feasible)))
    if not feasible.values.all():
        said.append(_unfit(best, feasible.values) if searched else _refused(best, feasible.values))
    return said


def _range(best: xr.Dataset, aim: str, value: xr.DataArray) -> str:
    """Return the best of a grid, its plan and its position, and the ratio of the worst to it."""
    more = rises(best, aim)
    values = -value.values if more else value.values
    index = map(int, np.unravel_index(np.nanargmin(values), values.shape))
    at = dict(zip(value.dims, index, strict=True))
    first, last = float(value[at]), -float(np.nanmin(-values))
    fields = plan_fields(best)
    plan = f", {plan_words(best.isel(at))}" if fields else ""
    where = ", ".join(f"{dim} {tick(best, dim, i)}" for dim, i in at.items())
    between = interval_words(best.isel(at)) if aim == "step_time" else ""
    told = f"{per_run(best, aim, first)}{between}{plan}"
    told += f" at {where}" if where else ""
    if values.size == 1:
        return f"{told[0].upper()}{told[1:]}."
    time = unit_of(best, aim) == "s"
    name = "Fastest" if time else "Most" if more else "Least"
    if np.isfinite(values).sum() == 1:
        return f"{name}: {told}; no other point is feasible."
    if time:
        far = f"the slowest feasible point takes {last / first:.3g} times as long"
    else:
        times = f"{abs(last) / first:.3g} times as much" if first else f"{abs(last):.3g}"
        far = f"the worst feasible point has {times}"
    return f"{name}: {told}; {far}."


def per_run(data: xr.Dataset, name: str, value: float) -> str:
    """Return a result with its unit; a time is given per unit of its work.

    >>> data = xr.Dataset({"step_time": ((), 2.0, {"units": "s"})}, attrs={"roles": "-"})
    >>> per_run(data, "step_time", 2.0)
    '2 s a step'
    """
    run = name.removesuffix("_time").replace("_", " ")
    said = amount(value, unit_of(data, name))
    return f"{said} a {run}" if name.endswith("_time") else said


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count:,} points"


def _unfit(best: xr.Dataset, feasible: np.ndarray) -> str:
    """Return at how many points of a search nothing fits, the least need, and what is missing."""
    need = need_of(best)
    known = [name for name in (f"{need}_least", f"{need}_missing") if name in best]
    _, reason, *amounts = xr.broadcast(best.feasible, best.reason, *(best[name] for name in known))
    least = missing = ""
    if amounts and np.isfinite(amounts[0].values[~feasible]).any():
        smallest = float(np.nanmin(amounts[0].values[~feasible]))
        least = f"; the smallest needs {_needed(best, smallest)}"
    if len(amounts) > 1:
        missing = _missing(best, amounts[1], (reason == TOO_LARGE).values & ~feasible)
    empty = int(np.sum(reason.values[~feasible] == NO_LEGAL_PLAN))
    none = f"; at {empty:,} of them no plan is legal" if empty else ""
    said = f"No plan fits at {int((~feasible).sum()):,} of {feasible.size:,} points{least}{none}."
    return f"{said}{missing}"


def _needed(data: xr.Dataset, value: float) -> str:
    """Return an amount of the need, with the counted noun if it has no unit."""
    need = need_of(data)
    unit = unit_of(data, f"{need}_least")
    return f"{amount(value, unit)} {words_of(data, need)}" if unit == "1" else amount(value, unit)


def _missing(best: xr.Dataset, missing: xr.DataArray, unfit: np.ndarray) -> str:
    """Return the missing capacity at the points where nothing fits: least and most."""
    if not unfit.any():
        return ""
    lacks = np.where(unfit, missing.values, np.nan)
    unit = unit_of(best, f"{need_of(best)}_missing")

    def said(position: int) -> str:
        index = map(int, np.unravel_index(position, lacks.shape))
        at = ", ".join(f"{d} {tick(best, d, i)}" for d, i in zip(missing.dims, index, strict=True))
        amounts = amount(float(lacks.flat[position]), unit)
        return f"{amounts} at {at}" if at else amounts

    least, most = int(np.nanargmin(lacks)), int(np.nanargmax(lacks))
    if least == most:
        return f" Missing there: {said(least)}."
    return f" Missing: {said(least)}, to {said(most)}."


def _refused(best: xr.Dataset, feasible: np.ndarray) -> str:
    """Return how many points of a table each verdict refuses."""
    verdicts = [n for n in best.data_vars if best[n].dtype == bool and n != "feasible"]
    counts = {
        best[n].attrs.get("long_name", n): int(
            np.sum(~xr.broadcast(best.feasible, best[n])[1].values)
        )
        for n in verdicts
    }
    broken = [f'"{words}" fails at {count:,}' for words, count in counts.items() if count]
    unfit = f"{int((~feasible).sum()):,} of {feasible.size:,} points"
    return f"{unfit} are not feasible: {listing(broken)}."
