"""The tab that compares: a plan of one's own beside the best, and two machines side by side."""

import dataclasses
import json
from collections.abc import Iterator
from typing import NamedTuple

import panel as pn
import xarray as xr

from jaxroof.analyses.result_metadata import head_of, label_of, said_of
from jaxroof.app.controls import numbers_of
from jaxroof.app.figures import WHOLE, Bars, framed, time_parts
from jaxroof.app.html import alert, legend, paragraph, table, text
from jaxroof.app.plans import TOP, best_plans, figures_of_merit, names
from jaxroof.app.question import MAIN, asked, numbers, of_machine, shown, words_of
from jaxroof.app.state import State
from jaxroof.app.tabs import Shown, View
from jaxroof.errors import InputError
from jaxroof.views.text.compare import why
from jaxroof.views.text.plan import shown_fields
from jaxroof.views.text.ranked import own_sentence

OWN = "my plan"  # the field of the form
FIELDS = (("field", "A field of the plan"), ("best", "The best plan"), ("mine", "My plan"))
NO_PLAN = "Type a plan of your own under Rules and my plan, such as tp=8,pp=4, to see it here."
DIFFER, BOTH = "Where the two plans differ", "Both machines, each with its best plan"


def with_mine(state: State, top: int = TOP) -> tuple[xr.Dataset, str]:
    """Return the best plans of a state, its own among them, and what is wrong with that one."""
    if not state.mine:
        return best_plans(state, top), ""
    try:
        data = best_plans(state, top, state.mine)
        fits = float(data.own_device) <= float(data.capacity)
        return data, "" if fits else f"{OWN}: {own_sentence(data)}"
    except InputError as error:
        words = str(error)
    data = best_plans(state, top)  # what is wrong with the question itself comes first
    for before in ("mine: ", "where: ", "plan: "):
        words = words.removeprefix(before)
    return data, words if words.startswith(OWN) else f"{OWN}: {words}"


def mine(data: xr.Dataset) -> tuple[xr.Dataset, list[tuple[str, str, str]]]:
    """Return the times of the best plan and of one's own, and the fields in which they differ."""
    best, plan = data.isel(plan=0), json.loads(str(data.own_plan.values))
    own = best.assign({f: ((), plan[f], data[f].attrs) for f in plan})
    times = own.assign({**json.loads(str(data.own_parts.values)), WHOLE: float(data.own)})
    fields = dict.fromkeys(f for one in (best, own) for f in shown_fields(one) if f in plan)
    return _beside(best, times), [
        (f"{label_of(best, f)} ({head_of(best, f)})", said_of(best, f), said_of(own, f))
        for f in fields
        if int(best[f]) != int(own[f])
    ]


def _beside(one: xr.Dataset, other: xr.Dataset) -> xr.Dataset:
    """Return the times of two plans, and their parts, as a table of both."""
    every = [WHOLE, *time_parts(one)]
    pairs = {n: ("plan", [float(one[n]), float(other[n])], one[n].attrs) for n in every}
    return xr.Dataset(pairs, attrs=one.attrs)


class Two(NamedTuple):
    """The best plans of two machines, and the rows of what is compared: its name, here, there."""

    names: tuple[str, str]
    plans: tuple[xr.Dataset, xr.Dataset]
    rows: list[tuple[str, ...]]


def two_machines(state: State, data: xr.Dataset) -> Two:
    """Return the best plan on the system of a state and on the other one, unchanged."""
    kept = tuple(one for one in state.changes if not of_machine(one[0]))
    other = dataclasses.replace(state, system=state.other, own_system=None, mine="", changes=kept)
    both = data, best_plans(other, 1)
    rows: list[tuple[str, ...]] = [("Best plan", *(names(one)[0] for one in both))]
    merits = zip(*map(figures_of_merit, both), strict=True)
    rows += [(name, one, other) for (name, one, _), (_, other, _) in merits]
    here, there = numbers(asked(state)), numbers(asked(other))
    for path, number in numbers_of(state).items():
        if path in MAIN and path in there:
            values = here[path][0], there[path][0]
            rows.append((words_of(path), *(shown(value, number.unit) for value in values)))
    changed = any(of_machine(path) for path, _ in state.changes)
    sides = state.system_words + " (changed)" * changed, state.other
    return Two(sides, (both[0].isel(plan=0), both[1].isel(plan=0)), rows)


def machines_sentence(two: Two) -> str:
    """Return which machine is faster, by how much, and where the difference lies."""
    each = zip(two.names, two.plans, strict=True)
    (fast, best), (slow, after) = sorted(each, key=lambda one: float(one[1].step_time))
    by = float(after.step_time) / float(best.step_time)
    if by < 1.0005:
        return f"{fast} and {slow} take the same time."
    return f"{fast} is {by:.3g} times as fast as {slow}: {why(best, after)}."


# ---- The tab ------------------------------------------------------------------------------------


def compare_view() -> View:
    """Return the tab that compares plans and machines."""
    own, machines, about_mine, about_machines = Bars(), Bars(), text(), text()
    of_mine, of_machines = framed(own.picture, "my_plan"), framed(machines.picture, "two_machines")

    def later(found: Shown) -> Iterator[Two | str]:
        try:
            yield two_machines(found.state, found.data)
        except InputError as error:
            yield str(error)

    def show(found: Shown, two: Two | str) -> None:
        of_mine.visible = "own" in found.data and not found.wrong
        of_machines.visible = isinstance(two, Two)
        about_mine.object = f"<h3>My plan beside the best</h3>{_of_mine(found, own)}"
        said = _of_machines(two, machines) if isinstance(two, Two) else alert(two)
        about_machines.object = f"<h3>Two machines side by side</h3>{said}"

    parts = [about_machines, of_machines, about_mine, of_mine]
    return View(pn.Column(*parts, sizing_mode="stretch_width"), show, later=later)


def _of_mine(found: Shown, bars: Bars) -> str:
    if found.wrong:
        return alert(found.wrong)
    if "own" not in found.data:
        return paragraph(NO_PLAN)
    both, different = mine(found.data)
    entries = legend(bars.show(both, ["Best", "Mine"]))
    rows = table(FIELDS, different, DIFFER, left=[0]) if different else ""
    return paragraph(own_sentence(found.data)) + rows + entries


def _of_machines(two: Two, bars: Bars) -> str:
    entries = legend(bars.show(_beside(*two.plans), two.names))
    heads = [("", "What is compared"), *((name, "Its best plan") for name in two.names)]
    return paragraph(machines_sentence(two)) + table(heads, two.rows, BOTH, left=[0]) + entries
