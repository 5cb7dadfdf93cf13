"""What each of several limits of one machine keeps out, and what relaxing it alone would give."""

import json

import numpy as np
import xarray as xr

from jaxroof.engine.grid.dataset import field_metadata
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
    found = relaxed_limits(machine)
    told = {
        str(name): {
            str(key): value if np.isfinite(value := found[key].values[place].item()) else None
            for key in found.data_vars
        }
        for place, name in enumerate(machine.bounds if found.data_vars else ())
    }
    return {"relaxed": json.dumps(told)} if told else {}


def relaxed_limits(machine: OneMachine) -> xr.Dataset:
    """Return what each of several limits keeps out, and the best plan where it alone is relaxed.

    relaxed = least objective of the plans with result <= 1.1 bound, within the others

    Every number is read from results that were evaluated once.
    Returns: a Dataset over ``limit``, the results that are limited: the bound, how many plans
    exceed it, by how much the nearest of the plans within the others does (NaN without a plan), and
    the best objective where it is relaxed, and without it (NaN where nothing is within, or where a
    limit cannot be relaxed). Empty for an estimator with one limit.
    """
    question, names = machine.question, list(machine.bounds)
    limits, bounds = question.estimator.limits, [*machine.bounds.values()]
    if len(names) < 2 or not machine.plans.size:
        return xr.Dataset()
    aim, about = question.objective, field_metadata(question.report)
    value = question.sign * machine.columns([aim])[aim]
    best, free = np.full((2, len(names)), np.nan)
    for place, (limit, bound) in enumerate(zip(limits, bounds, strict=True)):
        more = machine.over[limit.result]
        others = [o <= 0.0 for name, o in machine.over.items() if name != limit.result]
        within = np.where(np.all(others, axis=0), value, FAR)
        for found, near in ((best, more <= RELAXED * abs(bound)), (free, True)):
            least = np.min(within, where=near, initial=FAR)
            found[place] = question.sign * least if limit.relax and least < FAR else np.nan
    beyond = [machine.beyond()[name] for name in names]
    said = f"Best where this limit alone is relaxed by {100.0 * RELAXED:g} %"
    units = xr.Variable("limit", [about[name]["unit"] for name in names])
    return xr.Dataset(
        {
            "limit_bound": ("limit", bounds, {"long_name": "What the result may be"}),
            "limit_excludes": ("limit", [n for n, _ in beyond], {"long_name": "Plans beyond it"}),
            "limit_missing": ("limit", [m for _, m in beyond], {"long_name": "By the nearest"}),
            "limit_relaxed": ("limit", best, {"units": about[aim]["unit"], "long_name": said}),
            "limit_free": ("limit", free, {"units": about[aim]["unit"], "long_name": "Without it"}),
        },
        {"limit": names, "limit_units": units},
    )
