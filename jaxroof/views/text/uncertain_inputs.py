"""The uncertain inputs as a table, those that move the result most first."""

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.units import size
from jaxroof.views.text.tables import plain_table

BAR = 16  # characters of a bar for a share of 1


def inputs_table(data: xr.Dataset) -> Table:
    """Return one row per uncertain input, sorted by its share of the variance.

    A single point has a bar for each input; several cluster sizes have a column each.
    """
    table, sizes = plain_table(), "gpus" in data.sizes
    table.add_column("uncertain\ninput", no_wrap=True)
    table.add_column("drawn from")
    parts = data.sobol_total if sizes else xr.concat([data.sobol_first, data.sobol_total], "gpus")
    heads = (
        [f"% on\n{int(n):,}" for n in data.gpus.values] if sizes else ["by itself\n%", "in all\n%"]
    )
    table.add_numbers("today", optional=1)
    table.add_numbers(*heads)
    if not sizes:
        table.add_column("share of\nthe variance", no_wrap=True, optional=2)
    names = short_names([str(path) for path in data.parameter.values])
    for i in first_to_last(data):
        row, shares = data.isel(parameter=i), parts.isel(parameter=i).values
        full = min(max(float(shares[-1]), 0.0), 1.0) if np.isfinite(shares[-1]) else 0.0
        bar = [] if sizes else ["█" * round(BAR * full)]
        today = size(float(row.parameter_today), str(row.units.values))
        cells = [names[i], str(row.drawn_from.values), today]
        table.add_row(*cells, *(digits(float(share)) for share in shares), *bar)
    return table


def short_names(paths: list[str]) -> list[str]:
    """Return the last part of each path, or the whole path if two last parts are the same.

    >>> short_names(["system.nics", "system.fast_latency"]), short_names(["a.x", "b.x", "a.y"])
    (['nics', 'fast_latency'], ['a.x', 'b.x', 'y'])
    """
    ends = [path.rpartition(".")[2] for path in paths]
    return [end if ends.count(end) == 1 else path for path, end in zip(paths, ends, strict=True)]


def first_to_last(data: xr.Dataset) -> list[int]:
    """Return the inputs sorted by their share of the variance over all points of a grid."""
    total = data.sobol_total
    mean = total.mean([d for d in total.dims if d != "parameter"]).values
    return [int(i) for i in np.argsort(-mean, kind="stable")]


def digits(share: float) -> str:
    """Return a share in percent, without the sign; an estimate beyond an end is that end.

    >>> digits(0.68262), digits(0.00041), digits(-1e-9), digits(1.09), digits(float("nan"))
    ('68.3', '0.041', '0', '100', '-')
    """
    if not np.isfinite(share):
        return "-"
    share = min(max(share, 0.0), 1.0)
    digits = 3 if share >= 0.01 else 2
    return "0" if abs(share) < 5e-6 else f"{100 * share:.{digits}g}"
