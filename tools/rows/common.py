"""Rows of measured runs as their sources state them: cells, options, and what a question is.

Rows are in the common schema, whose columns ``COLUMNS`` lists: what a source prints of model, plan,
software and machine. ``steps`` and ``memory`` turn them into inputs of ``training`` by path.
"""

import csv
import gzip
import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroof.errors import refusal, shown

COLUMNS = {  # of the common schema: what a cell holds
    "row_id": "a name of the row that no other row has",
    "source": "who measured",
    "source_url": "repository and path",
    "date_version": "date or version of what ran; blank is the software of today",
    "task": "pretrain, SFT or LoRA",
    "model": "name of the model",
    "params_b": "billions of parameters",
    "layers": "transformer layers",
    "hidden": "width of the residual stream",
    "ffn": "width of a dense MLP",
    "heads": "query heads",
    "kv_heads": "heads of keys and values",
    "vocab": "entries of the vocabulary",
    "seq": "tokens of a sequence",
    "moe_experts": "routed experts of a layer",
    "moe_topk": "experts that a token uses",
    "arch_source": "where the dimensions come from",
    "system": "accelerator, such as H100 80GB",
    "gpus": "number of accelerators",
    "precision": "number format",
    "tp": "tensor-parallel degree",
    "pp": "pipeline stages",
    "vp": "chunks of layers on a rank",
    "cp": "context-parallel degree",
    "ep": "expert-parallel degree",
    "dp": "data-parallel degree",
    "zero_fsdp": "who shards weights and optimizer states, or none",
    "gbs": "sequences of an optimizer step",
    "mbs": "sequences of a microbatch on a rank",
    "recompute": "none, selective, full or a policy",
    "seqpar": "yes or no",
    "measured_step_time_s": "seconds of a step",
    "measured_tokens_per_s_per_gpu": "tokens a second and accelerator",
    "measured_tflops_per_gpu": "TFLOP/s of an accelerator",
    "measured_mfu": "model FLOP utilization",
    "measured_peak_memory_bytes": "bytes",
    "derived_step_time_s": "seconds of a step",
    "derived_basis": "what the seconds are derived from",
    "split_group": "group of rows of one configuration",
    "note": "what else the source says",
    "memory_kind": "torch allocated, active or reserved peak, or nvidia-smi",
    "memory_stage": "last, max or the number of a pipeline stage",
    "measured_static_memory_bytes": "bytes between steps",
    "measured_reserved_memory_bytes": "bytes",
    "settings": "options as key=value; key",
    "environment": "variables as NAME=value; NAME=value",
}
MOST = 1e12  # largest number of a cell
Settings = dict[str, Any]  # numbers of ``training`` by path, choices of its recipe, and notes
Options = Mapping[str, str]


class Row(NamedTuple):
    """One measured run: its cells by column, without blank ones."""

    cells: Mapping[str, str]


def read(path: pathlib.Path) -> list[Row]:
    """Return the rows of a file in the common schema."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        lines = [{k: (v or "").strip() for k, v in line.items()} for line in csv.DictReader(file)]
    return [Row({name: cell for name, cell in line.items() if cell}) for line in lines]


# ---- Cells --------------------------------------------------------------------------------------


def text(row: Row, column: str) -> str:
    """Return a cell."""
    if column not in row.cells:
        raise refusal(column, f"blank; expected {COLUMNS[column]}")
    return row.cells[column]


def number(row: Row, column: str, default: float | None = None) -> float:
    """Return a number above 0."""
    if column not in row.cells and default is not None:
        return default
    return _positive(text(row, column), column, f"expected {COLUMNS[column]}")


def count(row: Row, column: str, default: float | None = None) -> float:
    """Return a whole number above 0."""
    return _whole(number(row, column, default), column, f"expected {COLUMNS[column]}")


def _positive(written: str, name: str, expected: str) -> float:
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not 0.0 < value <= MOST:
        raise refusal(name, f"not a number above 0, given {shown(written)}; {expected}")
    return value


def _whole(value: float, name: str, expected: str) -> float:
    if value != int(value):
        raise refusal(name, f"not a whole number, given {value:g}; {expected}")
    return value


# ---- Options ------------------------------------------------------------------------------------


def options(row: Row, column: str = "settings") -> Options:
    """Return ``key=value; key`` as a mapping; a switch has the value ``yes``."""
    found: dict[str, str] = {}
    for part in row.cells.get(column, "").split(";"):
        key, equals, value = part.strip().partition("=")
        if key and found.setdefault(key, value if equals else "yes") != (value or "yes"):
            raise refusal(column, f"{key}: two values; expected each option once")
    return found


def option_count(given: Options, name: str, default: float) -> float:
    """Return an option that is a whole number of 0 or more."""
    if name not in given:
        return default
    written = given[name]
    if written in ("0", "0.0"):
        return 0.0
    expected = "expected a whole number"
    return _whole(_positive(written, name, expected), name, expected)


def option_number(given: Options, name: str, default: float) -> float:
    """Return an option that is a number above 0."""
    return _positive(given[name], name, "expected a number above 0") if name in given else default


def option_share(given: Options, name: str, default: float) -> float:
    """Return an option that is a number from 0 to 1."""
    written = given.get(name, str(default))
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise refusal(name, f"not a number from 0 to 1, given {shown(written)}")
    return value
