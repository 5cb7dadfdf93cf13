"""Facts read from an operator's roofline: its cases, what binds, and where that changes."""

import math

import numpy as np
import xarray as xr

from jaxroof.units import size

CASE = "case"  # the dimension of several machines or number formats
TIMES = {  # possible limits: the time, what takes it, the verdict
    "compute": ("math_time", "arithmetic", "compute bound"),
    "memory": ("memory_time", "memory traffic", "memory bound"),
    "link": ("link_time", "communication", "link bound"),
}
VERDICTS = ("compute_bound", "memory_bound", "link_bound", "critical_exists")
NEEDED = ("math_time", "memory_time", "link_time", "lower", "upper", "intensity", "balance")
MOST_DIGITS = 1e15  # largest number that is written out in full
PHYSICAL = ("B", "B/s", "FLOP", "FLOP/s", "s", "W")


def is_roofline(data: xr.Dataset) -> bool:
    """Return whether the data are the roofline of an operator."""
    return all(name in data for name in (*NEEDED, *VERDICTS, "critical", "critical_small"))


def across(data: xr.Dataset) -> str:
    """Return the dimension of machines, number formats or choices; empty if there is none."""
    texts = (str(d) for d in data.sizes if d in data.coords and data[d].dtype.kind in "UOT")
    return next(texts, CASE)


def cases(data: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the name and the data of each case: machine and number format."""
    dim = across(data)
    if dim not in data.sizes:
        texts = (c for c in data.coords.values() if not c.dims and c.dtype.kind in "UOT")
        return [(" ".join(str(text.values) for text in texts), data)]
    return [(str(name), data.isel({dim: i})) for i, name in enumerate(data[dim].values)]


def sweep_dimension(data: xr.Dataset) -> str | None:
    """Return the swept dimension, if there is one."""
    return next((str(dim) for dim in data.sizes if dim != across(data)), None)


def letter(data: xr.Dataset, dim: str) -> str:
    """Return the displayed name of a dimension: its letter, or its name."""
    return str(data[dim].attrs.get("symbol") or dim.replace("_", " "))


def milestones(values: np.ndarray, most: int = 12) -> list[int]:
    """Return the positions of at most ``most`` values to show: doublings, and both ends."""
    count = len(values)
    doublings = math.log2(values[-1] / values[0]) if values[0] > 0 else 0.0
    if count <= most or doublings < 4:
        return sorted({round(float(i)) for i in np.linspace(0, count - 1, min(count, most))})
    every = math.ceil(doublings / (most - 1))
    steps = np.arange(0.0, doublings, every)
    near = np.abs(np.log2(values / values[0])[:, None] - steps).argmin(axis=0)
    return sorted({*map(int, near), count - 1})


def binding(point: xr.Dataset) -> str:
    """Return what binds at one point: compute, memory or link."""
    return next((name for name in TIMES if bool(point[f"{name}_bound"])), "compute")


def is_critical(part: xr.Dataset) -> bool:
    """Return whether what is swept has a critical value.

    If the data do not name the critical size, it is inferred from what binds on both sides of it.
    """
    dim, known = sweep_dimension(part), part.attrs.get("critical_letter")
    if dim is None or not has_critical(part):
        return False
    low, high = float(part.critical.min()), float(part.critical.max())
    if high - low > 1e-9 * abs(high):
        return False
    if known is not None:
        return letter(part, dim) == known
    above = part[dim].values >= high
    bound = part.compute_bound.broadcast_like(part[dim]).values
    return bool(above.any() and not above.all() and np.all(above == bound))


def has_critical(part: xr.Dataset) -> bool:
    """Return whether every point has a critical size, from which on arithmetic binds."""
    idle = against(part) == "link" and not np.any(part.link_time.values)
    return not idle and bool(np.all(part.critical_exists.values))


def against(data: xr.Dataset) -> str:
    """Return which time arithmetic exceeds from the critical size on: memory or link."""
    return str(data.attrs.get("critical_against", "memory"))


def on_links(data: xr.Dataset) -> bool:
    """Return whether links bind anywhere, so that the roof to show is that of the links."""
    return "link_balance" in data and bool(np.any(data.link_bound.values))


def sized(value: float, unit: str) -> str:
    """Return a size of a shape as text: all digits of a count, a unit if it is physical."""
    if unit in PHYSICAL:
        return size(value, unit)
    whole = abs(value - round(value)) <= 1e-9 * abs(value)
    return f"{value:,.0f}" if whole else f"{value:.6g}"


def at(value: xr.DataArray) -> str:
    """Return a size of a shape as text, with the unit of its data."""
    return sized(float(value), str(value.attrs.get("units", "1")))


def critical_words(point: xr.Dataset) -> str:
    """Return the size from which arithmetic binds, exact and by the small-size estimate."""
    name, other = str(point.attrs.get("critical_letter", "")), against(point)
    if not name or (other == "link" and not np.any(point.link_time.values)):
        return ""
    alone = other == "memory" and not np.any(point.link_time.values)
    outlasts = f"arithmetic outlasts {TIMES[other][1]}"
    if not bool(point.critical_exists):
        return f"No {name} makes it compute bound." if alone else f"At no {name} {outlasts}."
    said = "It is compute bound" if alone else f"A{outlasts[1:]}"
    if float(point.critical) <= 1:
        return f"{said} at every {name}."
    start = first_whole(float(point.critical))
    return f"{said} from {name} = {start} on ({critical_sizes(point, name)})."


def critical_sizes(point: xr.Dataset, name: str) -> str:
    """Return the critical size, exact and by the small-size estimate."""
    exact, small = float(point.critical), float(point.critical_small)
    guess = f"; small-{name} estimate {number(small)}" if small not in (0.0, exact) else ""
    return f"{number(exact)} exactly{guess}"


def number(value: float) -> str:
    """Return a plain number with four digits, and every digit before the decimal point."""
    if abs(value) >= MOST_DIGITS:
        return f"{value:.4g}"
    if value == round(value):
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def first_whole(critical: float) -> str:
    """Return the smallest whole size that is not below a critical size."""
    return f"{math.ceil(critical * (1 - 1e-12)):,}"


def turn_words(part: xr.Dataset) -> str:
    """Return what binds over a sweep and where that changes, with the critical size if known."""
    dim = sweep_dimension(part)
    assert dim is not None
    name, values = letter(part, dim), part[dim]
    bounds = [binding(part.isel({dim: i})) for i in range(part.sizes[dim])]
    turns = [i for i in range(1, len(bounds)) if bounds[i] != bounds[i - 1]]
    critical = float(np.ravel(part.critical.values)[-1]) if is_critical(part) else -1.0
    said = TIMES[bounds[0]][2]
    if not turns:
        if bounds[-1] != "compute" and critical > float(values[-1]):
            return f"{said} at every {name} here, compute bound from {first_whole(critical)} on"
        return f"{said} at every {name}"
    for i in turns:
        known = bounds[i] == "compute" and float(values[i - 1]) < critical <= float(values[i])
        before, start = (at(values.isel({dim: n})) for n in (i - 1, i))
        said += "" if known else f" up to {name} = {before}"
        start = first_whole(critical) if known else start
        said += f", then {TIMES[bounds[i]][2]} from {name} = {start} on"
    return said
