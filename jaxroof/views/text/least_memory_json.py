"""The plans that need the least memory, as one JSON object for programs, in SI units."""

import json

import xarray as xr


def least_memory_json(data: xr.Dataset) -> str:
    """Return the answer as one JSON object; ``plans`` has every field and result, least first."""
    names = [str(name) for name in data.data_vars if data[name].dims == ("plan",)]
    plain = {
        "gpus": int(data.gpus),
        "fits": bool(data.fits),
        "capacity": float(data.capacity),
        **{name: int(data[name]) for name in ("plans_legal", "plans_feasible", "sizes_tried")},
        **{name: json.loads(data.attrs[name]) for name in ("where", "refused", "recipe", "inputs")},
        "plans": [
            {name: data[name].values[place].item() for name in names}
            for place in range(data.sizes["plan"])
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)
