"""What is said of the results of a sweep: its best point, where nothing fits, and a grid."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.analyses.result_metadata import (
    about,
    headlines,
    need_of,
    objective_of,
    rises,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import amount
from jaxroof.views.text import roofline
from jaxroof.views.text.assumed import assumed_sentences
from jaxroof.views.text.interval import LOW, interval_sentence, interval_words
from jaxroof.views.text.plan import glossary, plan_fields, plan_words
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.scaling_limits import limits_sentences
from jaxroof.views.text.tables import grid_table, per_run, tick

TOO_LARGE, NO_LEGAL_PLAN = 1, 2  # values of the flag `reason`


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield the headline result of a grid, or all results of a point."""
    yield from title(str(data.attrs.get("title", "")))
    if not (data.sizes or ("step_time" in data and "feasible" in data)):
        yield from usual(*(roofline.shape_sentences(data) if roofs.is_roofline(data) else ()))
        yield from quiet(roofline.result_table(data))
        yield from usual(*sweep_sentences(data))
        return
    count, *found = sweep_sentences(data)
    yield from usual(*found)
    grid = grid_table(data, page.most)
    yield from quiet(*([] if grid is None else [grid]))
    yield from usual(glossary(data) if "plans_feasible" in data else "")
    if LOW in data:
        yield from usual(*assumed_sentences(data))
    yield from verbose(interval_sentence(data))
    yield from usual(count)


def sweep_sentences(data: xr.Dataset) -> list[str]:
    """Return the size of a grid, its range, and where nothing fits and why."""
    best = data.isel(rank=0) if "rank" in data.sizes else data
    points = int(np.prod(list(best.sizes.values()), initial=1))
    aim = next(iter(headlines(best)), "")
    if roofs.is_roofline(best) and best.sizes:
        line = len({*best.sizes} - {roofs.across(best)}) == 1
        said = roofline.sweep_sentences(best) if line else [roofline.grid_sentence(best)]
        return [f"{_points(points)}.", *said]
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
    seconds, words = unit_of(best, aim) == "s", about(best, aim).get("words")
    time = seconds and not words  # else what is not over sooner, such as seconds of many machines
    name = "Fastest" if time else "Most" if more else f"Least {words}" if seconds else "Least"
    if np.isfinite(values).sum() == 1:
        return f"{name}: {told}; no other point is feasible."
    if time:
        far = f"the slowest feasible point takes {last / first:.3g} times as long"
    else:
        times = f"{abs(last) / first:.3g} times as much" if first else f"{abs(last):.3g}"
        far = f"the worst feasible point has {times}"
    return f"{name}: {told}; {far}."


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count:,} points"


def _unfit(best: xr.Dataset, feasible: np.ndarray) -> str:
    """Return at how many points of a search nothing fits, the least need, and what is missing."""
    need = need_of(best)
    reason = xr.broadcast(best.feasible, best.reason)[1].values
    said = [f"No plan fits at {int((~feasible).sum()):,} of {feasible.size:,} points"]

    def values(name: str, there: np.ndarray) -> np.ndarray:
        return np.where(there, xr.broadcast(best.feasible, best[name])[1].values, np.nan)

    if f"{need}_least" in best and np.isfinite(least := values(f"{need}_least", ~feasible)).any():
        unit = unit_of(best, f"{need}_least")
        words = f" {words_of(best, need)}" if unit == "1" else ""
        said.append(f"the smallest needs {amount(float(np.nanmin(least)), unit)}{words}")
    if empty := int(np.sum(reason[~feasible] == NO_LEGAL_PLAN)):
        said.append(f"at {empty:,} of them no plan is legal")
    flags = str(about(best, "reason").get("flag_meanings", "")).split()
    for flag, name in enumerate(flags[NO_LEGAL_PLAN + 1 :], NO_LEGAL_PLAN + 1):
        there = (reason == flag) & ~feasible
        if there.any():
            lacks = float(np.nanmin(values(f"{name}_missing", there)))
            by = amount(lacks, unit_of(best, f"{name}_missing"))
            most = f"{words_of(best, name)} excludes most, the nearest plan by {by} or more"
            said.append(f"at {int(there.sum()):,} of them {most}")
    large = (reason == TOO_LARGE) & ~feasible
    if f"{need}_missing" not in best or not large.any():
        return f"{'; '.join(said)}."
    missing, dims = values(f"{need}_missing", large), best.feasible.dims

    def lacking(position: int) -> str:
        index = map(int, np.unravel_index(position, missing.shape))
        at = ", ".join(f"{d} {tick(best, d, i)}" for d, i in zip(dims, index, strict=True))
        lacks = amount(float(missing.flat[position]), unit_of(best, f"{need}_missing"))
        return f"{lacks} at {at}" if at else lacks

    ends = dict.fromkeys([int(np.nanargmin(missing)), int(np.nanargmax(missing))])
    where = "Missing there" if len(ends) == 1 else "Missing"
    return f"{'; '.join(said)}. {where}: {', to '.join(map(lacking, ends))}."


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
    return f"{unfit} are not feasible: {listing(broken) or 'a further limit is missed'}."
