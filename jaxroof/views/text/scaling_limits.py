"""Results of the study of limits in words: thresholds, walls, sensitivities."""

import math

import numpy as np
import xarray as xr

from jaxroof.views.text.tables import tick

MOST = 24  # most sentences
SAME = 1e-3  # relative difference of runs that are the same
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
    every = list(np.ndindex(*(data.sizes[dim] for dim in dims)))
    said = []
    for index in every[:MOST]:
        at = dict(zip(dims, index, strict=True))
        words = [f"{' '.join(d.split('_'))} {tick(data, d, i)}" for d, i in at.items()]
        where = ", ".join(words).replace("system ", "")
        said.append(f"{where}{': ' * bool(words)}{_sentence(data.isel(at))}")
    rest = len(every) - len(said)
    return [*said, f"{rest:,} more in the data."] if rest else said


def _sentence(one: xr.Dataset) -> str:
    wall = f"latency allows none beyond {flop(float(one.wall))}"
    wall = wall if bool(one.wall_exists) else "latency sets no limit"
    if "threshold_80" not in one:
        good = np.flatnonzero(one.relative_utilisation.values >= 0.5)
        last = flop(float(one.training_flops.values[good[-1]])) if len(good) else "none"
        return f"half of the rate is used up to {last} of the runs here; {wall}."
    most, half = (float(one[mark]) for mark in MARKS)
    if most <= 0.0 and half <= 0.0:
        return f"no run uses half of the rate; {wall}."
    reach = f"80 % of the rate up to {flop(most)} FLOP" if most > 0.0 else "never 80 % of the rate"
    if most > 0.0 and abs(half / most - 1.0) < SAME:
        return f"{reach}, then nothing; {wall}."
    return f"{reach}, half of it up to {flop(half)} FLOP; {wall}."
