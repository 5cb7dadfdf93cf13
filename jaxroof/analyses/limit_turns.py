"""Where another limit comes to dominate a step as one parameter of the machine varies."""

import dataclasses
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.explain_task import Task
from jaxroof.analyses.time_limits import POINTS, limits_of
from jaxroof.records import get_at, replace_at

PASSES = 3  # refinement passes; each splits the cell of the previous one into this many
TURNS: dict[str, tuple[type[Any], str]] = {  # changes of the dominant limit as one parameter varies
    "turn_parameter": (np.str_, "Dotted path of what is moved"),
    "turn_factor": (float, "Where another limit comes to bind, as a multiple of today's value"),
    "turn_value": (float, "Where another limit comes to bind"),
    "turn_limit": (np.str_, "What binds there"),
}


def limit_turns(
    task: Task, inputs: Any, moved: xr.Dataset, today: np.ndarray, there: bool
) -> xr.Dataset:
    """Return where another limit becomes dominant in the step as one parameter varies.

    Searched on a grid of factors to either side of 1 and at both ends of every plan's interval,
    however short; then refined in the cell where the change lies.
    """
    span, first, signs = float(moved.factor.max()), int(today.argmax()), task.resources.signs
    rows = []
    for path in (str(path) for path in moved.parameter.values if there and str(path) in signs):
        for end in (span, 1.0 / span):
            cell, then = (1.0, end), first
            factors = _factors(moved, path, end)
            for _ in range(PASSES):
                tops = _tops(task, inputs, moved, path, factors)
                other = np.flatnonzero(tops != first)
                if not len(other):
                    break
                at = int(other[0])
                cell, then = (factors[max(at - 1, 0)], factors[at]), int(tops[at])
                factors = np.geomspace(*cell, POINTS)
            if then != first:
                rows.append(
                    (path, cell[1], cell[1] * float(get_at(inputs, path)), task.names[then])
                )
    rows.sort(key=lambda row: abs(np.log(row[1])))
    columns = list(zip(*rows, strict=True)) or [()] * len(TURNS)
    return xr.Dataset(
        {
            name: ("turn", np.array(column, dtype=kind), {"long_name": doc})
            for (name, (kind, doc)), column in zip(TURNS.items(), columns, strict=True)
        }
    )


def _factors(moved: xr.Dataset, path: str, end: float) -> np.ndarray:
    """Return factors of a parameter from 1 to an end, with the plans on both sides of a switch."""
    at = moved.switch_factor.values[moved.switch_parameter.values == path]
    at = at[(at > 1.0) == (end > 1.0)]
    found = np.concatenate([np.geomspace(1.0, end, POINTS), np.nextafter(at, 1.0), at])
    return found[np.argsort(np.abs(np.log(found)), kind="stable")]


def _tops(task: Task, inputs: Any, moved: xr.Dataset, path: str, factors: np.ndarray) -> np.ndarray:
    """Return the dominant limit at factors of a parameter, with the plan chosen anew at each."""
    found = []
    for start in range(0, len(factors), POINTS):
        some = factors[start : start + POINTS]
        asked = replace_at(inputs, path, get_at(inputs, path) * some)
        plans = plans_at(inputs, moved, path, some)
        asked = dataclasses.replace(asked, plan=type(inputs.plan)(**plans))
        *_, seconds = limits_of(asked, task.recipe, task.estimator)
        found.append(seconds.sum(axis=1).argmax(axis=1))
    return np.concatenate(found)


def plans_at(
    inputs: Any, moved: xr.Dataset, path: str, factors: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the best plan's fields at factors of a parameter, from the switches of a response."""
    own = moved.isel(switch=np.flatnonzero(moved.switch_parameter.values == path))
    at = own.switch_factor.values
    # the furthest switch passed on the way to a factor counts; without any, the current plan (last)
    passed = ((at >= 1.0) & (at <= factors[:, None])) | ((at < 1.0) & (at >= factors[:, None]))
    order = np.where(passed, own.switch_order.values, 0.0)
    place = np.hstack([order, np.full((len(factors), 1), 0.5)]).argmax(axis=1)
    return {
        field: np.append(own[f"switch_{field}"].values, getattr(inputs.plan, field))[place]
        for field in (field.name for field in dataclasses.fields(inputs.plan))
    }
