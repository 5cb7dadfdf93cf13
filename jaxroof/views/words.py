"""Sentences about a search: what there was, what fits, what binds, what comes close."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.views.limits import limits_sentences
from jaxroof.views.plans import placement_words, plan_fields, plan_words
from jaxroof.views.tables import MEMORY, PARTS, seconds, size, tick

BINDS = {
    "time_compute": "arithmetic and launches",
    "time_memory": "HBM bandwidth",
    "time_tensor": "tensor-parallel communication",
    "time_data": "data-parallel communication",
    "time_pipeline": "sends between stages",
    "time_bubble": "the pipeline bubble",
}

NO_MEMORY, NO_LEGAL_PLAN = 1, 2  # of the flag `reason`


def counts_sentence(
    data: xr.Dataset, limit: float, refusals: Mapping[str, str], where: Sequence[str]
) -> str:
    """Return how many plans there were, how many fit, and what refused the rest."""
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
    if legal == 0:
        return f"No legal plan{asked}.{rules}"
    over = legal - fits
    kept = f"{_plans(legal)}{asked}; {fits:,} fit in {size(limit, 'B')}"
    if over:
        least, most = data.memory.values.min(), data.memory.values.max()
        kept += f", {over:,} need more (plans need {size(least, 'B')} to {size(most, 'B')})"
    return f"{kept}.{rules}"


def best_sentence(best: xr.Dataset, limit: float) -> str:
    """Return how fast the best plan is and what binds it."""
    shares = {name: float(best[name]) / float(best.step_time) for name in PARTS}
    first, second = sorted(shares, key=lambda name: -shares[name])[:2]
    return (
        f"Best: {plan_words(best)}, {seconds(float(best.step_time))} a step, "
        f"{float(best.throughput):.5g} samples/s. Bound by {BINDS[first]} ({shares[first]:.0%} of "
        f"the time), then {BINDS[second]} ({shares[second]:.0%}); "
        f"memory {float(best.memory) / limit:.0%} full."
    )


def close_sentence(data: xr.Dataset, order: np.ndarray, objective: str, within: float) -> str:
    """Return how many plans come close to the best and the leanest of those."""
    value = data[objective].values[order]
    close = order[np.abs(value - value[0]) <= within * np.abs(value[0])]
    if len(close) == 1:
        return f"No other plan that fits comes within {100 * within:.3g} % of it."
    lean = data.isel(plan=int(close[np.argmin(data.memory.values[close])]))
    gap = _behind(float(lean[objective]), float(value[0]))
    leanest = (
        "the best is also the leanest of them"
        if float(lean[objective]) == value[0]
        else f"the leanest is {plan_words(lean)} ({placement_words(lean)}) with "
        f"{size(float(lean.memory), 'B')}, {gap} behind"
    )
    more = "1 more comes" if len(close) == 2 else f"{len(close) - 1:,} more come"
    return f"{more} within {100 * within:.3g} % of it; {leanest}."


def nothing_fits(data: xr.Dataset, limit: float) -> str:
    """Return which memory term is too large, by how much, and the least that any plan needs."""
    if data.sizes["plan"] == 0:
        return "no legal plan."
    lean = data.isel(plan=int(np.argmin(data.memory.values)))
    parts = {words: float(lean[name]) for name, words in MEMORY.items()}
    largest = max(parts, key=lambda words: parts[words])
    over = float(lean.memory) - limit
    listed = ", ".join(
        f"{words} {size(v, 'B')}" for words, v in sorted(parts.items(), key=lambda i: -i[1])
    )
    return (
        f"nothing fits: the leanest plan ({plan_words(lean)}) needs {size(limit + over, 'B')} "
        f"of the {size(limit, 'B')} there is, {size(over, 'B')} too much. Largest term: {largest} "
        f"({listed})."
    )


def mine_sentences(
    data: xr.Dataset, mine: int, order: np.ndarray, objective: str, limit: float
) -> str:
    """Return the place of one's own plan, its gap to the best, and what differs."""
    row = data.isel(plan=mine)
    said = (
        f"Yours: {plan_words(row)} ({placement_words(row)}), {seconds(float(row.step_time))} a step"
    )
    if not bool(row.feasible):
        over = float(row.memory) - limit
        return (
            f"{said}, but it does not fit: it needs {size(float(row.memory), 'B')}, "
            f"{size(over, 'B')} more than there is."
        )
    best = data.isel(plan=int(order[0]))
    place = int(np.flatnonzero(order == mine)[0]) + 1
    if place == 1:
        return f"{said}: it is the best of the {len(order):,} plans that fit."
    gap = _behind(float(row[objective]), float(best[objective]))
    differences = {n: float(row[n]) - float(best[n]) for n in PARTS}
    worst = sorted(differences, key=lambda n: -differences[n])[:2]
    more = [f"{seconds(differences[n])} more in {BINDS[n]}" for n in worst if differences[n] > 0]
    other = [
        f"{name} {int(row.data_vars[name])} instead of {int(best.data_vars[name])}"
        for name in plan_fields(data)
        if int(row.data_vars[name]) != int(best.data_vars[name])
    ]
    return (
        f"{said}: place {place:,} of the {len(order):,} plans that fit, {gap} behind "
        f"the best in {objective}. It has {listing(other)}, and spends {listing(more)}."
    )


def _behind(value: float, best: float) -> str:
    """Return how far a value lies from the best in per cent, or as it is where the best is 0."""
    return f"{100 * abs(value / best - 1.0):.3g} %" if best else f"{abs(value):.3g}"


def _plans(count: int) -> str:
    return "1 legal plan" if count == 1 else f"{count:,} legal plans"


def listing(words: Sequence[str]) -> str:
    """Return several things as a part of a sentence.

    >>> listing(["a"]), listing(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"


def sweep_sentences(data: xr.Dataset) -> list[str]:
    """Return how large a grid was, its range, and where nothing fits and why."""
    best = data.isel(rank=0) if "rank" in data.sizes else data
    points = int(np.prod(list(best.sizes.values()), initial=1))
    if "step_time" not in best or "feasible" not in best:
        return [f"{_points(points)}.", *limits_sentences(best)]
    searched = "plans_legal" in best
    counted = (
        f", {int(data.attrs['combinations']):,} combinations of plan and point weighed"
        if searched
        else ""
    )
    said = [f"{_points(points)}{counted}."]
    step, feasible = xr.broadcast(best.step_time, best.feasible)
    times = np.where(feasible.values, step.values, np.nan)
    if feasible.values.any():
        at = dict(
            zip(
                step.dims, map(int, np.unravel_index(np.nanargmin(times), times.shape)), strict=True
            )
        )
        least, most = float(np.nanmin(times)), float(np.nanmax(times))
        plan = f", {plan_words(best.isel(at))}" if "tensor" in best.data_vars else ""
        where = ", ".join(f"{dim} {tick(best, dim, i)}" for dim, i in at.items())
        said.append(
            f"Fastest: {seconds(least)} a step{plan}{f' at {where}' if where else ''}; "
            f"the slowest feasible point takes {most / least:.3g} times as long."
        )
    if not feasible.values.all():
        said.append(_unfit(best, feasible.values) if searched else _refused(best, feasible.values))
    return said


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count:,} points"


def _unfit(best: xr.Dataset, feasible: np.ndarray) -> str:
    """Return at how many points of a search nothing fits, the least that it takes, what misses."""
    names = ("memory_least", "memory_missing", "reason")
    _, need, missing, reason = xr.broadcast(best.feasible, *(best[name] for name in names))
    needs = need.values[~feasible]
    least = (
        f"; the smallest needs {size(float(np.nanmin(needs)), 'B')}"
        if np.isfinite(needs).any()
        else ""
    )
    empty = int(np.sum(reason.values[~feasible] == NO_LEGAL_PLAN))
    none = f"; at {empty:,} of them no plan is legal" if empty else ""
    said = f"No plan fits at {int((~feasible).sum()):,} of {feasible.size:,} points{least}{none}."
    return f"{said}{_missing(best, missing, (reason == NO_MEMORY).values & ~feasible)}"


def _missing(best: xr.Dataset, missing: xr.DataArray, unfit: np.ndarray) -> str:
    """Return how much memory is missing where some is, the least and the most of it."""
    if not unfit.any():
        return ""
    lacks = np.where(unfit, missing.values, np.nan)

    def said(position: int) -> str:
        index = map(int, np.unravel_index(position, lacks.shape))
        at = ", ".join(f"{d} {tick(best, d, i)}" for d, i in zip(missing.dims, index, strict=True))
        amount = size(float(lacks.flat[position]), "B")
        return f"{amount} at {at}" if at else amount

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
