"""A plan of one's own: checked, placed among the plans that fit, and beside the best."""

import dataclasses
import json
from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.result_metadata import head_of, label_of, parts_of, said_of, words_of
from jaxroof.app.answers.plans import TOP, best_plans, fields_of, name_of
from jaxroof.app.question import Asked, asked
from jaxroof.app.state import TRAINING, State
from jaxroof.engine.search.plan_text import parse_plan, plan_items
from jaxroof.errors import InputError, listing, refusal, shown
from jaxroof.units import percent, seconds
from jaxroof.views.text import fastest_plans as training_words
from jaxroof.views.text.plan import fields_words, plan_numbers

FILLED = "What you left open is filled in with the fastest that fits: {fields}."
FIELD = "my plan"  # of the form


class Side(NamedTuple):
    """One side of a comparison: its name, its step time, and the parts of it in words [s]."""

    name: str
    step_time: float
    parts: dict[str, float]


class Mine(NamedTuple):
    """The best plan, one's own, what is to say of it, and the fields in which they differ."""

    best: Side
    own: Side
    sentences: tuple[str, ...]
    different: list[tuple[str, str, str]]


class Answered(NamedTuple):
    """The best plans, one's own beside them if there is one, and what is wrong with it."""

    data: xr.Dataset
    mine: Mine | None = None
    wrong: str = ""


def with_mine(state: State, top: int = TOP) -> Answered:
    """Return the best plans of a state and its own plan, which may be wrong without harm to them.

    Raises: InputError for a state that cannot be asked, and where no plan is legal or fits.
    """
    if not state.mine:
        return Answered(best_plans(state, top))
    try:
        given = own_fields(asked(state), state.mine)
        of = _of_training if state.estimator == TRAINING else _of_study
        return of(state, given, top)
    except InputError as error:
        words = str(error)
    data = best_plans(state, top)  # what is wrong with the question itself comes first
    for before in ("mine: ", "where: ", "plan: "):
        words = words.removeprefix(before)
    return Answered(data, None, words if words.startswith(FIELD) else f"{FIELD}: {words}")


def own_fields(found: Asked, text: str) -> dict[str, int]:
    """Return the fields of a plan that is typed, by their long names.

    Raises: InputError for what is no field of a plan, or no whole number.
    """
    for name, value in plan_items(FIELD, text).items():
        if not value.isdecimal():
            raise refusal(f"{FIELD}: {name}", f"expected a whole number, given {shown(value)}")
    assert found.estimator.plan is not None
    return parse_plan(FIELD, text, found.estimator.plan, found.estimator.short_names)


def _of_training(state: State, given: dict[str, int], top: int) -> Answered:
    data = best_plans(state, top, state.mine)
    said = training_words.own_sentence(data)
    if float(data.own_device) > float(data.capacity):
        return Answered(data, None, f"{FIELD}: {said}")
    plan = json.loads(str(data.own_plan.values))
    row = xr.Dataset({f: ((), plan[f], data[f].attrs) for f in plan}, attrs=data.attrs)
    parts = json.loads(str(data.own_parts.values))
    own = Side("Mine", float(data.own), {words_of(data, n): float(v) for n, v in parts.items()})
    return Answered(data, _beside(data, own, row, given, said))


def _of_study(state: State, given: dict[str, int], top: int) -> Answered:
    data = best_plans(state, top)
    rules = ",".join(f"{name}={value}" for name, value in given.items())
    both = ",".join(filter(None, (state.where, rules)))
    try:
        row = best_plans(dataclasses.replace(state, where=both), 1).isel(plan=0)
    except InputError:
        raise refusal(FIELD, f"no legal plan that fits has {rules}") from None
    own = side("Mine", row)
    best = float(data.step_time[0])
    said = f"Yours: {name_of(row)}, {seconds(own.step_time)} a step"
    slower = percent(own.step_time / best - 1.0, 1)
    said += f", {slower} slower." if own.step_time > best else ": it is the best plan."
    return Answered(data, _beside(data, own, row, given, said))


def _beside(data: xr.Dataset, own: Side, row: xr.Dataset, given: dict[str, int], said: str) -> Mine:
    best = data.isel(plan=0)
    sentences = (said, _filled_in(row, given))
    return Mine(side("Best", best), own, sentences, _different(best, row))


def side(name: str, row: xr.Dataset) -> Side:
    """Return one plan of a table as a side of a comparison."""
    parts = parts_of(row, "step_time") or ["step_time"]
    return Side(name, float(row.step_time), {words_of(row, n): float(row[n]) for n in parts})


def _filled_in(row: xr.Dataset, given: dict[str, int]) -> str:
    """Return the fields that were not typed and are not as usual: the fastest that fit."""
    known = [fields_words(row, plan_numbers(row), [f]) for f in fields_of(row) if f not in given]
    more = [words for words in known if words]
    return FILLED.format(fields=listing(more)) if more else ""


def _different(best: xr.Dataset, own: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return the plan fields in which two plans differ, with both values."""
    fields = [f for f in own.data_vars if f in fields_of(best) or f in fields_of(own)]
    return [
        (f"{label_of(best, f)} ({head_of(best, f)})", said_of(best, f), said_of(own, f))
        for f in map(str, fields)
        if int(best[f]) != int(own[f])
    ]
