"""Whether a training step fits, as one JSON object for programs, in SI units."""

import json

import xarray as xr

LISTS = ("assumed", "hangs_on", "warnings", "changes")
OF = ("reported", "label", "usable")  # of the capacity
BOUNDED = ("allocated", "reserved", "device")


def fit_json(data: xr.Dataset) -> str:
    """Return the answer as one JSON object; ``stages`` has every term of every stage in bytes."""
    terms = [str(name) for name in data.data_vars if data[name].dims == ("stage",)]
    about = data.capacity.attrs
    plain = {
        "fits": bool(data.fits),
        "capacity": float(data.capacity),
        "missing": float(data.missing),
        "fullest_stage": int(data.fullest_stage),
        "largest_term": str(data.largest_term.values),
        "largest": float(data.largest),
        "step_time": float(data.step_time) if "step_time" in data else None,
        **({"fewest": int(data.attrs["fewest"])} if "fewest" in data.attrs else {}),
        **{name: json.loads(data.attrs[name]) for name in LISTS if name in data.attrs},
        "capacity_of": {name: about[name] for name in OF if name in about},
        "bounds": {name: data[name].attrs["bound"] for name in BOUNDED},
        "recipe": json.loads(data.attrs["recipe"]),
        "inputs": json.loads(data.attrs["inputs"]),
        "stages": [
            {"stage": stage, **{name: float(data[name][stage]) for name in terms}}
            for stage in range(data.sizes["stage"])
        ],
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)
