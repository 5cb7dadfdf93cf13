"""A whole run in words: days with their band, dollars, energy, and what it does between."""

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import days, percent, show

GWH, MILLION = 3.6e12, 1e6
NEVER = 1e6  # days of a run that does not end
RUN = "wall_days"  # days with stops, where an operation is given


def money(value: float) -> str:
    """Return dollars, in millions from a million on.

    >>> money(31548150.0), money(890.0)
    ('$31.5 million', '$890')
    """
    if not np.isfinite(value):
        return "-"
    many = abs(value) >= MILLION
    return f"${value / MILLION:.3g} million" if many else f"${value:,.0f}"


def energy(value: float) -> str:
    """Return joules in GWh or MWh.

    >>> energy(6.44e13), energy(3.6e10)
    ('17.9 GWh', '10 MWh')
    """
    if not np.isfinite(value):
        return "-"
    return f"{value / GWH:.3g} GWh" if value >= GWH else f"{1e3 * value / GWH:.3g} MWh"


def carbon(value: float) -> str:
    """Return kilograms of carbon dioxide in tonnes.

    >>> carbon(252_800.0)
    '253 t CO2'
    """
    return f"{value / 1e3:,.3g} t CO2" if np.isfinite(value) else "-"


def duration(seconds: float) -> str:
    """Return a time in seconds below a minute, in minutes, or in hours from two on.

    >>> duration(1.0), duration(467.0), duration(9000.0)
    ('1 s', '7.8 minutes', '2.5 hours')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 3600:.2g} hours" if seconds >= 7200 else f"{seconds / 60:.2g} minutes"


def lasts(value: float) -> str:
    """Return a cell of days with stops.

    >>> lasts(48.1), lasts(3e14)
    ('48.1', 'never ends')
    """
    return days(value) if value < NEVER else "never ends"


def takes(run: xr.Dataset) -> str:
    """Return what a run takes: days, those of the slowest published runs, dollars and energy."""
    value, high = float(run.wall_days), float(run.wall_days_high)
    if value > NEVER:
        return "for ever, as failures leave no time to train"
    slower = f" (up to {days(high)} at the speed of published runs)" * (high > 1.001 * value)
    said = [f"{days(value)} days{slower}"]
    shown = {"cost": money, "energy": energy}
    shown |= {"carbon": carbon} if run.attrs.get("minimise") == "carbon" else {}
    for name, words in shown.items():
        value = float(run[name]) if name in run else np.nan
        said += [words(value)] if np.isfinite(value) else []
    return ", ".join(said)


def operated(run: xr.Dataset) -> str:
    """Return how a run is operated: saves, spares, goodput, and failures without a spare."""
    good = percent(float(run.goodput), 1)
    short = float(run.spare_short)
    lack = f", {percent(short)} of the failures find no spare" * (short > 0.01)
    spares = int(run.spares)
    nodes = f"{spares:,} spare node{'s' * (spares != 1)}"
    return f"save every {duration(float(run.save_interval))}, {nodes}, goodput {good}{lack}"


def run_sentence(run: xr.Dataset) -> str:
    """Return one sentence on a whole run; empty where none is asked."""
    return f"With its stops it takes {takes(run)}: {operated(run)}." if RUN in run else ""


def reliability_sentence(run: xr.Dataset) -> str:
    """Return what 1 % more reliability is worth in days and dollars, empty where nobody asks.

    >>> reliability_sentence(xr.Dataset({"reliability_days": 0.0164, "reliability_cost": 10712.0}))
    '1 % more time between failures of a chip saves 0.0164 days and $10,712.'
    """
    if "reliability_days" not in run:
        return ""
    saved = [f"{days(float(run.reliability_days))} days"]
    saved += [money(float(run.reliability_cost))] if "reliability_cost" in run else []
    return f"1 % more time between failures of a chip saves {listing(saved)}."


def days_of(run: xr.Dataset) -> float:
    """Return the days of a training: with its stops, where it is said how it is operated."""
    return float(run[days_result(run)])


def days_result(data: xr.Dataset) -> str:
    """Return the result that holds these days."""
    return RUN if RUN in data else "training_days"


def watts(value: float) -> str:
    """Return power with three digits.

    >>> watts(15318130.0)
    '15.3 MW'
    """
    return show(float(f"{value:.3g}"), "W") if np.isfinite(value) else "-"
