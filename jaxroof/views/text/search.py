"""Sentences about a search: the plans, those that fit, what binds, and close alternatives."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    about,
    headlines,
    need_of,
    objective_of,
    parts_of,
    rises,
    roles,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import percent, size
from jaxroof.views.text.interval import interval_words
from jaxroof.views.text.plan import placed_words, placement_fields, plan_fields, plan_words
from jaxroof.views.text.scaling_limits import limits_sentences
from jaxroof.views.text.tables import amount, tick

OF, LEAST = "step_time", 0.005  # parts of it with smaller shares are not worth words
TOO_LARGE, NO_LEGAL_PLAN = 1, 2  # values of the flag `reason`


def counts_sentence(
    data: xr.Dataset,
    needs: np.ndarray,
    limit: float,
    refused: Mapping[str, int],
    ruled_out: int,
    where: Sequence[str],
) -> str:
    """Return how many plans there were, how many fit, and the reasons against the rest.

    Arguments: what each legal plan needs, what is refused in words, and what constraints rule out.
    """
    legal, fits = len(needs), int((needs <= limit).sum())
    asked = f" with {' and '.join(where)}" if where else ""
    said = [f"{words} ({count:,})" for words, count in refused.items() if count]
    rules = f" The rules of the split dropped {listing(said)}." if said else ""
    if ruled_out:
        rules += f" Your constraints dropped {ruled_out:,} plans."
    if not need_of(data):
        return f"{_plans(legal)}{asked}.{rules}"
    over, unit = legal - fits, unit_of(data, need_of(data))
    kept = f"{_plans(legal)}{asked}; {fits:,} fit in {size(limit, unit)}"
    if over:
        least, most = size(needs.min(), unit), size(needs.max(), unit)
        kept += f", {over:,} need more (plans need {least} to {most})"
    return f"{kept}.{rules}"


def best_sentence(best: xr.Dataset, fits: int | None, limit: float) -> str:
    """Return the best of the plans that fit, its results and need; ``fits`` is None if unknown."""
    count = "" if fits is None else f"{fits:,} "
    of = ", the only plan that fits" if fits == 1 else f" of the {count}plans that fit"
    said = [plan_words(best), *(amounts_of(best, name) for name in merits(best))]
    if need := need_of(best):
        value, unit = float(best[need]), unit_of(best, need)
        said.append(f"{size(value, unit)} of {size(limit, unit)} ({percent(value / limit)})")
    return f"Best{of}: {', '.join(said)}."


def merits(data: xr.Dataset) -> list[str]:
    """Return the results that say how good a plan is: the time and throughput of a step, or others.

    Others are the objective of the estimator and those that are printed first.
    """
    step = [name for name in (OF, "throughput") if name in data]
    return step if len(step) > 1 else headlines(data)


def amounts_of(row: xr.Dataset, name: str) -> str:
    """Return a result of a plan with its unit, and of what it is where the unit does not say it."""
    if name == "throughput":
        return f"{float(row[name]):.5g} samples/s"
    if name.endswith("_time"):
        return per_run(row, name, float(row[name]))
    return f"{words_of(row, name)} {amount(float(row[name]), unit_of(row, name))}"


def aim_of(data: xr.Dataset) -> str:
    """Return the result that the estimator optimises."""
    return str(roles(data)["objective"])


def parts_sentence(best: xr.Dataset) -> str:
    """Return where the time of a step goes, or what else is optimised; empty without parts."""
    aim = aim_of(best)
    shares = {name: float(best[name]) / float(best[aim]) for name in parts_of(best, aim)}
    order = sorted(shares, key=lambda name: -shares[name])
    said = [f"{words_of(best, n)} {percent(shares[n])}" for n in order if shares[n] >= LEAST]
    what = "step's time" if aim == OF else words_of(best, aim)
    return f"Where the {what} goes: {listing(said)}." if said else ""


def close_sentence(
    many: int, lean: xr.Dataset, best: xr.Dataset, objective: str, within: float
) -> str:
    """Return how many plans are close to the best, and which of them needs the least memory.

    ``lean`` is the leanest of those within a share of the best, and itself.
    """
    share = f"{100 * within:.3g} %"
    if many == 0:
        return f"No other plan that fits is within {share}."
    first = "One other plan is" if many == 1 else f"{many:,} other plans are"
    if not (need := need_of(lean)):
        return f"{first} within {share}."
    unit = unit_of(lean, need)
    if float(lean[objective]) == float(best[objective]):
        less = "memory" if need == "memory" else words_of(lean, need)
        return f"{first} within {share}; none of them needs less {less}."
    gap = _behind(float(lean[objective]), float(best[objective]))
    worse = f"is {gap} slower" if unit_of(lean, objective) == "s" else f"is {gap} behind"
    lead = f"{first} within {share}: " if many == 1 else f"{first} within {share}; the leanest, "
    said = f"{placed_words(lean)}{',' * (many > 1)}"
    return f"{lead}{said} uses {size(float(lean[need]), unit)} and {worse}."


def nothing_fits(lean: xr.Dataset, limit: float) -> str:
    """Return which part of the need is too large, by how much, and the least that a plan needs."""
    need = need_of(lean)
    unit = unit_of(lean, need)
    parts = {words_of(lean, name): float(lean[name]) for name in parts_of(lean, need)}
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


def beyond_sentence(lean: xr.Dataset, beyond: Mapping[str, tuple[int, float]]) -> str:
    """Return which of several limits excludes most plans, and how much the nearest misses it by."""
    name = max(beyond, key=lambda one: beyond[one][0])
    count, missing = beyond[name]
    by = amount(missing, unit_of(lean, name))
    return (
        f"nothing is within every limit: {words_of(lean, name)} excludes {_plans(count)}; "
        f"the nearest plan misses it by {by}."
    )


def mine_sentences(
    row: xr.Dataset, best: xr.Dataset | None, place: int, fits: int, objective: str, limit: float
) -> str:
    """Return the rank of the user's plan, its gap to the best, and the differences.

    ``place`` is that of the plan among the ``fits`` plans that fit.
    """
    aim = aim_of(row)
    said = f"Yours: {placed_words(row)}, {amounts_of(row, aim)}"
    if best is None or not bool(row.feasible):
        need, unit = float(row[need_of(row)]), unit_of(row, need_of(row))
        return (
            f"{said}, but it does not fit: it needs {size(need, unit)}, "
            f"{size(need - limit, unit)} more than the {size(limit, unit)} there are."
        )
    if place == 1:
        return f"{said}: it is the best of the {fits:,} plans that fit."
    gap = _behind(float(row[objective]), float(best[objective]))
    slower = objective == aim and unit_of(row, aim) == "s"
    worse = "slower" if slower else f"behind the best in {objective.replace('_', ' ')}"
    found = f"{said}: place {place:,} of the {fits:,} plans that fit, {gap} {worse}."
    more = [f"spends {listing(spent)}"] if (spent := _more(row, best, aim)) else []
    differs = [f"has {listing(other)}"] if (other := _other_fields(row, best)) else []
    return f"{found} It {', and '.join([*differs, *more])}." if differs or more else found


def _other_fields(row: xr.Dataset, best: xr.Dataset) -> list[str]:
    placed = placement_fields(row)
    return [
        f"{'fast ' * (name in placed)}{words_of(row, name)} {int(row.data_vars[name])} instead of "
        f"{int(best.data_vars[name])}"
        for name in plan_fields(row)
        if int(row.data_vars[name]) != int(best.data_vars[name])
    ]


def _more(row: xr.Dataset, best: xr.Dataset, aim: str) -> list[str]:
    """Return the two parts of what is optimised in which a plan spends most more than the best."""
    differences = {n: float(row[n]) - float(best[n]) for n in parts_of(row, aim)}
    worst = sorted(differences, key=lambda n: -differences[n])[:2]
    return [
        f"{amount(differences[n], unit_of(row, n))} more in {words_of(row, n)}"
        for n in worst
        if differences[n] > 0
    ]


def _behind(value: float, best: float) -> str:
    """Return the difference from the best in percent, or the value itself if the best is 0."""
    if not best:
        return f"{abs(value):.3g}"
    share = 100 * abs(value / best - 1.0)
    return f"{share:.2g} %" if share < 100 else f"{share:.0f} %"


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
    flags = str(about(best, "reason").get("flag_meanings", "")).split()
    for flag, name in enumerate(flags[NO_LEGAL_PLAN + 1 :], NO_LEGAL_PLAN + 1):
        there = (reason == flag).values & ~feasible
        if there.any():
            lacks = xr.broadcast(best.feasible, best[f"{name}_missing"])[1].values[there].min()
            by = amount(float(lacks), unit_of(best, f"{name}_missing"))
            most = f"{words_of(best, name)} excludes most, the nearest plan by {by} or more"
            none += f"; at {int(there.sum()):,} of them {most}"
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
