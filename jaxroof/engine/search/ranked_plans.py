"""The best plans of one machine, and what holds for all: of every estimator that is searched."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.dataset import attributes
from jaxroof.engine.search.one_machine import OneMachine, OwnPlan
from jaxroof.engine.search.plan_text import parse_plan
from jaxroof.estimator import TIE

Whole = Mapping[str, tuple[Any, str, str]]  # value, unit, sentence of what holds for all plans


def ranked_plans(machine: OneMachine, own: str | None = None) -> xr.Dataset:
    """Return the best plans of one machine that fit, best first, and what holds for all of them.

    Returns: a Dataset over ``plan`` of plan fields and results, with what ``standing`` says.
    Raises: InputError for fields that are not those of a plan, or that no legal plan has.
    """
    data = machine.reports(machine.best(machine.question.top)[0])
    counts: dict[str, tuple[Any, str, str]] = {
        "plans_legal": (machine.plans.size, "1", "Legal plans"),
        "plans_feasible": (len(machine.fitting), "1", "Legal plans that fit"),
    }
    best = data.isel(plan=0) if data.sizes["plan"] else None
    return data.assign(as_variables({**counts, **standing(machine, best, own)}))


def standing(machine: OneMachine, best: xr.Dataset | None, own: str | None = None) -> Whole:
    """Return how many plans are too close to the best to tell apart, and the place of the user's.

    Arguments: ``best`` is the best plan; ``own`` are fields of a plan of the user's.
    """
    found: dict[str, tuple[Any, str, str]] = {}
    if best is not None and bool(best["feasible"]):
        said = "Plans too close to the best for the model to tell apart"
        found["plans_alike"] = len(machine.alike(best)), "1", said
    return found if own is None else {**found, **place_of(machine, own)}


def place_of(machine: OneMachine, own: str) -> Whole:
    """Return the best plan that fits with the fields of the user's, and its place among all.

    If none with its fields fits, it is the leanest. Raises: as ``ranked_plans``.
    """
    aim, found = machine.question.objective, own_of(machine, own)
    report = machine.reports(np.array([found.place])).isel(plan=0)
    value, about = float(report[aim]), attributes(machine.metadata[aim])
    unit = about["units"]
    low, high = f"{aim}_low", f"{aim}_high"
    ends = {"own_low": low, "own_high": high} if low in report else {}
    parts = [n for n in report if str(report[n].attrs.get("part_of")) == aim]
    better, _ = machine.within(machine.question.sign * value - TIE * abs(value))
    return {
        "own": (value, unit, f"{about['long_name']}, of the best plan with the fields of yours"),
        **{n: (float(report[e]), unit, report[e].attrs["long_name"]) for n, e in ends.items()},
        "own_need": (float(machine.need[found.place]), "1", "What it needs"),
        "own_place": (1 + len(machine.distinct(better)), "1", "Its place among plans that fit"),
        "own_parts": (json.dumps({n: float(report[n]) for n in parts}), unit, "The parts of it"),
        **fields_of(machine, found.place),
        "own_filled": (
            json.dumps(machine.filled(found, found.place)),
            "1",
            "Those that were left open",
        ),
    }


def own_of(machine: OneMachine, own: str) -> OwnPlan:
    """Return the plan of the user's, from its fields as they are typed."""
    estimator = machine.question.estimator
    assert estimator.plan is not None
    return machine.own(own, parse_plan("mine", own, estimator.plan, estimator.short_names))


def fields_of(machine: OneMachine, place: int, name: str = "own_plan") -> Whole:
    """Return the fields of one plan, as JSON under a name."""
    return {name: (json.dumps(machine.plan(place)), "1", "Its fields")}


def as_variables(whole: Whole) -> dict[str, xr.Variable]:
    """Return what holds for all plans as variables without dimensions."""
    return {
        name: xr.Variable((), value, {"units": unit, "long_name": text})
        for name, (value, unit, text) in whole.items()
    }
