"""The machine of some data, and real systems beside it on a map of two of its fields."""

from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.result_metadata import machine_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.map_axes import primary
from jaxroof.views.real_systems import NEAR, Place, apart, family, real_systems

BASE = "this machine"


def marks(data: xr.Dataset, dims: Sequence[str]) -> list[tuple[Place, str]]:
    """Return the real systems on a map of data, in SI, but for the machine of the data."""
    shown = [primary(data, dim) for dim in dims]
    paths = [str(data[name].attrs.get("path", name)) for name in shown]
    if not all(path.startswith("system.") for path in paths):
        return []
    fields, spans = (
        [path.removeprefix("system.") for path in paths],
        [data[n].values for n in shown],
    )
    found = real_systems(str(data.attrs.get("estimator", "")), fields, spans)
    base = base_place(data, dims)
    return [
        (place, family(names))
        for place, names in found.items()
        if base is None or apart(place, base) >= NEAR
    ]


def base_place(data: xr.Dataset, dims: Sequence[str]) -> Place | None:
    """Return where on a map the machine of the run lies, None where it does not."""
    given, found = choose.run_inputs(data), []
    for dim in dims:
        name = primary(data, dim)
        path = str(data[name].attrs.get("path", name))
        at = given.get(path) if path.startswith(f"{machine_of(data)}.") else None
        if at is None or name != dim or not data[name].min() <= at <= data[name].max():
            return None
        found.append(float(at))
    return found[0], found[1]


def base_name(data: xr.Dataset) -> str:
    """Return what the machine of the run is called."""
    return str(data.attrs.get("system") or BASE)
