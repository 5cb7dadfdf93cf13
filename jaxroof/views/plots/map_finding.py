"""What a map finds: its best result, where that begins, and how far the base machine is from it."""

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import rises, unit_of
from jaxroof.errors import listing
from jaxroof.units import percent
from jaxroof.views.plots import select as choose
from jaxroof.views.plots import systems
from jaxroof.views.plots.map_axes import primary
from jaxroof.views.plots.map_grounds import refused
from jaxroof.views.text.tables import amount

ALIKE = 2e-3  # relative difference of results that a reader calls the same


def map_finding(data: xr.Dataset, value: str, dims: tuple[str, str, str]) -> str:
    """Return the best of a map, where it begins, and how far the base machine is from it."""
    held = choose.feasible_values(data, data[value])
    if not np.isfinite(held.values).any():
        barred = bool(refused(data).all())
        return "No plan is allowed anywhere" if barred else "Nothing fits anywhere"
    more, unit = rises(data, value), unit_of(data, value)
    best = float(held.max() if more else held.min())
    near = np.argwhere(np.isfinite(held.values) & (abs(held.values / best - 1.0) < ALIKE))
    first = dict(zip(held.dims, near[near.sum(axis=1).argmin()].tolist(), strict=True))
    words = [
        choose.coordinate_words(data, [primary(data, dim)], first[dim])
        if dim in dims[:2]
        else choose.label(data, dim, first[dim])
        for dim in dims
        if dim
    ]
    beyond = held.isel({dim: slice(first[dim], None) for dim in dims[:2]})
    more_too = beyond.size > 1 and bool((abs(beyond / best - 1.0) < ALIKE).all())
    found = f"Best: {amount(best, unit)} with {listing(words)}{', or more' if more_too else ''}"
    base = systems.base_place(data, dims[:2])
    if base is None:
        return found
    there = held.sel(dict(zip(dims[:2], base, strict=True)), method="nearest")
    if there.ndim or not np.isfinite(float(there)):
        return found
    gap = abs(float(there) / best - 1.0)
    name = systems.base_name(data)
    if gap < ALIKE:
        return f"{found}; the {name} is as good"
    way, does = ("less", "reaches") if more else ("more", "takes")
    return f"{found}; the {name} {does} {amount(float(there), unit)}, {percent(gap, 1)} {way}"
