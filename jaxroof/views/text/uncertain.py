"""Results under uncertain inputs: quantiles, the plan to commit to, what to measure first."""

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.analyses.result_metadata import need_of, unit_of
from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.plan import (
    placed_heads,
    placed_words,
    placements_differ,
    plan_fields,
    split_cells,
)
from jaxroof.views.text.tables import amount, plain_table
from jaxroof.views.text.uncertain_inputs import digits, first_to_last

COSTS = ("cost %,\naverage", "worst\n5 %")  # of committing to a plan
WORTH = 1e-4  # smallest share of the time that is worth a measurement
ROUNDING = 1e-9  # of a result
SHOWN = (0.05, 0.5, 0.95)  # quantiles that even a narrow table shows
ROUGH = 0.02  # beyond 0 and 1, from which shares of few draws are called rough
LITTLE = 0.01  # share of the variance below which an input does not matter


def bands_table(data: xr.Dataset) -> Table:
    """Return the quantiles of each draw's best, and of the plan best at the current values."""
    table, aim = plain_table(), str(data.attrs["objective"])
    table.add_column(_named(aim), no_wrap=True)
    for share in data["quantile"].values:
        table.add_numbers(f"{100 * share:g} %", optional=0 if share in SHOWN else 2)
    for head, optional in {"mean": 1, "deviation": 3, "today": 0}.items():
        table.add_numbers(head, optional=optional)
    rows = {aim: "best of each draw", f"{aim}_kept": "today's best, kept"}
    for name, words in rows.items():
        if name in data:
            share = _share_kept(data)
            if name != aim and share < 1:
                words = f"{words},\nwhere it fits ({_percent(share)})"
            values = [*data[name].values, data[f"{name}_mean"], data[f"{name}_deviation"]]
            cells = [_amount(data, float(value)) for value in (*values, data[f"{aim}_today"])]
            table.add_row(words, *cells)
    return table


def _share_kept(data: xr.Dataset) -> float:
    """Return the share of the answerable draws in which the currently best plan fits."""
    place = int(data.candidate_today) if "candidate_today" in data else -1
    return float(data.fits.sel(candidate=place)) if place > 0 else 1.0


def plans_table(data: xr.Dataset, most: int) -> Table:
    """Return the plans that are best in some draw, and the cost of committing to each."""
    table, fields = plain_table(), plan_fields(data)
    told, need, (*degrees, placement) = _told(data), need_of(data), placed_heads(data, fields)
    placed = placements_differ((data.isel(candidate=i) for i in told), fields)
    sometimes = bool((data.fits.values[told] < 1).any())
    table.add_numbers("#", *degrees)
    if placement:
        table.add_numbers(placement, optional=0 if placed else 4)
    table.add_numbers("best in %\nof draws")
    table.add_numbers(*(["fits\nin %"] if sometimes else []), optional=2)
    table.add_numbers(*COSTS)
    table.add_numbers(*filter(None, [need]), optional=3)
    table.add_column("", no_wrap=True, optional=1)
    marks = {int(data.candidate_today): ["best today"]}
    marks.setdefault(int(data.candidate_committed), []).insert(0, "commit to it")
    for i in told:
        row = data.isel(candidate=i)
        if i >= most and int(row.candidate) not in marks:
            continue
        cells = [str(int(row.candidate)), *split_cells(row, fields)]
        cells += [digits(float(row.probability))]
        cells += [digits(float(row.fits))] if sometimes else []
        cells += [digits(float(row.regret_mean)), digits(float(row.regret_worst))]
        cells += [amount(float(row[need]), unit_of(data, need))] if need else []
        table.add_row(*cells, ",\n".join(marks.get(int(row.candidate), [])))
    return table


def sizes_table(data: xr.Dataset) -> Table:
    """Return one row per cluster size: its quantiles, the plan to commit to, and its cost."""
    table, fields, aim = plain_table(), plan_fields(data), str(data.attrs["objective"])
    *degrees, placement = placed_heads(data, fields)
    heads = {"gpus": 0, "5 %": 4, "median": 0, "95 %": 4, "today": 4, **dict.fromkeys(degrees, 0)}
    heads |= {**({placement: 3} if placement else {}), "best\nin %": 2, **dict.fromkeys(COSTS, 1)}
    for head, optional in heads.items():
        table.add_numbers(head, optional=optional)
    for point in _sizes(data):
        counted = f"{int(point.gpus):,}"
        if float(point.feasible_share) == 0:
            table.add_row(counted, "-", "nothing fits", *["-"] * (len(table.columns) - 3))
            continue
        band = point[aim].sel(quantile=[0.05, 0.5, 0.95]).values
        today = float(point[f"{aim}_today"])
        cells = [_amount(data, float(v)) for v in band]
        cells += [_amount(data, today) if np.isfinite(today) else "-"]
        plan = committed_plan(point)
        shares = ("probability", "regret_mean", "regret_worst")
        told = [digits(float(plan[name])) for name in shares]
        table.add_row(counted, *cells, *split_cells(plan, fields), *told)
    return table


def _sizes(data: xr.Dataset) -> list[xr.Dataset]:
    return [data.isel(gpus=i) for i in range(data.sizes["gpus"])]


def committed_plan(point: xr.Dataset) -> xr.Dataset:
    """Return the plan with the least average cost among those that fit most often."""
    return point.sel(candidate=int(point.candidate_committed))


def sentences(data: xr.Dataset) -> list[str]:
    """Return the range, the plan to commit to and its cost, and the input to measure first."""
    said = [_unanswered(data)] if float(data.feasible_share) < 1 else []
    if float(data.feasible_share) == 0:
        return said
    return [_band(data), *said, *_commitment(data), *_first_measured(data)]


def spread_sentence(data: xr.Dataset) -> str:
    """Return how far measured runs spread beside what is drawn, empty if that is not known."""
    spread = data.attrs.get("spread")
    if not spread:
        return ""
    return (
        f"Beside what is drawn, measured runs spread by {spread} (80 % of them) around a step "
        "time: plans that differ by less cannot be told apart, however often one is the best."
    )


def sizes_sentences(data: xr.Dataset) -> list[str]:
    """Return where nothing fits, where the plan is undecided, and the input to measure first."""
    said = []
    for point in _sizes(data):
        if float(point.feasible_share) < 1:
            said.append(f"{int(point.gpus):,} gpus: {_unanswered(point)}")
    answered = [point for point in _sizes(data) if float(point.feasible_share) > 0]
    if answered:
        worst = max(answered, key=lambda point: float(committed_plan(point).regret_mean))
        cost = _cost(committed_plan(worst))
        said.append(f"To commit to a plan now costs most on {int(worst.gpus):,} gpus: {cost}.")
    return [*said, *_first_measured(data)]


def _band(data: xr.Dataset) -> str:
    aim = str(data.attrs["objective"])
    low, middle, high = map(float, data[aim].sel(quantile=[0.05, 0.5, 0.95]).values)
    today = float(data[f"{aim}_today"])
    now = f"{_amount(data, today)} today" if np.isfinite(today) else "nothing fits today"
    wide = (high - low) / abs(middle) if middle else 0.0
    if wide < ROUNDING:
        return f"The {_named(aim)} is {_amount(data, middle)} in 90 % of the draws ({now})."
    return (
        f"In 90 % of the {int(data.attrs['samples']):,} draws the {_named(aim)} lies between "
        f"{_amount(data, low)} and {_amount(data, high)}, {_percent(wide)} of the median "
        f"{_amount(data, middle)} apart ({now})."
    )


def _unanswered(data: xr.Dataset) -> str:
    if float(data.feasible_share) == 0:
        return "No plan fits in any draw."
    share = _percent(1.0 - float(data.feasible_share))
    return f"No plan fits in {share} of the draws; the rest is about the others."


def _commitment(data: xr.Dataset) -> list[str]:
    """Return which plan to commit to, its cost, and the alternatives."""
    plan, today = committed_plan(data), int(data.candidate_today)
    words = placed_words(plan)
    own = int(plan.candidate) == today
    if int(data.plans_best) == 1 and float(plan.probability) == 1:
        return [f"One plan is the best in every draw: {words}. What is uncertain does not move it."]
    chance = f"best in {_percent(float(plan.probability))} of the draws"
    if float(plan.fits) == 1 and bool((data.fits < 1).any()):
        chance = f"it fits in every draw that can be answered; {chance}"
    said = [
        f"Commit to plan {int(plan.candidate)}, {words}: {chance}"
        f"{', and today' if own else ''}; {_cost(plan)}. "
        f"No measurement can save more than that by a better choice of plan."
    ]
    if not own and today > 0:
        said.append(f"Today's best, plan {today}: {_cost(data.sel(candidate=today))}.")
    told = [i for i in _told(data) if float(data.fits[i]) == float(plan.fits)]
    safe = data.isel(candidate=min(told, key=lambda i: float(data.regret_worst[i])))
    if float(safe.regret_worst) < 0.95 * float(plan.regret_worst):
        said.append(f"Safer is plan {int(safe.candidate)}: {_cost(safe)}.")
    return said


def _cost(plan: xr.Dataset) -> str:
    mean, worst = _percent(float(plan.regret_mean)), _percent(float(plan.regret_worst))
    share = float(plan.fits)
    there = f"where it fits, in {_percent(share)} of the draws, " if share < 1 else ""
    return f"{there}it costs {mean} on average and {worst} in the worst 5 % of the draws"


def _first_measured(data: xr.Dataset) -> list[str]:
    """Return which input to measure first, and which do not matter."""
    others = [d for d in data.sobol_total.dims if d != "parameter"]
    total, alone = (data[f"sobol_{n}"].mean(others).values for n in ("total", "first"))
    names, order = [str(name) for name in data.parameter.values], first_to_last(data)
    if not np.isfinite(total).any():
        return ["Shares of the variance need an answer to every draw: there are none here."]
    if total[order[0]] <= 0:
        return ["Nothing that is uncertain moves it."]
    first = order[0]
    rough = max(float(np.max(total)) - 1.0, -float(np.min(alone)))
    total, alone = np.clip([total, alone], 0.0, 1.0)  # few draws may give less or more
    part = f"it has a part in {_percent(total[first])} of the variance"
    said = f"Measure {names[first]} first: {part}, {_percent(alone[first])} by itself"
    then = [f"{names[i]} ({_percent(total[i])})" for i in order[1:3] if total[i] >= LITTLE]
    small = [names[i] for i in order if total[i] < LITTLE]
    found = [f"{said}{f'; then {listing(then)}' if then else ''}."]
    if small:
        found.append(f"Below 1 % each: {listing(small)}.")
    if rough > ROUGH:
        found.append(f"These shares are rough, to some {_percent(rough)}: ask more samples.")
    return [*found, *_first_chosen_by(data)]


def _first_chosen_by(data: xr.Dataset) -> list[str]:
    """Return which input to measure before choosing the plan, if that saves anything."""
    if "saved_if_known" not in data:
        return []
    others = [d for d in data.saved_if_known.dims if d != "parameter"]
    saved = data.saved_if_known.mean(others).values
    most = int(np.argmax(np.where(np.isfinite(saved), saved, -1.0)))
    if not saved[most] >= WORTH:
        return []
    name = str(data.parameter.values[most])
    return [f"To choose the plan, measure {name}: that saves {_percent(saved[most])} on average."]


def columns(data: xr.Dataset) -> xr.Dataset:
    """Return the results with one row per plan, as in a CSV: no draws, one column per quantile.

    The sensitivity indices of each input are columns too.
    """
    flat = data.drop_dims("draw").drop_vars(["units", "drawn_from", "parameter_today"])
    for dim, spell in (("quantile", lambda share: f"{100 * share:g}"), ("parameter", str)):
        for name in [n for n in flat.data_vars if dim in flat[n].dims]:
            for label in flat[dim].values:
                flat[f"{name}_{spell(label)}"] = flat[name].sel({dim: label}, drop=True)
        flat = flat.drop_dims(dim)
    return flat


def _told(data: xr.Dataset) -> list[int]:
    return [int(i) for i in np.flatnonzero(np.isfinite(data.probability.values))]


def _named(objective: str) -> str:
    return objective.replace("_", " ")


def _amount(data: xr.Dataset, value: float) -> str:
    unit = str(data[str(data.attrs["objective"])].attrs.get("units", "1"))
    return seconds(value) if unit == "s" else size(value, unit)


def _percent(share: float) -> str:
    return f"{digits(share)} %"
