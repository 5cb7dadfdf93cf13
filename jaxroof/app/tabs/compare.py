"""The tab that compares: a plan of one's own beside the best, and two machines side by side."""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import panel as pn
import xarray as xr

from jaxroof.analyses.result_metadata import head_of, label_of, parts_of, said_of, words_of
from jaxroof.app.components import Form
from jaxroof.app.fields import MAIN, of_machine, shown
from jaxroof.app.fields import words_of as field_words
from jaxroof.app.figures import Bars, Part, framed, part_colours
from jaxroof.app.form import compare_groups
from jaxroof.app.html import alert, legend, paragraph, table, text
from jaxroof.app.plans import TOP, best_plans, fields_of, name_of
from jaxroof.app.question import asked, numbers
from jaxroof.app.state import State
from jaxroof.app.tabs.view import Shown, View
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.errors import InputError
from jaxroof.units import days, percent, seconds, size
from jaxroof.views.text.fastest_plans import own_sentence

WHOLE = "step_time"
OWN = "my plan"  # the field of the form
FIELDS = (("field", "A field of the plan"), ("best", "The best plan"), ("mine", "My plan"))
NO_PLAN = "Type a plan of your own under Rules and my plan, such as tp=8,pp=4, to see it here."
HEADS = ("best plan", "step", "MFU", "tokens/s a GPU", "memory", "training")


class Side(NamedTuple):
    """One side of a comparison: its name, its step time, and the parts of it in words [s]."""

    name: str
    step_time: float
    parts: dict[str, float]


# ---- A plan of one's own ------------------------------------------------------------------------


def with_mine(state: State, top: int = TOP) -> tuple[xr.Dataset, str]:
    """Return the best plans of a state with its own placed among them, and what is wrong with that.

    Raises: InputError for a state that cannot be asked, and where no plan is legal or fits.
    """
    if not state.mine:
        return best_plans(state, top), ""
    try:
        plan = asked(state).estimator
        assert plan.plan is not None
        parse_plan(OWN, state.mine, plan.plan, plan.short_names)
        data = best_plans(state, top, state.mine)
        fits = float(data.own_device) <= float(data.capacity)
        return data, "" if fits else f"{OWN}: {own_sentence(data)}"
    except InputError as error:
        words = str(error)
    data = best_plans(state, top)  # what is wrong with the question itself comes first
    for before in ("mine: ", "where: ", "plan: "):
        words = words.removeprefix(before)
    return data, words if words.startswith(OWN) else f"{OWN}: {words}"


def mine(data: xr.Dataset) -> tuple[Side, list[tuple[str, str, str]]]:
    """Return one's own plan as a side, and the fields in which it differs from the best."""
    best, plan = data.isel(plan=0), json.loads(str(data.own_plan.values))
    row = xr.Dataset({f: ((), plan[f], data[f].attrs) for f in plan}, attrs=data.attrs)
    parts = json.loads(str(data.own_parts.values))
    own = Side("Mine", float(data.own), {words_of(data, n): float(v) for n, v in parts.items()})
    shown_in_either = {*fields_of(best), *fields_of(row)}
    return own, [
        (f"{label_of(best, f)} ({head_of(best, f)})", said_of(best, f), said_of(row, f))
        for f in map(str, row.data_vars)
        if f in shown_in_either and int(best[f]) != int(row[f])
    ]


def side(name: str, row: xr.Dataset) -> Side:
    """Return one plan of a table as a side of a comparison."""
    parts = parts_of(row, WHOLE) or [WHOLE]
    return Side(name, float(row.step_time), {words_of(row, n): float(row[n]) for n in parts})


# ---- Two machines -------------------------------------------------------------------------------


class Two(NamedTuple):
    """Two machines, and the rows of what is compared: its name, here, there."""

    here: Side
    there: Side
    rows: list[tuple[str, str, str]]


def two_machines(state: State, data: xr.Dataset) -> Two:
    """Return the best plan on the system of a state and on the other one, unchanged.

    Raises: InputError where the other cannot be asked.
    """
    kept = tuple(one for one in state.changes if not of_machine(one[0]))
    other = dataclasses.replace(state, system=state.other, own_system=None, mine="", changes=kept)
    plans = data.isel(plan=0), best_plans(other, 1).isel(plan=0)
    rows = list(zip(HEADS, *map(_merits, plans), strict=True))
    here, there = numbers(asked(state)), numbers(asked(other))
    for path in MAIN:
        if path in here and path in there:
            unit = str(here[path][1]["unit"])
            said = [shown(known[path][0], unit) for known in (here, there)]
            rows.append((field_words(path), *said))
    changed = any(of_machine(path) for path, _ in state.changes)
    name = state.system_words + " (changed)" * changed
    return Two(side(name, plans[0]), side(state.other, plans[1]), rows)


def _merits(row: xr.Dataset) -> tuple[str, ...]:
    return (
        name_of(row),
        seconds(float(row.step_time)),
        percent(float(row.mfu), 1),
        f"{float(row.tokens_per_second):,.0f}",
        size(float(row.memory), "B"),
        f"{days(float(row.training_days))} days",
    )


def machines_sentence(here: Side, there: Side) -> str:
    """Return which machine is faster, by how much, and where the difference lies."""
    fast, slow = sorted((here, there), key=lambda one: one.step_time)
    by = slow.step_time / fast.step_time
    if by < 1.0005:
        return f"{here.name} and {there.name} take the same time."
    every = {**slow.parts, **fast.parts}
    saved = {part: slow.parts.get(part, 0.0) - fast.parts.get(part, 0.0) for part in every}
    most = max(saved, key=lambda part: saved[part])
    where = f"Most of the difference is {most}, {seconds(saved[most])} of a step."
    return f"{fast.name} is {by:.3g} times as fast as {slow.name}. {where}"


# ---- The tab ------------------------------------------------------------------------------------


def compare_view(told: Callable[[str, Any], None]) -> View:
    """Return the tab that compares plans and machines; ``told`` is the listener of its form."""
    own, machines = Bars("step time [s]"), Bars("step time [s]")
    about_mine, about_machines = text(), text()
    form = Form(told, always=True, sizing_mode="stretch_width")
    of_mine, of_machines = framed(own.picture, "my_plan"), framed(machines.picture, "two_machines")
    body = pn.Column(
        about_mine, of_mine, form, about_machines, of_machines, sizing_mode="stretch_width"
    )

    def show(found: Shown, _: Any) -> None:
        form.groups = compare_groups()
        form.values = {"other": found.state.other}

    def later(found: Shown) -> Iterator[Two | str]:
        try:
            yield two_machines(found.state, found.data)
        except InputError as error:
            yield str(error)

    def show_later(found: Shown, two: Two | str) -> None:
        colours = part_colours(found.data, WHOLE)
        of_mine.visible = "own" in found.data and not found.wrong
        of_machines.visible = isinstance(two, Two)
        about_mine.object = f"<h3>My plan beside the best</h3>{_of_mine(found, own, colours)}"
        said = _of_machines(two, machines, colours) if isinstance(two, Two) else alert(two)
        about_machines.object = f"<h3>Two machines side by side</h3>{said}"

    return View(body, lambda _: None, show, later, show_later, early=False)


def _of_mine(found: Shown, bars: Bars, colours: Mapping[str, str]) -> str:
    if found.wrong:
        return alert(found.wrong)
    if "own" not in found.data:
        return paragraph(NO_PLAN)
    own, different = mine(found.data)
    entries = bars.show(_parts(side("Best", found.data.isel(plan=0)), own), colours)
    rows = table(FIELDS, different, "Where the two plans differ", left=1) if different else ""
    return paragraph(own_sentence(found.data)) + rows + legend(entries)


def _of_machines(two: Two, bars: Bars, colours: Mapping[str, str]) -> str:
    here, there, rows = two
    entries = bars.show(_parts(here, there), colours)
    heads = [("", "What is compared"), (here.name, "This machine"), (there.name, "The other")]
    said = paragraph(machines_sentence(here, there))
    return said + table(heads, rows, "Both machines, each with its best plan", 1) + legend(entries)


def _parts(*sides: Side) -> list[Part]:
    """Return the parts of both sides as they are stacked."""
    found = []
    for one in sides:
        start = 0.0
        for name, value in one.parts.items():
            if value > 0.0:
                found.append(Part(one.name, name, start, start + value, value / one.step_time))
                start += value
    return found
