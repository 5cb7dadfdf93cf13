"""Two machines side by side, and a plan of one's own beside the best."""

import dataclasses
from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.result_metadata import head_of, label_of, parts_of
from jaxroof.app.answers.plans import best_plans, fields_of, name_of
from jaxroof.app.fields import MAIN, shown
from jaxroof.app.fields import words_of as field_words
from jaxroof.app.question import asked, numbers
from jaxroof.app.state import TRAINING, State
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import InputError, listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as training_words

WHOLE = "step_time"


class Side(NamedTuple):
    """One side of a comparison: its name, its plan, and the parts of its step [s]."""

    name: str
    plan: str
    step_time: float
    parts: dict[str, float]
    numbers: tuple[str, ...]  # in the order of ``HEADS``


HEADS = ("step", "MFU", "tokens/s a GPU", "memory", "days of training")


def side(name: str, row: xr.Dataset) -> Side:
    """Return one plan as a side of a comparison."""
    parts = parts_of(row, WHOLE) or [WHOLE]
    told = (
        seconds(float(row.step_time)),
        percent(float(row.mfu), 1),
        f"{float(row.tokens_per_second):,.0f}",
        size(float(row.memory), "B"),
        f"{float(row.training_days):,.3g}",
    )
    return Side(
        name,
        name_of(row),
        float(row[WHOLE]),
        {label_of(row, n): float(row[n]) for n in parts},
        told,
    )


def two_machines(state: State, data: xr.Dataset) -> tuple[Side, Side]:
    """Return the best plan on the system of a state and on the other one, unchanged.

    Raises: InputError where the other cannot be asked.
    """
    mine = side(state.system + " (changed)" * bool(changed(state)), data.isel(plan=0))
    other = dataclasses.replace(other_state(state), mine="")
    return mine, side(state.other, best_plans(other, 1).isel(plan=0))


def changed(state: State) -> list[str]:
    """Return the numbers of the system that a state changes."""
    return [path for path, _ in state.changes if path.startswith("system.")]


def other_state(state: State) -> State:
    """Return the same question of the other system, whose numbers are its own."""
    kept = tuple(one for one in state.changes if not one[0].startswith("system."))
    return dataclasses.replace(state, system=state.other, changes=kept)


def machine_rows(state: State) -> list[tuple[str, str, str, str]]:
    """Return the numbers of both systems: name, here, there, and the quotient."""
    here, there = numbers(asked(state)), numbers(asked(other_state(state)))
    rows = []
    for path in MAIN:
        if path in here and path in there:
            (value, about), (other, _) = here[path], there[path]
            unit = str(about["unit"])
            said = shown(value, unit), shown(other, unit), f"x {other / value:.3g}"
            rows.append((field_words(path), *said))
    return rows


def machines_sentence(here: Side, there: Side) -> str:
    """Return which machine is faster, by how much, and where the difference lies."""
    ratio = here.step_time / there.step_time
    fast, slow = (there, here) if ratio >= 1.0 else (here, there)
    by = max(ratio, 1.0 / ratio)
    if by < 1.0005:
        return f"{here.name} and {there.name} take the same time."
    saved = {
        n: slow.parts.get(n, 0.0) - fast.parts.get(n, 0.0) for n in {**slow.parts, **fast.parts}
    }
    most = max(saved, key=lambda name: saved[name])
    where = f"Most of the difference is {most}, {seconds(saved[most])} of a step."
    return f"{fast.name} is {by:.3g} times as fast as {slow.name}. {where}"


# ---- A plan of one's own ------------------------------------------------------------------------


class Mine(NamedTuple):
    """The best plan, the fastest plan with the fields of one's own, and what is to say of it."""

    best: Side
    own: Side
    sentence: str
    different: list[tuple[str, str, str]]


def mine_beside(state: State, data: xr.Dataset) -> Mine | None:
    """Return the best plan and the fastest plan with the fields of one's own; None without one.

    Raises: InputError for a plan that cannot be read, that no rule allows, or that does not fit.
    """
    if not state.mine:
        return None
    found = asked(state)
    fields = constraints_of(found.estimator, state.mine)
    for one in fields:
        if one.comparison not in ("=", "=="):
            raise InputError(f"mine: {one}: expected FIELD=NUMBER, such as tp=8")
    place = ""
    if state.estimator == TRAINING:
        placed = best_plans(state, 1, state.mine)
        if float(placed.own_device) > float(placed.capacity):
            raise InputError(f"mine: {training_words.own_sentence(placed)}")
        place = f", place {int(placed.own_place):,} of {int(placed.plans_feasible):,}"
    rules = ",".join(filter(None, (state.where, state.mine)))
    own = best_plans(dataclasses.replace(state, where=rules), 1).isel(plan=0)
    best = data.isel(plan=0)
    here, there = side("Best", best), side("Mine", own)
    return Mine(here, there, _mine_words(here, there, place), _different(best, own))


def _mine_words(best: Side, own: Side, place: str) -> str:
    """Return how far a plan of one's own is behind the best, and why."""
    behind = own.step_time / best.step_time - 1.0
    if behind < 5e-5:
        return f"Mine ({own.plan}) is the best plan."
    more = {n: own.parts.get(n, 0.0) - best.parts.get(n, 0.0) for n in {**own.parts, **best.parts}}
    worst = sorted((n for n in more if more[n] > 0.0), key=lambda n: -more[n])[:2]
    why = listing([f"{seconds(more[n])} more of {n}" for n in worst])
    said = f"Mine ({own.plan}) takes {seconds(own.step_time)}, {percent(behind, 1)} longer{place}."
    return f"{said} It has {why}." if why else said


def _different(best: xr.Dataset, own: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return the plan fields in which two plans differ, with both values."""
    fields = dict.fromkeys([*fields_of(best), *fields_of(own)])
    return [
        (f"{label_of(best, f)} ({head_of(best, f)})", f"{int(best[f]):,}", f"{int(own[f]):,}")
        for f in fields
        if int(best[f]) != int(own[f])
    ]
