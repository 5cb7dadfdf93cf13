"""What binds a step, by how much and where that changes: the sentences."""

import xarray as xr

from jaxroof.explained import Explanation
from jaxroof.units import show
from jaxroof.views.explain import next_switches, percent, plan_said, reign, words
from jaxroof.views.plans import placement_words, plan_words
from jaxroof.views.resources import LIMITS, RESOURCES, SIGNS
from jaxroof.views.tables import seconds, size
from jaxroof.views.words import listing

MOST = 3  # turns that are told
LITTLE = 5e-5  # share of the step that is told as none
MORE = {"fast_links": "bandwidth of the fast links", "slow_links": "bandwidth of the slow links"}


def explain_sentences(found: Explanation) -> list[str]:
    """Return which resource binds, by how much, and where that changes."""
    if not found.feasible:
        return [_nothing(found)]
    return [_binds(found), _turns(found), _capacity(found), _nearest(found)]


def best_sentence(found: Explanation) -> str:
    """Return the best plan, how fast it is and how full the machine."""
    best = found.best
    limit, memory = (size(float(best[name]), "B") for name in ("memory_limit", "memory"))
    return (
        f"Best plan: {plan_words(best)} ({placement_words(best)} in a fast domain), "
        f"{seconds(float(best.step_time))} a step, {memory} of {limit}."
    )


def _binds(found: Explanation) -> str:
    """Return the resource that takes most of the step, and what one percent of it buys."""
    step = float(found.best.step_time)
    first, second, *_ = found.limits
    (binds, most), *others = [(LIMITS[n], value / step) for n, value in found.limits.items()]
    rest = listing([f"{name} {percent(share)}" for name, share in others if share > 0.0])
    change = f"{'less' if first == 'latency' else 'more'} {MORE.get(first, binds)}"
    after = f" (of {LIMITS[second]}, the next: {_buys(found, second)})" if rest else ""
    return (
        f"What binds: {binds}, {percent(most)} of the {seconds(step)} step"
        f"{f'; then {rest}' if rest else ''}. "
        f"1 % {change} makes the step {_buys(found, first)} shorter{after}."
    )


def _buys(found: Explanation, limit: str) -> str:
    """Return what one percent more of a resource saves, of latency one percent less."""
    told = found.elasticities["elasticity_below" if limit == "latency" else "elasticity"]
    paths = [path for path in told.parameter.values.tolist() if path in SIGNS]
    own = [SIGNS[p] * float(told.sel(parameter=p)) for p in paths if RESOURCES[p] == limit]
    return percent(sum(own) / 100)


def _turns(found: Explanation) -> str:
    """Return where another resource comes to bind: how far, moving what."""
    first, turns = next(iter(found.limits)), found.turns
    if not turns.sizes["turn"]:
        span = float(found.response.factor.max())
        return (
            f"Where that changes: nowhere; {LIMITS[first]} binds with any rate or latency up to "
            f"{span:.3g} times today's or down to 1/{span:.3g} of it."
        )
    ways: dict[str, list[str]] = {}
    for i in range(min(MOST, turns.sizes["turn"])):
        turn = turns.isel(turn=i)
        path, factor = str(turn.turn_parameter.values), float(turn.turn_factor)
        unit = str(found.elasticities.parameter_units.sel(parameter=path).values)
        way = f"{words(path)} {'above' if factor > 1.0 else 'below'} {factor:.3g} times today's"
        way += f" ({size(float(turn.turn_value), unit)})"
        ways.setdefault(LIMITS[str(turn.turn_limit.values)], []).append(way)
    told = [
        f"{n} bind{'' if n.endswith('s') else 's'} with {' or '.join(w)}" for n, w in ways.items()
    ]
    return f"Where that changes: {'; '.join(told)}."


def _capacity(found: Explanation) -> str:
    """Return what more memory buys, and what less costs."""
    steps, today = found.steps, float(found.best.step_time)
    at = {int(place): steps.isel(step=i) for i, place in enumerate(steps.place.values)}
    what = words(str(steps.attrs["parameter"]))
    if 1 not in at:
        said = f"More {what} is worth nothing, however much"
    else:
        up = at[1]
        said = (
            f"More {what} is worth nothing until {_apart(up)} "
            f"(+{_gigabytes(up.change)}), where {plan_said(up, steps)} saves "
            f"{percent(float(up.gain))}"
        )
    own = at[0]
    spare, least = _gigabytes(-own.change), _apart(own)
    if -1 not in at:
        return f"{said}; with {spare} less ({least}) the plan still fits, and none with less."
    cost = percent(float(at[-1].step_time) / today - 1.0)
    lost = f"more than {spare} (to less than {least})" if own.change else "any"
    return f"{said}; it costs {cost} to lose {lost}."


def _nearest(found: Explanation) -> str:
    """Return how far today's plan stays the best, and what comes after it."""
    rows = [
        row for row in next_switches(found.response) if str(row.switch_parameter.values) in SIGNS
    ]
    if not rows:
        span = f"{float(found.response.factor.max()):.3g} times"
        return f"No rate or latency brings another plan, up to {span} more or less."
    row = rows[0]
    (factor, until), gain = reign(row), float(row.switch_gain)
    then = f", and at {until} times saves {percent(gain)} against it"
    if gain < LITTLE:
        way = "up" if float(row.switch_factor) > 1.0 else "down"
        then = f", {way} to {until} times, where both are as fast"
    what = words(str(row.switch_parameter.values))
    return (
        f"The plan is the best until {what} is {factor} times today's: then "
        f"{plan_said(row, found.response)} takes over{then}. "
        "No other rate or latency changes it with a smaller move."
    )


def _nothing(found: Explanation) -> str:
    """Return why no plan fits, and what would make one fit."""
    best, steps = found.best, found.steps
    if not steps.sizes["step"]:
        return "No legal plan: nothing to explain."
    first = steps.isel(step=0)
    least, limit = float(first.limit), float(best.memory_limit)
    what = words(str(steps.attrs["parameter"]))
    return (
        f"No plan fits: the leanest needs {size(least, 'B')} where there are {size(limit, 'B')}: "
        f"{size(least - limit, 'B')} are missing. "
        f"From {what} {_gigabytes(first.value)} on {plan_said(first, steps)} fits, "
        f"{seconds(float(first.step_time))} a step."
    )


def _apart(step: xr.Dataset) -> str:
    """Return the capacity of a step in three digits, in more where today's would read the same."""
    value, today = float(step["value"]), float(step["value"] - step.change)
    digits = next((n for n in range(3, 9) if f"{value:.{n}g}" != f"{today:.{n}g}"), 3)
    return show(float(f"{value:.{digits}g}"), "B")


def _gigabytes(value: xr.DataArray) -> str:
    return size(float(f"{float(value):.3g}"), "B")
