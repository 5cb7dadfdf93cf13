"""Whether a training step fits on some accelerators, as one JSON object, in SI units."""

import json
from collections.abc import Mapping
from typing import Any

import xarray as xr

ASKED = ("where", "refused", "recipe", "inputs")
COUNTS = ("plans_legal", "plans_feasible", "sizes_tried")


def fit_plans_json(
    lean: xr.Dataset | None, fast: xr.Dataset | None, ways: Mapping[str, int | None]
) -> str:
    """Return the answer as one JSON object.

    ``plans`` has every field and result, least first; where the step time is known and the plans
    that need least were not asked for, fastest first. ``fastest`` and ``lean`` are one plan each,
    ``ways`` those of ``answer_of_fit``.
    """
    data = lean if lean is not None else fast
    assert data is not None
    plain = {
        "gpus": int(data.gpus),
        "fits": int(data.plans_feasible) > 0,
        "capacity": float(data.capacity),
        **{name: int(data[name]) for name in COUNTS if name in data},
        **{name: json.loads(data.attrs[name]) for name in ASKED},
        "ways": dict(ways),
        "plans": _rows(data),
    }
    if fast is not None:
        plain["fastest"] = _rows(fast)[0]
        about = {"step_time": float(fast.lean), "memory": float(fast.lean_memory)}
        plain["lean"] = {**json.loads(str(fast.lean_plan.values)), **about}
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def _rows(data: xr.Dataset) -> list[dict[str, Any]]:
    names = [str(name) for name in data.data_vars if data[name].dims == ("plan",)]
    return [
        {name: data[name].values[place].item() for name in names}
        for place in range(data.sizes["plan"])
    ]
