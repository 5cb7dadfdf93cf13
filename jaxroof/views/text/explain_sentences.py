"""What limits a step, by how much and where that changes: the sentences."""

import xarray as xr

from jaxroof.analyses.explain import Explanation
from jaxroof.analyses.result_metadata import (
    Resources,
    need_of,
    objective_of,
    resources_of,
    run_of,
    unit_of,
)
from jaxroof.engine.sensitivity.switches import SAMPLED
from jaxroof.errors import listing
from jaxroof.units import seconds, show, size
from jaxroof.views.parameter_words import words_of
from jaxroof.views.text.explain import (
    next_switches,
    percent,
    plan_with_placement,
    range_words,
)
from jaxroof.views.text.interval import interval_words, spread_words
from jaxroof.views.text.plan import placed_words, placement_title
from jaxroof.views.text.search import per_run
from jaxroof.views.text.tables import amount

MOST = 3  # most changes of the dominant limit that are reported
LITTLE = 5e-5  # shares of the step below this are reported as none


def explain_sentences(found: Explanation) -> list[str]:
    """Return which resource binds, by how much, and where that changes."""
    if not found.feasible:
        return [_nothing(found)]
    known, capacity = resources_of(found.operations), found.steps.attrs.get("parameter")
    said = [_binds(found, known), _turns(found, known)]
    said += [_capacity(found)] if capacity else []
    return [*said, _nearest(found, known), *filter(None, [_sampled(found) + _spread(found)])]


def best_sentence(found: Explanation) -> str:
    """Return the best plan, its speed and the memory it uses."""
    best, need, aim = found.best, need_of(found.best), objective_of(found.best)
    domain = "in an NVLink domain" if placement_title(best) == "fast" else placement_title(best)
    said = f"Best plan: {placed_words(best, behind=domain)}, {per_run(best, aim, float(best[aim]))}"
    if f"{need}_limit" not in best:
        return f"{said}."
    taken, limit = (amount(float(best[n]), unit_of(best, n)) for n in (need, f"{need}_limit"))
    return f"{said}{interval_words(best)}, {taken} of {limit}."


def _binds(found: Explanation, known: Resources) -> str:
    """Return the resource that takes most of the step, and the saving from one percent of it."""
    step, named = float(found.best[objective_of(found.best)]), known.limits
    run, (first, *behind) = run_of(found.best), found.limits
    (binds, most), *others = [(named[n], value / step) for n, value in found.limits.items()]
    rest = listing([f"{name} {percent(share)}" for name, share in others if share > 0.0])
    less = _grows(first, known)
    change = f"{'less' if less else 'more'} {_bandwidth(binds)}"
    second = f" ({named[behind[0]]}, the next: {_buys(found, known, behind[0])})" if rest else ""
    return (
        f"What binds: {binds}, {percent(most)} of the {seconds(step)} {run}"
        f"{f'; then {rest}' if rest else ''}. "
        f"1 % {change} makes the {run} {_buys(found, known, first)} shorter{second}."
    )


def _bandwidth(resource: str) -> str:
    """Return what of a resource there may be more of."""
    return f"{resource.removeprefix('the ')} bandwidth" if resource in LINKS else resource


LINKS = ("NVLink", "the network")


def _grows(limit: str, known: Resources) -> bool:
    """Return whether a time grows with a resource, as with latency, instead of falling."""
    return all(sign > 0 for path, sign in known.signs.items() if known.of[path] == limit)


def _buys(found: Explanation, known: Resources, limit: str) -> str:
    """Return the saving from one percent more of a resource, or one percent less latency."""
    told = found.elasticities["elasticity_below" if _grows(limit, known) else "elasticity"]
    signs = {
        path: known.signs[path] for path in told.parameter.values.tolist() if path in known.signs
    }
    own = [s * float(told.sel(parameter=p)) for p, s in signs.items() if known.of[p] == limit]
    return percent(sum(own) / 100)


def _turns(found: Explanation, known: Resources) -> str:
    """Return where another resource becomes dominant: at which change of which parameter."""
    first, turns = next(iter(found.limits)), found.turns
    if not turns.sizes["turn"]:
        span = float(found.response.factor.max())
        return (
            f"{_begin(known.limits[first])} stays the bottleneck with any rate or latency from "
            f"1/{span:.3g} to {span:.3g} times today's."
        )
    ways: dict[str, list[str]] = {}
    for i in range(min(MOST, turns.sizes["turn"])):
        turn = turns.isel(turn=i)
        limit = known.limits[str(turn.turn_limit.values)]
        ways.setdefault(limit, []).append(_way(found, turn, limit))
    told = [
        f"{_begin(limit)} becomes the bottleneck if {' or '.join(sorted(w, key=_of_another))}."
        for limit, w in ways.items()
    ]
    return " ".join(told)


def _way(found: Explanation, turn: xr.Dataset, limit: str) -> str:
    """Return the change of a parameter that makes another resource the bottleneck."""
    path, factor = str(turn.turn_parameter.values), float(turn.turn_factor)
    unit = str(found.elasticities.parameter_units.sel(parameter=path).values)
    what = words_of(path)
    what = (
        "it" if what == limit else "its bandwidth" if what == _bandwidth(limit) else f"the {what}"
    )
    value = size(float(f"{float(turn.turn_value):.3g}"), unit)
    return f"{what} {_moved(factor)} {value} ({_times_today(factor)})"


def _of_another(way: str) -> bool:
    """Return whether a change is of another resource than the one that it makes the bottleneck."""
    return not way.startswith("it")


def _moved(factor: float) -> str:
    return "grows beyond" if factor > 1.0 else "falls below"


def _times_today(factor: float) -> str:
    return f"{factor:.3g} times today's" if factor > 1.0 else f"{100 * factor:.3g} % of today's"


def _begin(words: str) -> str:
    return words[:1].upper() + words[1:]


def _capacity(found: Explanation) -> str:
    """Return the gain from more memory, and the loss from less."""
    steps, aim = found.steps, objective_of(found.steps)
    today, unit = float(found.best[aim]), unit_of(steps, "value")
    places = steps.place.values.tolist()
    at = {place: steps.isel(step=places.index(place)) for place in (-1, 0, 1) if place in places}
    what, run = words_of(str(steps.attrs["parameter"])), run_of(steps)
    if 1 not in at:
        said = f"More {what} buys nothing, however much."
    else:
        up = at[1]
        said = (
            f"More {what} buys nothing until {_apart(up, unit)} (+{_size(up.change, unit)}), where "
            f"{plan_with_placement(up, steps)} makes the {run} {percent(float(up.gain))} shorter."
        )
    own = at[0]
    spare, least = _size(-own.change, unit), _apart(own, unit)
    if -1 not in at:
        return (
            f"{said} Up to {spare} less ({least}) costs nothing; with less than that nothing fits."
        )
    cost = percent(float(at[-1][aim]) / today - 1.0)
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
    (_, until), gain, run = range_words(row), float(row.switch_gain), run_of(found.response)
    path, factor = str(row.switch_parameter.values), float(row.switch_factor)
    unit = str(found.elasticities.parameter_units.sel(parameter=path).values)
    value = show(float(f"{float(row.switch_value):.4g}"), unit)
    way = "grows" if factor > 1.0 else "falls"
    then = f"The most that saves is {percent(gain)} of the {run}, at {until} times today's."
    if gain < LITTLE:
        then = f"It is as fast as this one, up to {until} times today's."
    return (
        f"This plan is the best until the {words_of(path)} {way} to {value} "
        f"({_near(factor)}); there {plan_with_placement(row, found.response)} takes over. {then} "
        f"Every other rate or latency has to move further to change the plan."
    )


def _near(factor: float) -> str:
    """Return a factor, with enough digits to tell it from 1."""
    digits = next((n for n in range(3, 9) if f"{factor:.{n}g}" != "1"), 3)
    return f"{factor:.{digits}g} times today's"


def _spread(found: Explanation) -> str:
    """Return how well step times are known, where that is: plans may be closer than that."""
    spread = spread_words(found.best)
    if not spread:
        return ""
    return (
        f"Measured runs spread by {spread} (80 % of them) around such a step time: plans that "
        "differ by less may change places."
    )


def _sampled(found: Explanation) -> str:
    """Return what may be missed where the time is not convex in the parameters."""
    if left := int(found.response.attrs.get("switches_open", 0)):
        return (
            f"Plans come so close in {left:,} narrow ranges of them that the search stopped there: "
            "one that is best only inside such a range is not seen. "
        )
    if found.response.attrs.get("switches") != SAMPLED:
        return ""
    values = found.response.sizes["factor"]
    return (
        f"The time is not convex in all of them: the best plan is known at {values} values of "
        "each, and one that is best only between two of them is not seen. "
    )


def _nothing(found: Explanation) -> str:
    """Return why no plan fits, and which change would make one fit."""
    best, steps = found.best, found.steps
    if not steps.sizes["step"]:
        return "No legal plan: nothing to explain."
    first = steps.isel(step=0)
    need, aim = need_of(steps), objective_of(steps)
    least, limit = float(first["limit"]), float(best[f"{need}_limit"])
    what, unit = words_of(str(steps.attrs["parameter"])), unit_of(steps, "limit")
    starts = unit_of(steps, "value")
    return (
        f"No plan fits: the leanest needs {size(least, unit)}, {size(least - limit, unit)} more "
        f"than the {size(limit, unit)} there are. "
        f"From {what} {_size(first['value'], starts)} on {plan_with_placement(first, steps)} fits, "
        f"{per_run(steps, aim, float(first[aim]))}."
    )


def _apart(step: xr.Dataset, unit: str) -> str:
    """Return the capacity of a step in three digits, or more to tell it from the current one."""
    value, today = float(step["value"]), float(step["value"] - step.change)
    digits = next((n for n in range(3, 9) if f"{value:.{n}g}" != f"{today:.{n}g}"), 3)
    return show(float(f"{value:.{digits}g}"), unit)


def _size(value: xr.DataArray, unit: str) -> str:
    return size(float(f"{float(value):.3g}"), unit)
