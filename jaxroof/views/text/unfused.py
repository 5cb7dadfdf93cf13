"""The operators of the unfused blocks as tables, with sums to compare with the published ones."""

import math
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Table
from rich.text import Text

from jaxroof.estimators.published.unfused import BLOCK_NAMES, DIVIDED, Inputs, Recipe, Report
from jaxroof.views.text.tables import plain_table

TERA: float = 1e12
GIGA: float = 1e9
MILLI: float = 1e-3


SHEET = {  # column of the published tables, in order: our name, and the SI size of its unit
    "flops_fwd": ("flops_forward", TERA),
    "activation_in_mem": ("activation_in", GIGA),
    "activation_in_other_mem": ("activation_other", GIGA),
    "activation_out_mem": ("activation_out", GIGA),
    "activation_buffer": ("kept", GIGA),
    "weights_mem": ("weights", GIGA),
    "total_mem_fwd": ("traffic_forward", GIGA),
    "flops_bwd": ("flops_backward", TERA),
    "activation_grad_mem": ("activation_gradients", GIGA),
    "weights_grad_mem": ("weight_gradients", GIGA),
    "total_mem_bwd": ("traffic_backward", GIGA),
    "comm_bwd": ("message_backward", GIGA),
    "comm_bwd_type": ("communication_backward", None),
    "comm_size": ("group", 1.0),
    "comm_fwd": ("message_forward", GIGA),
    "comm_fwd_type": ("communication_forward", None),
    "t_comp_fwd": ("compute_forward", MILLI),
    "t_mem_fwd": ("memory_forward", MILLI),
    "t_comp_bwd": ("compute_backward", MILLI),
    "t_mem_bwd": ("memory_backward", MILLI),
    "intensity": ("intensity", 1.0),
    "t_fwd": ("work_forward", MILLI),
    "t_bwd": ("work_backward", MILLI),
    "comm_topology": ("topology", None),
    "t_comm_fwd": ("links_forward", MILLI),
    "t_comm_bwd": ("links_backward", MILLI),
    "t_total_fwd": ("time_forward", MILLI),
    "t_total_bwd": ("time_backward", MILLI),
    "frac_t_comm_fwd": ("links_share_forward", 1.0),
    "frac_t_comm_bwd": ("links_share_backward", 1.0),
}
SUMS = {  # line of the published summary: our name, the SI size of its unit, and the unit
    "activation_buffer": ("kept", GIGA, "GB"),
    "weights_mem": ("weights", GIGA, "GB"),
    "weights_grad_mem": ("weight_gradients", GIGA, "GB"),
    "flops_fwd": ("flops_forward", TERA, "TFLOP"),
    "flops_bwd": ("flops_backward", TERA, "TFLOP"),
    "t_total_fwd": ("time_forward", MILLI, "ms"),
    "t_total_bwd": ("time_backward", MILLI, "ms"),
    "t_comm_fwd": ("links_forward", MILLI, "ms"),
    "t_comm_bwd": ("links_backward", MILLI, "ms"),
}
SHORT = {"tensor": "tp", "sequence": "sp"}  # names of the degrees of a block, as they are typed
WORDS = {"heads": "heads", "feedforward": "feedforward columns", "sequence": "tokens"}
STARTS = {  # first column of each piece of a table: the title of the piece
    "flops_fwd": "forward [TFLOP, GB]",
    "flops_bwd": "backward, and messages [TFLOP, GB]",
    "t_comp_fwd": "times of the work [ms]",
    "comm_topology": "communication and totals [ms]",
}


def shown(value: Any) -> str:
    """Return a cell as in the published tables: a name, or a number at six decimals.

    >>> shown(1.23679958), shown(2.5165824e-05), shown(4), shown(float("nan")), shown("ib")
    ('1.2368', '2.5e-05', '4.0', '', 'ib')
    """
    if isinstance(value, str):
        return value
    return "" if math.isnan(value) else repr(round(float(value), 6))


def cells(data: xr.Dataset) -> dict[str, list[str]]:
    """Return the columns of the published tables for some operators, as texts."""
    found = {"layer": [str(name) for name in data.operation.values]}
    for column, (name, size) in SHEET.items():
        values = data[name].values
        if size is None:
            found[column] = [str(value) for value in values]
            continue
        if values.dtype == np.int64:
            values = np.where(values < 0, np.nan, values)
        found[column] = [shown(float(value) / size) for value in values]
    return found


def block_tables(data: xr.Dataset, width: int) -> list[Table]:
    """Return the table of each block, split into pieces that fit a page, with columns in order."""
    tables: list[Table] = []
    for block, title in (("mlp", "MLP block"), ("attention", "Self-attention block")):
        columns = cells(data.isel(operation=data.block.values == block))
        names = columns.pop("layer")
        about = ""
        for piece in _pieces(columns, width - _width("layer", names)):
            about = STARTS.get(piece[0], about)
            table = plain_table(f"{title}, one layer: {about}")
            table.add_column("layer", no_wrap=True)
            for column in piece:
                side: Any = "left" if SHEET[column][1] is None else "right"
                table.add_column(column, no_wrap=True, justify=side)
            for name, *row in zip(names, *(columns[c] for c in piece), strict=True):
                table.add_row(name, *row)
            tables.append(table)
    return tables


def _width(column: str, found: list[str]) -> int:
    return max(len(column), *map(len, found)) + 2


def _pieces(columns: dict[str, list[str]], width: int) -> list[list[str]]:
    """Return the columns in order, split where a piece starts or the width is exceeded."""
    pieces: list[list[str]] = []
    left = 0
    for column, found in columns.items():
        needed = _width(column, found)
        if column in STARTS or needed > left:
            pieces.append([])
            left = width
        pieces[-1].append(column)
        left -= needed
    return pieces


def sums_table(report: Report, layers: int) -> Table:
    """Return the sums over the operators of each block times the layers, at six decimals."""
    table = plain_table()
    table.add_column(f"sum x {layers} layers")
    for block in BLOCK_NAMES:
        table.add_column(block, justify="right")
    for line, (name, size, unit) in SUMS.items():
        values = (float(getattr(report, f"{block}_{name}")) / size for block in BLOCK_NAMES)
        table.add_row(Text(f"{line} [{unit}]"), *(f"{value:.6f}" for value in values))
    return table


def shares_sentence(report: Report) -> str:
    """Return the communication fraction of each block, and the time of all layers."""
    shares = [
        f"{float(share):.15g} in {name}"
        for name, share in (
            ("mlp", report.mlp_links_share),
            ("attention", report.attention_links_share),
        )
    ]
    return (
        f"Communication fraction, forward: {', '.join(shares)}. "
        f"All layers: {float(report.step_time) * 1e3:.6f} ms forward and backward."
    )


def dropped_sentence(inputs: Inputs, recipe: Recipe) -> str:
    """Return the sizes that a degree does not divide; the blocks silently drop the remainder."""
    model, plan = inputs.model, inputs.plan
    said = [
        f"{SHORT[name]}={int(degree)} does not divide {int(getattr(model, field))} {WORDS[field]}"
        for name, fields in DIVIDED[recipe.variant].items()
        for degree in [getattr(plan, name)]
        for field in fields
        if float(getattr(model, field)) % float(degree)
    ]
    return f"{'; '.join(said)}: what is left over is in no table." if said else ""
