"""What limits a step as one JSON object for programs, in SI units."""

import json
import math
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.explain import Explanation
from jaxroof.analyses.result_metadata import headlines, is_machine, need_of, objective_of
from jaxroof.views.text.explain import plan_of


def explain_json(found: Explanation) -> str:
    """Return an explanation as one JSON object; missing values are null or empty.

    ``elasticities`` and ``relaxed`` are by dotted path; ``elasticities_below`` are those for a
    decrease, where they differ; ``binding`` gives seconds of the step by operation and limit, and
    ``limits`` their sums; ``turns`` are the points where another limit becomes dominant.
    """
    best, need = found.best, need_of(found.operations)
    told = dict.fromkeys([*headlines(found.steps), *([need, f"{need}_limit"] if need else [])])
    plain = {
        "plan": _plan(best) if found.feasible else None,
        **{name: _number(best[name]) if name in best else None for name in told},
        **_slopes(found),
        **_binding(found),
        "switches": [
            _switch(row, objective_of(found.response)) for row in _rows(found.response, "switch")
        ],
        "switches_open": int(found.response.attrs.get("switches_open", 0)),
        "capacity_steps": [
            _step(found.steps, row)
            for row in _rows(found.steps, "step")
            if "parameter" in found.steps.attrs
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False)


def _slopes(found: Explanation) -> dict[str, Any]:
    told = found.elasticities.dropna("parameter", subset=["elasticity"])
    rows = [told.isel(parameter=i) for i in range(told.sizes["parameter"])]
    by_path = {str(row.parameter.values): row for row in rows}
    machine = {path: row for path, row in by_path.items() if is_machine(told, path)}
    others = {path: row for path, row in by_path.items() if path not in machine}
    return {
        "elasticities": {path: _number(row.elasticity) for path, row in machine.items()},
        "elasticities_below": {
            str(row.parameter.values): _number(row.elasticity_below) for row in rows if row.tie
        },
        "relaxed": {path: _number(row.elasticity) for path, row in others.items()},
    }


def _binding(found: Explanation) -> dict[str, Any]:
    told = found.operations.seconds
    rows = zip(told.operation.values, told.values.tolist(), strict=True)
    names = [str(name) for name in told["limit"].values]
    return {
        "binding": {str(operation): dict(zip(names, row, strict=True)) for operation, row in rows},
        "limits": found.limits if found.feasible else {},
        "turns": [
            {name.removeprefix("turn_"): row[name].item() for name in map(str, row.data_vars)}
            for row in _rows(found.turns, "turn")
        ],
    }


def _rows(data: xr.Dataset, dim: str) -> list[xr.Dataset]:
    return [data.isel({dim: i}) for i in range(data.sizes[dim])]


def _switch(row: xr.Dataset, aim: str) -> dict[str, Any]:
    factor = float(row.switch_factor)
    return {
        "parameter": str(row.switch_parameter.values),
        "direction": "up" if factor > 1.0 else "down",
        "order": int(row.switch_order),
        "factor": factor,
        "value": _number(row.switch_value),
        "plan": _plan(row),
        aim: _number(row[f"switch_{aim}"]),
        "until": _number(row.switch_until),
        "gain": _number(row.switch_gain),
    }


def _step(data: xr.Dataset, row: xr.Dataset) -> dict[str, Any]:
    aim = objective_of(data)
    return {
        "parameter": str(data.attrs["parameter"]),
        "value": _number(row.value),
        "change": _number(row.change),
        "gain": _number(row.gain),
        "plan": _plan(row),
        aim: _number(row[aim]),
        "place": int(row.place),
    }


def _plan(row: xr.Dataset) -> dict[str, int]:
    fields = plan_of(row)
    return {str(name): int(fields[name]) for name in fields.data_vars}


def _number(value: xr.DataArray) -> float | None:
    """Return a number, None if it is missing."""
    number = float(np.asarray(value))
    return number if math.isfinite(number) else None
