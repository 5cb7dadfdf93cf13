"""What each of several limits of one machine keeps out, and what relaxing it alone would give."""

import json
import math
from typing import Any

import numpy as np

from jaxroof.engine.search.one_machine import OneMachine
from jaxroof.estimator import FAR

RELAXED = 0.1  # share of its bound by which a limit is relaxed


def limits_told(machine: OneMachine) -> dict[str, str]:
    """Return attributes that say what each of several limits excludes, and why nothing fits."""
    if len(machine.over) < 2:
        return {}
    why = {} if machine.held.any() else {"why_none": machine.why_none}
    return {"beyond": json.dumps(machine.beyond()), **why}


def relaxed_told(machine: OneMachine) -> dict[str, str]:
    """Return an attribute that says what ``relaxed_limits`` does, by limit as JSON; null is NaN."""
    told = {
        name: {key: value if np.isfinite(value) else None for key, value in each.items()}
        for name, each in relaxed_limits(machine).items()
    }
    return {"relaxed": json.dumps(told)} if told else {}


def relaxed_limits(machine: OneMachine) -> dict[str, dict[str, float]]:
    """Return what each of several limits keeps out, and the best plan where it alone is relaxed.

    limit_relaxed = least objective of the plans with result <= 1.1 bound, within the others

    Every number is read from results that were evaluated once.
    Returns: by limit, the result that is limited: ``limit_bound``, how many plans it
    ``limit_excludes``, ``limit_missing``, by how much the nearest of the plans within the others
    misses it (NaN without a plan), ``limit_relaxed``, and ``limit_free``, the best without it (NaN
    where nothing is within, or where a limit cannot be relaxed). Empty with one limit.
    """
    question = machine.question
    if len(machine.bounds) < 2 or not machine.plans.size:
        return {}
    found, beyond, value = {}, machine.beyond(), machine.signed
    for limit, (name, bound) in zip(question.estimator.limits, machine.bounds.items(), strict=True):
        others = [o <= 0.0 for other, o in machine.over.items() if other != name]
        within = np.where(np.all(others, axis=0) & limit.relax, value, FAR)
        ways: dict[str, Any] = {"relaxed": machine.over[name] <= RELAXED * abs(bound), "free": True}
        least = {way: np.min(within, where=near, initial=FAR) for way, near in ways.items()}
        best = {w: float(question.sign * v) if v < FAR else math.nan for w, v in least.items()}
        count, missing = beyond[name]
        told = {"bound": bound, "excludes": count, "missing": missing, **best}
        found[name] = {f"limit_{key}": each for key, each in told.items()}
    return found
