"""The operations of one layer of today's training: a table, and what dominates it."""

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import percent, seconds
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table

LEAST = 0.005  # shares below are not worth words
DIGIT = 0.0005  # half of the last digit of a share that is printed
PLURAL = {  # of a kind of operation, as the subject of a sentence
    "matrix product": "matrix products",
    "kernel": "attention and other kernels",
    "message": "messages",
    "computed again": "recomputation",
    "wait": "waiting for the host",
}


def training_layer_table(data: xr.Dataset) -> PlainTable:
    """Return one row an operation: microseconds in both directions, FLOP, shares."""
    table = plain_table()
    table.add_column("operation", no_wrap=True)
    table.add_numbers("forward\nus", "backward\nus")
    table.add_numbers("GFLOP", optional=1)
    table.add_numbers("% of\nlayer", "% of\npeak")
    whole = data[["time_forward", "time_backward", "flops_forward", "flops_backward"]]
    for row in _shown(data):
        name = str(row.operation.values)
        peak = float(row.peak_share)
        cells = (_percent(float(row.share)), "-" if np.isnan(peak) else _percent(peak))
        table.add_row(name, *_amounts(row), *cells)
    table.add_section()
    table.add_row("total", *_amounts(whole.sum("operation")), "100.0", "")
    return table


def _shown(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the operations whose share is not 0 in the digits that are printed."""
    rows = (data.isel(operation=place) for place in range(data.sizes["operation"]))
    return [row for row in rows if float(row.share) >= DIGIT]


def _amounts(row: xr.Dataset) -> tuple[str, str, str]:
    flops = float(row.flops_forward) + float(row.flops_backward)
    times = (_short(float(row[f"time_{way}"]) * 1e6) for way in ("forward", "backward"))
    return (*times, _short(flops / 1e9))  # type: ignore[return-value]


def _short(value: float) -> str:
    return "-" if value == 0 else f"{value:.4g}" if value < 1000 else f"{value:,.0f}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f}"


def training_layer_sentence(data: xr.Dataset) -> str:
    """Return the time of the layer, what dominates it, and the largest operation."""
    forward, backward = (seconds(float(data[f"time_{w}"].sum())) for w in ("forward", "backward"))
    kinds = data.kind.values.astype(str)
    shares = {kind: float(data.share.values[kinds == kind].sum()) for kind in PLURAL}
    order = sorted(PLURAL, key=lambda kind: -shares[kind])
    parts = [f"{PLURAL[kind]} {percent(shares[kind])}" for kind in order if shares[kind] >= LEAST]
    largest = data.isel(operation=int(np.argmax(data.share.values)))
    name, share = str(largest.operation.values), percent(float(largest.share))
    return (
        f"One layer takes {forward} forward and {backward} backward. Of both: {listing(parts)}; "
        f"the largest operation is {name}, {share}."
    )


def notes_sentence(data: xr.Dataset) -> str:
    """Return what the rows mean that a reader cannot know."""
    rows = _shown(data)
    said = ["Peak: of 16-bit products. Messages are what nothing hides of them"]
    if any(str(row.operation.values) == "launch limit" for row in rows):
        said.append("the launch limit is what waiting for the host adds")
    if any(str(row.kind.values) == "computed again" for row in rows):
        said.append("recomputation repeats the forward pass, or parts of it, and its messages")
    return "; ".join(said) + "."
