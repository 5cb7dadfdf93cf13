"""Sensitivities of the limits of scaling to their parameters, as a table."""

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.units import percent
from jaxroof.views.text.scaling_limits import flop
from jaxroof.views.text.tables import plain_table

QUANTITIES = {  # results and their names in a table
    "relative_utilisation": "utilisation",
    "threshold_80": "80 % up to",
    "threshold_50": "50 % up to",
    "wall": "latency wall",
}


def sensitivity_table(data: xr.Dataset) -> Table:
    """Return the elasticities: by derivative, and in brackets by solving again if different."""
    table = plain_table("elasticity by derivative; in brackets solved again, where that differs")
    table.add_column("parameter", no_wrap=True)
    for name in data.result.values:
        table.add_numbers(f"{QUANTITIES[str(name)]}\n{_value(data, str(name))}")
    for parameter in data.parameter.values:
        row = data.sel(parameter=parameter)
        table.add_row(str(parameter), *(_cell(row.sel(result=name)) for name in data.result.values))
    return table


def _value(data: xr.Dataset, name: str) -> str:
    value = float(data.value.sel(result=name))
    return percent(value, 1) if name == "relative_utilisation" else flop(value)


def _cell(one: xr.Dataset) -> str:
    slope, solved = float(one.elasticity), float(one.solved)
    if not np.isfinite(slope):
        return "-"
    said = _short(slope)
    if not np.isfinite(solved):
        return f"{said} (ends)"
    near = abs(solved - slope) < 0.02 * max(1.0, abs(slope))
    return said if near else f"{said} ({_short(solved)})"


def _short(value: float) -> str:
    """Return a number with two decimals, and no minus before a zero.

    >>> _short(-1e-9), _short(-1.456)
    ('0.00', '-1.46')
    """
    return f"{round(value, 2) + 0.0:.2f}"
