"""The operations of one layer as a table."""

import xarray as xr
from rich.table import Table

from jaxroof.views.text.tables import plain_table
from jaxroof.views.text.training_layers import training_layer_table
from jaxroof.views.text.unfused import block_tables


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


def _short(value: float) -> str:
    return "-" if value == 0 else f"{value:.4g}" if value < 1000 else f"{value:,.0f}"
