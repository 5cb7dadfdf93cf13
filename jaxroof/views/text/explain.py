"""What limits a step, by how much and where that changes: sentences and tables."""

from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.explain import Explanation, explanation_of
from jaxroof.analyses.result_metadata import (
    Resources,
    is_machine,
    machine_of,
    need_of,
    objective_of,
    resources_of,
    roles,
    run_of,
    unit_of,
    words_of,
)
from jaxroof.engine.sensitivity.switches import SAMPLED
from jaxroof.errors import listing
from jaxroof.units import amount, portion, seconds, show, size, too_much
from jaxroof.views.parameter_words import words_of as words_of_parameter
from jaxroof.views.text.assumed import assumed_sentences, is_recurrent
from jaxroof.views.text.interval import interval_words
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import (
    placed_words,
    plan_sentence,
    stages_sentence,
)
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.tables import per_run
from jaxroof.views.text.whole_run import reliability_sentence, run_sentence

TELLING = 5e-4  # smaller elasticities are listed alone
ROWS = 0.005  # smallest share of the step for which an operation has its own row
SWITCH = "switch_"
NEAR = 3  # capacity steps shown on either side
LITTLE = 5e-5  # shares of the step below this are reported as none
COMPUTE = "compute"  # a resource
LINKS = ("NVLink", "the network", "tier ")


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield what limits the best plan, by how much, and where that changes."""
    found = explanation_of(data)
    first, *rest = explain_sentences(found)
    yield from title(str(data.attrs.get("title", "")))
    if not found.feasible:
        yield from quiet(first)
        yield from usual(*rest, steps_table(found.steps))
        return
    yield from usual(best_sentence(found), plan_sentence(found.best), stages_sentence(found.best))
    yield from usual(run_sentence(found.best), reliability_sentence(found.best))
    yield from quiet(first)
    yield from usual(_scans(found) if is_recurrent(data) else "", *rest)
    run = run_of(found.best)
    yield from usual(slopes_table(found.elasticities, page.every, run))
    yield from usual(binding_table(found.operations, run), *assumed_sentences(data, found.best))
    if found.steps.sizes["step"]:
        yield from verbose(steps_table(found.steps))


def explain_sentences(found: Explanation) -> list[str]:
    """Return which resource binds, by how much, and where that changes."""
    if not found.feasible:
        return [_nothing(found)]
    known, capacity = resources_of(found.operations), found.steps.attrs.get("parameter")
    said = [_binds(found, known), _turns(found, known)]
    said += [_capacity(found)] if capacity else []
    return [*said, _nearest(found, known), *filter(None, [_sampled(found)])]


def best_sentence(found: Explanation) -> str:
    """Return the best plan, its speed and the memory it uses."""
    best, need, aim = found.best, need_of(found.best), objective_of(found.best)
    said = f"Best plan: {placed_words(best)}, {per_run(best, aim, float(best[aim]))}"
    if f"{need}_limit" not in best:
        return f"{said}."
    taken, limit = (amount(float(best[n]), unit_of(best, n)) for n in (need, f"{need}_limit"))
    return f"{said}{interval_words(best)}, {taken} of {limit}."


def _binds(found: Explanation, known: Resources) -> str:
    """Return the resource that takes most of the step, and the saving from one percent of it."""
    step, named = float(found.best[objective_of(found.best)]), known.limits
    run, (first, *behind) = run_of(found.best), found.limits
    (binds, most), *others = [(named[n], value / step) for n, value in found.limits.items()]
    rest = listing([f"{name} {portion(share)}" for name, share in others if share > 0.0])
    less = _grows(first, known)
    change = f"{'less' if less else 'more'} {_bandwidth(binds)}"
    if second := behind[0] if rest and _slope(found, known, behind[0]) else "":  # of the machine
        second = f" ({named[second]}, the next: {_buys(found, known, second)})"
    return (
        f"What binds: {binds}, {portion(most)} of the {seconds(step)} {run}"
        f"{f'; then {rest}' if rest else ''}. "
        f"1 % {change} makes the {run} {_buys(found, known, first)} shorter{second}."
    )


def _scans(found: Explanation) -> str:
    """Return the share of the step that is compute without following the machine's rate."""
    step, known = float(found.best[objective_of(found.best)]), resources_of(found.operations)
    share = found.limits.get(COMPUTE, 0.0) / step - _slope(found, known, COMPUTE)
    rest = "their rate goes by multiprocessors, not by the compute rate"
    return f"Scans of recurrent layers take {portion(share)} of the step: {rest}."


def _bandwidth(resource: str) -> str:
    return f"{resource.removeprefix('the ')} bandwidth" if resource.startswith(LINKS) else resource


def _grows(limit: str, known: Resources) -> bool:
    return all(sign > 0 for path, sign in known.signs.items() if known.of[path] == limit)


def _buys(found: Explanation, known: Resources, limit: str) -> str:
    return portion(_slope(found, known, limit) / 100)


def _slope(found: Explanation, known: Resources, limit: str) -> float:
    told = found.elasticities["elasticity_below" if _grows(limit, known) else "elasticity"]
    signs = {
        path: known.signs[path] for path in told.parameter.values.tolist() if path in known.signs
    }
    return sum(s * float(told.sel(parameter=p)) for p, s in signs.items() if known.of[p] == limit)


def _turns(found: Explanation, known: Resources) -> str:
    """Return where another resource becomes dominant: at the nearest change of a parameter."""
    first, turns = known.limits[next(iter(found.limits))], found.turns
    if not turns.sizes["turn"]:
        span = f"{float(found.response.factor.max()):.3g}"
        times = f"from 1/{span} to {span} times today's"
        return f"{_begin(first)} stays the bottleneck with any rate or latency {times}."
    turn = turns.isel(turn=0)
    limit = known.limits[str(turn.turn_limit.values)]
    path, factor = str(turn.turn_parameter.values), float(turn.turn_factor)
    unit = str(found.elasticities.parameter_units.sel(parameter=path).values)
    value, what = _size(turn.turn_value, unit), words_of_parameter(path)
    what = {limit: "it", _bandwidth(limit): "its bandwidth"}.get(what, f"the {what}")
    way = f"falls below {value} ({100 * factor:.3g} % of today's)"
    if factor > 1.0:
        way = f"grows beyond {value} ({factor:.3g} times today's)"
    return f"{_begin(limit)} becomes the bottleneck if {what} {way}."


def _begin(words: str) -> str:
    return words[:1].upper() + words[1:]


def _capacity(found: Explanation) -> str:
    """Return the gain from more memory, and the loss from less."""
    steps, aim = found.steps, objective_of(found.steps)
    today, unit = float(found.best[aim]), unit_of(steps, "value")
    places = steps.place.values.tolist()
    at = {place: steps.isel(step=places.index(place)) for place in (-1, 0, 1) if place in places}
    what, run = words_of_parameter(str(steps.attrs["parameter"])), run_of(steps)
    if 1 not in at:
        said = f"More {what} buys nothing, however much."
    else:
        up = at[1]
        said = (
            f"More {what} buys nothing until {_apart(up, unit)} (+{_size(up.change, unit)}), where "
            f"{plan_with_placement(up, steps)} makes the {run} {portion(float(up.gain))} shorter."
        )
    own = at[0]
    spare, least = _size(-own.change, unit), _apart(own, unit)
    if -1 not in at:
        return (
            f"{said} Up to {spare} less ({least}) costs nothing; with less than that nothing fits."
        )
    cost = portion(float(at[-1][aim]) / today - 1.0)
    if not own.change:
        return f"{said} Any less makes the {run} {cost} longer."
    return f"{said} Up to {spare} less ({least}) costs nothing; below, the {run} is {cost} longer."


def _nearest(found: Explanation, known: Resources) -> str:
    """Return how long the current plan stays the best, and which plan follows it."""
    rows = [
        row
        for row in next_switches(found.response)
        if str(row.switch_parameter.values) in known.signs
    ]
    if not rows:
        span = f"{float(found.response.factor.max()):.3g} times"
        return f"No rate or latency brings another plan, up to {span} more or less."
    row = rows[0]
    (_, until), gain = range_words(row), float(row.switch_gain)
    path, factor = str(row.switch_parameter.values), float(row.switch_factor)
    unit = str(found.elasticities.parameter_units.sel(parameter=path).values)
    value = show(float(f"{float(row.switch_value):.4g}"), unit)
    way = "grows" if factor > 1.0 else "falls"
    then = f"At {until} times today's it saves {portion(gain)} of what this plan takes there."
    if not np.isfinite(gain):  # where this plan exceeds a limit besides memory
        then = f"At {until} times today's this plan is no longer within every limit."
    elif gain < LITTLE:
        then = f"It is as fast as this one, up to {until} times today's."
    return (
        f"This plan is the best until the {words_of_parameter(path)} {way} to {value} "
        f"({_near(factor)}); there {plan_with_placement(row, found.response)} takes over. {then}"
    )


def _near(factor: float) -> str:
    digits = next((n for n in range(3, 9) if f"{factor:.{n}g}" != "1"), 3)
    return f"{factor:.{digits}g} times today's"


def _sampled(found: Explanation) -> str:
    """Return what may be missed where the time is not convex in the parameters."""
    if left := int(found.response.attrs.get("switches_open", 0)):
        ranges = f"{left:,} narrow ranges of them"
        return f"Plans come so close in {ranges} that the search stopped there."
    if found.response.attrs.get("switches") != SAMPLED:
        return ""
    values = found.response.sizes["factor"]
    return f"The best plan is known at {values} values of each; between two of them it may differ."


def _nothing(found: Explanation) -> str:
    """Return why no plan fits, and which change would make one fit."""
    best, steps = found.best, found.steps
    if not steps.sizes["step"]:
        return "No legal plan: nothing to explain."
    first = steps.isel(step=0)
    need, aim = need_of(steps), objective_of(steps)
    least, limit = float(first["limit"]), float(best[f"{need}_limit"])
    what, unit = words_of_parameter(str(steps.attrs["parameter"])), unit_of(steps, "limit")
    starts = unit_of(steps, "value")
    return (
        f"No plan fits: the leanest needs {too_much(least, limit, unit)}. "
        f"From {what} {_size(first['value'], starts)} on {plan_with_placement(first, steps)} fits, "
        f"{per_run(steps, aim, float(first[aim]))}."
    )


def _apart(step: xr.Dataset, unit: str) -> str:
    value, today = float(step["value"]), float(step["value"] - step.change)
    digits = next((n for n in range(3, 9) if f"{value:.{n}g}" != f"{today:.{n}g}"), 3)
    return show(float(f"{value:.{digits}g}"), unit)


def _size(value: xr.DataArray, unit: str) -> str:
    return size(float(f"{float(value):.3g}"), unit)


# ---- Tables ------------------------------------------------------------------------------------


def slopes_table(data: xr.Dataset, every: bool = True, run: str = "") -> PlainTable:
    """Return one row per parameter of the machine, largest first: the effect of one percent more.

    Rates and latencies have a share of the step; these sum to one if no parameters are tied. A
    parameter that multiplies a rate repeats that rate's share; without ``every`` it has no row.
    """
    run, signs = run or run_of(data), resources_of(data).signs

    def today(row: xr.Dataset) -> str:
        return show(float(f"{float(row.value):.4g}"), str(row.parameter_units.values))

    def change(row: xr.Dataset) -> str:
        less = f"\n(1 % less: {-float(row.elasticity_below):+.3g} %)" if bool(row.tie) else ""
        return f"{float(row.elasticity):+.3g} %{less}"

    def share(row: xr.Dataset) -> str:
        sign = signs.get(str(row.parameter.values))
        if sign is None:
            return ""
        below = f"\nto {portion(sign * float(row.elasticity_below))}" if bool(row.tie) else ""
        return f"{portion(sign * float(row.elasticity))}{below}"

    columns = [
        _parameter(data, "parameter"),
        Shown("today", today, 1),
        Shown(_time_head(data), change),
        Shown(f"share of\nthe {run}", share),
    ]
    rows = [row for path, row in parameter_rows(data) if every or path in signs]
    title = f"What 1 % more of a machine's parameter does to the {run}"
    return PlainTable(title).add_rows(columns, rows)


def _parameter(data: xr.Dataset, name: str) -> Shown:
    machine = machine_of(data)
    return Shown(
        "parameter", lambda row: str(row[name].values).removeprefix(f"{machine}."), 0, "left"
    )


def _time_head(data: xr.Dataset) -> str:
    return words_of(data, objective_of(data)).replace(" ", "\n")


def parameter_rows(data: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the machine parameters that affect the step, largest effect first."""
    effects = dict(zip(map(str, data.parameter.values), _largest(data).tolist(), strict=True))
    told = [p for p, effect in effects.items() if is_machine(data, p) and effect >= TELLING]
    return [(p, data.sel(parameter=p)) for p in sorted(told, key=lambda p: -effects[p])]


def _largest(data: xr.Dataset) -> np.ndarray:
    return np.maximum(abs(data.elasticity.values), abs(data.elasticity_below.values))


def binding_table(data: xr.Dataset, run: str = "") -> PlainTable:
    """Return the contributions to the step, largest first, with their seconds by limiting resource.

    Small contributions share one row; all rows sum to the step.
    """
    run = run or run_of(data)
    rows, limits = data.seconds.values, list(resources_of(data).limits.values())
    each, step = rows.sum(axis=1), rows.sum()
    order = [i for i in np.argsort(-each, kind="stable") if each[i] >= ROWS * step]
    rest = np.setdiff1d(np.flatnonzero(each), order)
    told = [(str(data.operation.values[i]), rows[i]) for i in order]
    told += [(f"{len(rest)} that add less", rows[rest].sum(axis=0))] * bool(len(rest))
    places = np.argsort(np.argsort(-rows.sum(axis=0), kind="stable"))

    def part(i: int) -> Shown:
        def cell(row: tuple[str, np.ndarray]) -> str:
            return "-" if abs(row[1][i]) < 1e-6 * step else f"{row[1][i]:.3g}"

        return Shown(limits[i].replace(" ", "\n", 1), cell, int(places[i]) + 1)

    columns = [
        Shown("operation", lambda row: row[0], 0, "left", wraps=True),
        Shown("time", lambda row: f"{row[1].sum():.4g}"),
        Shown(f"% of\n{run}", lambda row: f"{100 * row[1].sum() / step:.1f}"),
        *map(part, range(len(limits))),
        Shown("bound by", lambda row: limits[int(row[1].argmax())], 0, "left"),
    ]
    title = f"What the {run} is made of, and what limits it [s]"
    return PlainTable(title).add_rows(columns, [*told, (run, rows.sum(axis=0))])


# ---- Changes of the best plan -------------------------------------------------------------------


def plan_of(row: xr.Dataset) -> xr.Dataset:
    """Return the plan fields of a switch (with its own names), a capacity step or a best plan."""
    prefix, known = SWITCH if "switch_factor" in row else "", roles(row)
    fields = [f for f in (*known["split"], *known["placement"]) if prefix + f in row]
    return xr.Dataset({f: row[prefix + f] for f in fields})


def next_switches(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the next switch of each parameter in each direction, nearest first."""
    rows = [data.isel(switch=i) for i in range(data.sizes["switch"])]
    first = [row for row in rows if int(row.switch_order) == 1]
    return sorted(first, key=lambda row: abs(float(np.log(row.switch_factor))))


def range_words(row: xr.Dataset) -> tuple[str, str]:
    """Return the interval in which a switch's plan is best, as multiples of the current value.

    Three digits, or more if both ends would look the same.
    """
    ends = float(row.switch_factor), float(row.switch_until)
    digits = next((n for n in range(3, 9) if f"{ends[0]:.{n}g}" != f"{ends[1]:.{n}g}"), 3)
    return f"{ends[0]:.{digits}g}", f"{ends[1]:.{digits}g}"


def plan_with_placement(row: xr.Dataset, data: xr.Dataset) -> str:
    """Return the plan of a switch or a step: its degrees, and the part of them in a fast domain."""
    plan = plan_of(row).assign_attrs(data.attrs)
    return placed_words(plan)


def steps_table(data: xr.Dataset) -> PlainTable:
    """Return the capacity steps around the machine's: capacity, time, time saved and plan."""
    near = data.isel(step=np.flatnonzero(np.abs(data.place.values) <= NEAR)).sortby("value")
    path, unit, aim = str(data.attrs["parameter"]), unit_of(data, "value"), objective_of(data)

    def against(row: xr.Dataset) -> str:
        return f"{'+' * bool(row.change >= 0)}{_size(row.change, unit)}"

    def plan(row: xr.Dataset) -> str:
        return f"{plan_with_placement(row, data)}{'' if int(row.place) else ', of today'}"

    def saved(row: xr.Dataset) -> str:
        gain = float(row.gain)
        return "-" if not int(row.place) or np.isnan(gain) else portion(gain)

    columns = [
        Shown("from", lambda row: size(float(row.value), unit)),
        Shown("against\ntoday", against, 2),
        Shown(_time_head(data), lambda row: amount(float(row[aim]), unit_of(data, aim))),
        Shown("time\nsaved", saved, 1),
        Shown("plan", plan, 0, "left", wraps=True),
    ]
    rows = [near.isel(step=i) for i in range(near.sizes["step"])]
    return PlainTable(f"{words_of_parameter(path)}, step by step").add_rows(columns, rows)


def with_capacity(moved: xr.Dataset, steps: xr.Dataset) -> xr.Dataset:
    """Return a response at the ends of its span, with the machine's capacity as a parameter."""
    path, name = str(steps.attrs["parameter"]), str(moved.attrs["objective"])
    ends = moved[[name, f"{name}_kept"]].sel(factor=[moved.factor[0], 1.0, moved.factor[-1]])
    order = steps.sortby("value")
    own = int(np.flatnonzero(order.place.values == 0)[0])
    today = float(order["value"][own] - order.change[own])
    held = np.searchsorted(order["value"].values, today * ends.factor.values, side="right") - 1
    times = order[name].values
    found = np.where(held >= 0, times[held], np.nan)
    kept = np.where(held >= own, times[own], np.nan)
    row = xr.Dataset(
        {
            name: (("parameter", "factor"), [found]),
            f"{name}_kept": (("parameter", "factor"), [kept]),
        },
        {"parameter": [path], "factor": ends.factor},
    )
    return xr.concat([ends.drop_vars(set(ends.coords) - set(row.coords)), row], "parameter")
