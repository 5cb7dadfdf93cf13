"""The machine of some data, and real systems beside it on a map of two of its fields."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from jaxroof import catalog
from jaxroof.analyses.result_metadata import machine_of
from jaxroof.catalog.lookup import device
from jaxroof.catalog.needs import answers
from jaxroof.records import get_at
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.map_axes import primary

BASE = "this machine"
NEAR = 0.05  # of the logarithm: systems nearer than that are at one place
Place = tuple[float, float]


def real_systems(
    estimator: str, fields: Sequence[str], spans: Sequence[np.ndarray]
) -> dict[Place, list[str]]:
    """Return the systems of the catalogue that lie within a map of two fields, by their place.

    Only those are among them that the estimator knows enough of.
    """
    places: dict[Place, list[str]] = {}
    for name in catalog.names("systems"):
        record = device(name) if estimator in answers(name) else None
        found = [None if record is None else get_at(record, field) for field in fields]
        if None in found:
            continue
        x, y = (float(value) for value in found)  # type: ignore[arg-type]
        if all(a.min() <= v <= a.max() for v, a in zip((x, y), spans, strict=True)):
            at = next((one for one in places if _apart(one, (x, y)) < NEAR), (x, y))
            places.setdefault(at, []).append(name)
    return places


def _apart(one: Place, other: Place) -> float:
    return float(max(abs(np.log(a / b)) for a, b in zip(one, other, strict=True)))


def family(names: Sequence[str]) -> str:
    """Return what systems at one place are called: a name, or the chips of several.

    >>> family(["a100-nvs4"]), family(["h100-nvs8", "h800-nvs8", "h100-sxm"])
    ('a100-nvs4', 'h100, h800')
    """
    if len(names) == 1:
        return names[0]
    return ", ".join(dict.fromkeys(name.partition("-")[0] for name in names))


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
        if base is None or _apart(place, base) >= NEAR
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
