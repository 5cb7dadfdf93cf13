"""The operations of one layer as a table, and what they add up to."""

import json

import xarray as xr
from rich.table import Table

from jaxroof.views.text.tables import plain_table
from jaxroof.views.text.training_layers import training_layer_table
from jaxroof.views.text.unfused import block_tables

REPEATED = 1e-12  # smaller shares of the backward time are rounding


def tables_of_layer(data: xr.Dataset, width: int) -> list[Table]:
    """Return the tables of the operations of one layer, of whichever estimator has them."""
    if "block" in data.coords:
        return list(block_tables(data, width))
    return [training_layer_table(data) if "kind" in data.coords else layer_table(data)]


def layer_table(data: xr.Dataset) -> Table:
    """Return the operations as a table: work, then microseconds, forward and backward."""
    table = plain_table("one layer, one microbatch, one accelerator: forward | backward")
    table.add_column("operation", no_wrap=True)
    pairs = {
        "GFLOP": ("flops", 1e9),
        "HBM MB": ("traffic", 1e6),
        "message MB": ("message", 1e6),
        "compute us": ("compute", 1e-6),
        "HBM us": ("memory", 1e-6),
        "links us": ("tensor", 1e-6),
        "total us": ("time", 1e-6),
    }
    optional = {"GFLOP": 1, "HBM MB": 2, "message MB": 3}
    for header in pairs:
        table.add_numbers(header, optional=optional.get(header, 0))
    table.add_numbers("kept MB", optional=4)
    rows = {str(name): data.sel(operation=name) for name in data.operation.values}
    for name, row in [*rows.items(), ("total", data.sum("operation"))]:
        if name == "total":
            table.add_section()
        cells = [
            f"{_short(float(row[f'{field}_forward']) / scale)} | "
            f"{_short(float(row[f'{field}_backward']) / scale)}"
            for field, scale in pairs.values()
        ]
        table.add_row(name, *cells, _short(float(row["kept"]) / 1e6))
    return table


def totals_sentence(data: xr.Dataset) -> str:
    """Return the time and the bytes of a layer, and which of its ranks share a fast domain."""
    return (
        f"{float(data.time_forward.sum()) * 1e3:.4g} ms forward, "
        f"{float(data.time_backward.sum()) * 1e3:.4g} ms backward; "
        f"{float(data.weights.sum()) / 1e6:.4g} MB of weights, "
        f"{float(data.kept.sum()) / 1e6:.4g} MB kept a microbatch; {_shared(data)}."
    )


def _shared(data: xr.Dataset) -> str:
    """Return how many ranks of a layer share a fast domain, and the number of panels."""
    numbers = json.loads(data.attrs["inputs"])

    def of(field: str) -> float:
        return float(numbers.get(f"plan.{field}", 1.0))

    said = f"{of('fast_tensor'):.0f} of the {of('tensor'):.0f} tensor ranks"
    if of("context") > 1:
        said += f" and {of('fast_context'):.0f} of the {of('context'):.0f} context ranks"
    panels = f"; {of('panels'):.0f} panels" if of("panels") > 1 else ""
    return f"{said} share an NVLink domain{panels}"


def repeated_sentence(data: xr.Dataset) -> str:
    """Return the forward work that the backward pass repeats; empty if there is none."""
    parts = (f"{part}_backward" for part in ("compute", "memory", "tensor"))
    again = float((data.time_backward - sum(data[part] for part in parts)).sum())
    if again <= REPEATED * float(data.time_backward.sum()):
        return ""
    extra = f"{again * 1e6:.4g} us of forward work done again"
    return f"The backward total holds {extra}, which the parts beside it leave out."


def _short(value: float) -> str:
    return "-" if value == 0 else f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
