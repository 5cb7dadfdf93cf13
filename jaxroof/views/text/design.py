"""The best machine for a budget: comparison with the base, active bounds and optimality proof."""

from collections.abc import Iterator

import numpy as np
import xarray as xr
from rich.console import JustifyMethod

from jaxroof.errors import listing
from jaxroof.records import last_name
from jaxroof.units import amount, show
from jaxroof.views.parameter_words import words_of
from jaxroof.views.text.interval import LOW, interval_sentence, tokens_sentence
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import placed_words, plan_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.whole_run import run_sentence

SAME = 1e-3  # relative change of a field that is too small to report
HELD = {"least": "its least", "most": "its most", "need": "what the plan needs", "inside": ""}
WORTH = {"least": "1 % below it", "most": "1 % above it", "need": "1 % less need"}
HOLDS = {"least": "its least", "most": "its most", "need": "the plan", "inside": ""}  # in a table


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what the budget buys, the plan, the bounds that hold, and the proof."""
    first, *rest = design_sentences(data)
    yield from title(str(data.attrs.get("title", "")))
    yield from quiet(first)
    yield from usual(*rest, design_table(data))
    yield from usual(interval_sentence(data))
    yield from verbose(*proof_sentences(data))
    yield from usual(*warning_sentences(data))
    yield from usual(tokens_sentence(data) if LOW in data else "")


def leaf(path: str) -> str:
    """Return the last part of a field's path.

    >>> leaf("system.hbm_bandwidth")
    'hbm_bandwidth'
    """
    return last_name(path)


def dollars(value: float) -> str:
    """Return an amount of money.

    >>> dollars(34880.0), dollars(1.5)
    ('$34,880', '$1.5')
    """
    return f"${value:,.0f}" if value >= 100 else f"${value:.4g}"


def bound_kinds(data: xr.Dataset) -> list[str]:
    """Return which bound is active on each field: inside (none), least, most or need."""
    flags = str(data.held.attrs["flag_meanings"]).split()
    return [flags[int(flag)] for flag in data.held.values]


def result_of(data: xr.Dataset) -> tuple[np.ndarray, str]:
    """Return the objective of the base and of the best machine, and its unit."""
    result = data[str(data.attrs["objective"])]
    return result.values, str(result.attrs.get("units", "1"))


def design_table(data: xr.Dataset) -> PlainTable:
    """Return one row per field: the base, the best, the cost of each and the saving per dollar."""
    unit = result_of(data)[1]
    kinds, units = bound_kinds(data), data.field_units.values

    def value(place: int, machine: int) -> str:
        return show(float(f"{float(data.value[machine, place]):.4g}"), str(units[place]))

    def field(place: int) -> list[str]:
        one = data.isel(field=place)
        others = listing([leaf(other) for other in str(one.field_with.values).split()])
        name = leaf(str(one.field.values)) + (f",\n{others}" if others else "")
        ratio = f"{float(one.value[1] / one.value[0]):.3g}"
        spent = [f"{cost:,.0f}" for cost in one.spent.values]
        saved = _number(1e3 * float(one.saved_per_dollar[1]))
        return [name, value(place, 0), value(place, 1), ratio, *spent, saved, HOLDS[kinds[place]]]

    rows = [field(place) for place in range(data.sizes["field"])]
    if float(data.fixed) > 0:
        rows.append(["anyway", "", "", "", *[f"{float(data.fixed):,.0f}"] * 2, "", ""])
    total = [f"{float(cost):,.0f}" for cost in data.cost.values]
    # where the objective includes the cost, the sentences give the saving: its unit differs
    worth = "" if data.attrs["times_cost"] == "true" else _number(1e3 * float(data.budget_value))
    budget = "budget" if bool(data.budget_active) else ""
    rows.append(["all of it", "", "", "", *total, worth, budget])
    saves = f"{'days' if unit == 'day' else unit}\nsaved by\n$1,000"
    heads = [("field", 0), ("base", 0), ("best", 0), ("times", 4), ("base\n$", 3), ("best\n$", 2)]
    heads += [(saves, 5), ("limited by", 1)]

    def column(place: int, head: str, soon: int) -> Shown:
        side: JustifyMethod = "left" if place in (0, len(heads) - 1) else "right"
        return Shown(head, lambda row: row[place], soon, side)

    columns = [column(place, *one) for place, one in enumerate(heads)]
    return PlainTable().add_rows(columns, rows)


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value + 0.0:.3g}"


def design_sentences(data: xr.Dataset) -> list[str]:
    """Return the improvement for the budget, where to spend it, the plan and the active bounds."""
    return [_bought(data), *_plans(data), _holding(data)]


def proof_sentences(data: xr.Dataset) -> list[str]:
    """Return which fields are worth as much as one another, and the evidence of the optimum."""
    free = [
        words_of(str(path))
        for path, how in zip(data.field.values, bound_kinds(data), strict=True)
        if how == "inside"
    ]
    alike = [f"A dollar more saves as much in {listing(free)}."] if len(free) > 1 else []
    return [*alike, _proof(data)]


def warning_sentences(data: xr.Dataset) -> list[str]:
    """Return that the best found may not be the best there is, where that is so."""
    if bool(data.convex):
        return []
    return ["A better machine may exist: step times are not convex here, so none is proved best."]


def _bought(data: xr.Dataset) -> str:
    """Return the change from the base: the objective, and which fields grow and shrink."""
    (before, after), unit = result_of(data)
    cost, spent = (float(value) for value in data.cost.values)
    price = f"the same {dollars(cost)}" if abs(spent / cost - 1) < SAME else dollars(spent)
    price = price[:1].upper() + price[1:]
    if not np.isfinite(before):
        return f"{price} a part takes {amount(after, unit)}; no plan fits the base at all."
    up, down = _moves(data)
    if not up and not down:
        return f"{price} a part buys nothing better than the base: {amount(after, unit)}."
    noun = "days" if unit == "day" else str(data.attrs["objective"]).replace("_", " ")
    less = f"% {'fewer' if unit == 'day' else 'less'} {noun}"
    change = f"buys {100 * (1 - after / before):.3g} {less}"
    if after > before:
        change = f"takes {100 * (after / before - 1):.3g} % more {noun}"
    said = f"{price} a part {change}: {amount(after, unit)} instead of {amount(before, unit)}"
    if price.startswith("$"):
        said += f" for {dollars(cost)}"
    if data.attrs["times_cost"] == "true":
        share = 1 - after * spent / (before * cost)
        said += f", {100 * abs(share):.3g} % {'less' if share > 0 else 'more'} cost x {noun}"
    moves = [f"spend it on {listing(up)}"] if up else []
    moves += [f"give up {listing(down)}"] if down else []
    text = "; ".join(moves)
    return f"{said}. {text[:1].upper()}{text[1:]}."


def _moves(data: xr.Dataset) -> tuple[list[str], list[str]]:
    """Return the growth of each field that grows and of each that shrinks, by the money moved."""
    moved = data.spent.values[1] - data.spent.values[0]
    found: tuple[list[str], list[str]] = ([], [])
    for number in np.argsort(-np.abs(moved), kind="stable"):
        before, after = data.value.values[:, number]
        change = show(float(f"{abs(after - before):.3g}"), str(data.field_units.values[number]))
        what = words_of(str(data.field.values[number])).removesuffix(" rate")
        if abs(after / before - 1) >= SAME:
            found[int(after < before)].append(f"{'+' * bool(after > before)}{change} of {what}")
    return found


def _plans(data: xr.Dataset) -> list[str]:
    """Return the plan of the best machine, and of the base."""
    if "tensor" not in data.data_vars:
        return []
    best, base = (data.isel(machine=i) for i in (1, 0))
    there = f"; on the base: {placed_words(base)}" if bool(base.feasible) else ""
    same = placed_words(base) == placed_words(best)
    also = ", as on the base" if there and same else there
    return [f"Its plan: {placed_words(best)}{also}.", plan_sentence(best), _run(best)]


def _run(best: xr.Dataset) -> str:
    """Return what the whole run on the best machine takes; its cost is not that of the machine."""
    dollars = {"result_cost": "cost"} if "result_cost" in best else {}
    return run_sentence(best.drop_vars("cost").rename(dollars))


def _holding(data: xr.Dataset) -> str:
    """Return what a larger budget saves, and which bounds are active."""
    unit = result_of(data)[1]
    said = []
    if bool(data.budget_active):
        worth = amount(1e3 * float(data.budget_value), unit)
        if data.attrs["times_cost"] == "true":
            worth = f"{1e3 * float(data.budget_value):.4g} dollar days"
        share = f"{float(data.budget_elasticity):.3g} % for 1 %"
        said.append(f"$1,000 more a part saves {worth} ({share} of the budget)")
    else:
        said.append(f"it leaves {dollars(float(data.budget - data.cost[1]))} of the budget")
    every = zip(data.field.values, bound_kinds(data), data.multiplier.values, strict=True)
    bound = [(words_of(str(p)), how, float(m)) for p, how, m in every if how != "inside"]
    said += [
        f"{name} is at {HELD[how]} ({WORTH[how]} is worth {_share(m)})" for name, how, m in bound
    ]
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]}."


def _share(value: float) -> str:
    return "nothing" if abs(value) < 1e-6 else f"{value:.2g} %"


def _proof(data: xr.Dataset) -> str:
    """Return the evidence that no machine is better, and where the starts converged."""
    ends, best = data.start_objective.values, float(data.least_objective)
    agree, came = int(np.sum(ends <= best * (1 + 1e-9))), ends[np.isfinite(ends)]
    gap = f"{max(100 * float(data.gap), 1e-8):.1g} %"
    said = f"No machine within the bounds and the budget does better, to {gap}"
    if int(data.plans_held) > 1:
        said += f", under any of the {int(data.plans_held):,} plans that one of them holds"
        said += f" ({int(data.plans_solved):,} solved, the others bounded)"
    rest = f"{agree or 'none'} of {len(ends)} descents ended there"
    if len(came) and agree < len(came):
        others = came[came > best * (1 + 1e-9)]
        ends_of = (100 * (end / best - 1) for end in (others.min(), others.max()))
        behind = " to ".join(dict.fromkeys(f"{share:.3g}" for share in ends_of))
        rest += f", the other{'s' * (len(others) > 1)} {behind} % behind"
    if len(came) < len(ends):
        rest += f", {len(ends) - len(came)} began where no plan fits"
    return f"{said}; {rest}."
