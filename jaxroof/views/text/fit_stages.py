"""The memory of stages over axes: what the fullest stage of each point needs, and what fits."""

import itertools
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.units import size
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.tables import thinned, tick

GB = 1e9
ROWS = 40  # most rows of a table


def answer(data: xr.Dataset, page: Page = REPORT) -> Iterator[Said]:
    """Yield how many points fit, and what the fullest stage of each needs."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(stages_sentence(data))
    yield from quiet(fullest_table(data))


def fullest_table(data: xr.Dataset) -> PlainTable:
    """Return one row per point: its axes, what its fullest stage needs, and whether that fits."""
    dims = [str(dim) for dim in data.sizes if dim != "stage"]
    table = PlainTable("what the fullest stage needs")
    table.add_numbers(*dims)
    table.add_numbers("stage", "GB", "of\nGB")
    table.add_column("", no_wrap=True)
    points = list(itertools.product(*(range(data.sizes[dim]) for dim in dims)))
    for place in thinned(len(points), ROWS):
        at = dict(zip(dims, points[place], strict=True))
        row = data.isel(at)
        labels = [tick(data, dim, index) for dim, index in at.items()]
        capacity = f"{float(row.capacity) / GB:.4g}"
        if not bool(row.legal):
            table.add_row(*labels, "-", "-", capacity, "not legal")
            continue
        need = f"{float(row.needed) / GB:.2f}"
        fits = "fits" if bool(row.fits) else "does not fit"
        table.add_row(*labels, str(int(row.fullest_stage)), need, capacity, fits)
    return table


def stages_sentence(data: xr.Dataset) -> str:
    """Return how many points fit, and the leanest of those that do not."""
    legal, fits = data.legal.values, data.fits.values
    said = f"{fits.sum():,} of {legal.sum():,} legal plans fit"
    refused = legal.size - int(legal.sum())
    if refused:
        said += f"; {refused:,} more are not legal"
    short = legal & ~fits
    if short.any():
        least = float(np.min(data.missing.values[short]))
        said += f"; the nearest of those that do not lacks {size(least, 'B')}"
    return f"{said}."
