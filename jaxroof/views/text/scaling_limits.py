"""Results of the study of limits in words: thresholds, walls, sensitivities."""

import math

import numpy as np
import xarray as xr

MOST = 24  # most sentences
MARKS = {"threshold_80": "80 %", "threshold_50": "50 %"}


def flop(value: float) -> str:
    """Return the FLOP of a training run as text, with three digits.

    >>> flop(3.674e25), flop(0.0)
    ('3.67e25', 'none')
    """
    if value <= 0.0 or not math.isfinite(value):
        return "none"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def limits_sentences(data: xr.Dataset) -> list[str]:
    """Return for every machine the largest well-utilised run, and the latency wall."""
    if "relative_utilisation" not in data or "training_flops" not in data.dims:
        return []
    dims = [str(dim) for dim in data.sizes if dim != "training_flops"]
    shape = [data.sizes[dim] for dim in dims]
    said, every = [], list(np.ndindex(*shape))
    for index in every[:MOST]:
        one = data.isel(dict(zip(dims, index, strict=True)))
        said.append(f"{_where(data, dims, index)}{_sentence(one)}")
    rest = len(every) - len(said)
    return [*said, f"{rest:,} more in the data."] if rest else said


def _where(data: xr.Dataset, dims: list[str], index: tuple[int, ...]) -> str:
    words = []
    for dim, place in zip(dims, index, strict=True):
        value = data[dim].values[place] if dim in data.coords else place
        text = str(value) if data[dim].dtype.kind not in "if" else f"{float(value):.4g}"
        words.append(text if dim == "system" else f"{dim.replace('_', ' ')} {text}")
    return f"{', '.join(words)}: " if words else ""


def _sentence(one: xr.Dataset) -> str:
    wall = "latency sets no limit"
    if bool(one.wall_exists):
        wall = f"latency allows none beyond {flop(float(one.wall))}"
    if "threshold_80" not in one:
        share = one.relative_utilisation.values
        runs = one.training_flops.values
        good = np.flatnonzero(share >= 0.5)
        last = flop(float(runs[good[-1]])) if len(good) else "none"
        return f"half of the rate is used up to {last} of the runs here; {wall}."
    most, half = (float(one[mark]) for mark in MARKS)
    if most <= 0.0 and half <= 0.0:
        return f"no run uses half of the rate; {wall}."
    reach = f"80 % of the rate up to {flop(most)} FLOP, half of it up to {flop(half)}"
    if most <= 0.0:
        reach = f"never 80 % of the rate, half of it up to {flop(half)} FLOP"
    elif abs(half / most - 1.0) < 1e-3:
        reach = f"80 % of the rate up to {flop(most)} FLOP, then nothing"
    return f"{reach}; {wall}."
