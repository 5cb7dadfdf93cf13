"""Two machines side by side, each with its best plan."""

import dataclasses
from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.app.answers.plans import best_plans, days_words, name_of
from jaxroof.app.fields import MAIN, of_machine, shown
from jaxroof.app.fields import words_of as field_words
from jaxroof.app.question import asked, numbers
from jaxroof.app.state import State
from jaxroof.units import percent, seconds, size

WHOLE = "step_time"


class Machine(NamedTuple):
    """One machine of a comparison: its name, its plan, and the parts of its step [s]."""

    name: str
    plan: str
    step_time: float
    parts: dict[str, float]
    numbers: tuple[str, ...]  # in the order of ``HEADS``


HEADS = ("step", "MFU", "tokens/s a GPU", "memory", "training")


def machine(name: str, row: xr.Dataset) -> Machine:
    """Return the best plan of a machine, to compare."""
    parts = parts_of(row, WHOLE) or [WHOLE]
    told = (
        seconds(float(row.step_time)),
        percent(float(row.mfu), 1),
        f"{float(row.tokens_per_second):,.0f}",
        size(float(row.memory), "B"),
        days_words(float(row.training_days)),
    )
    return Machine(
        name,
        name_of(row),
        float(row[WHOLE]),
        {words_of(row, n): float(row[n]) for n in parts},
        told,
    )


def two_machines(state: State, data: xr.Dataset) -> tuple[Machine, Machine]:
    """Return the best plan on the system of a state and on the other one, unchanged.

    Raises: InputError where the other cannot be asked.
    """
    mine = machine(state.system_words + " (changed)" * bool(changed(state)), data.isel(plan=0))
    other = dataclasses.replace(other_state(state), mine="")
    return mine, machine(state.other, best_plans(other, 1).isel(plan=0))


def changed(state: State) -> list[str]:
    """Return the numbers of the system that a state changes."""
    return [path for path, _ in state.changes if of_machine(path)]


def other_state(state: State) -> State:
    """Return the same question of the other system, whose numbers are its own."""
    kept = tuple(one for one in state.changes if not of_machine(one[0]))
    return dataclasses.replace(state, system=state.other, own_system=None, changes=kept)


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


def machines_sentence(here: Machine, there: Machine) -> str:
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
