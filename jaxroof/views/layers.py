"""The operations of one layer, as a Dataset and as a table."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.engine.dataset import dataset, described, provenance
from jaxroof.engine.placing import placed
from jaxroof.estimators.training.inputs import Inputs
from jaxroof.estimators.training.layers import LayerReport, layer_reports
from jaxroof.estimators.training.step import training
from jaxroof.missing import naming_all
from jaxroof.records import checked, units
from jaxroof.views.tables import plain_table


def layers(
    inputs: Inputs,
    recipe: Any = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return one row an operation of one layer and one microbatch, under the plan of the inputs.

    A plan without a placement is placed best for its step.
    Returns: a Dataset over ``operation`` of FLOP, bytes, messages and seconds in both directions
    and the bytes kept.
    Raises: InputError for inputs without a plan, or out of range.
    """
    inputs, recipe, _ = training.resolve(inputs, recipe, {**(settings or {}), **more})
    inputs = checked(inputs)
    with naming_all(training, inputs, recipe):
        inputs = placed(training, inputs, recipe)
        reports = jax.jit(layer_reports, static_argnums=1)(inputs, recipe)
    columns = {
        name: (("operation",), np.array([float(getattr(r, name)) for r in reports.values()]))
        for name in units(LayerReport)
    }
    attrs = provenance(training, inputs, recipe)
    result = dataset(columns, (), inputs, described(LayerReport), attrs)
    return result.assign_coords(operation=list(reports))


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
