"""Rows of measured training runs in the common schema: reading, cells, options, what is lacking."""

import difflib
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.errors import refusal, shown
from jaxroof.io.csv_blocks import RowFile, open_rows

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
NEEDED = ("row_id", "layers", "hidden", "system", "gpus")  # without these, no table of runs
MISSPELT = 0.85  # similarity from which on an unknown column is a lacking one
MOST = 1e12  # largest number of a cell


class Row(NamedTuple):
    """One measured run: its line in the file, and its cells by column, without blank ones."""

    line: int
    cells: Mapping[str, str]


class Table(NamedTuple):
    """A file of measured runs."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    unknown: tuple[str, ...]  # columns that the schema does not have; they are carried along


def read_table(path: str | os.PathLike[str]) -> Table:
    """Return the rows of a file in the common schema.

    Raises: InputError that names file and line if the file cannot be read, is not a table of
    measured runs, or has a name twice.
    """
    with open_rows(path) as file:
        return table(file)


def measured_rows(rows: Any) -> Iterable[Row]:
    """Return measured rows of a file, or of a table (pandas) of its columns, or as they are.

    Raises: InputError as ``read_table`` does.
    """
    if isinstance(rows, str | os.PathLike):
        return read_table(rows).rows
    if not hasattr(rows, "columns"):
        found: Iterable[Row] = rows
        return found
    _check_columns("rows", tuple(map(str, rows.columns)))
    lines = rows.astype(str).where(rows.notna(), "").to_dict("records")
    cells = ({str(name): cell.strip() for name, cell in line.items()} for line in lines)
    return [
        Row(place, {name: cell for name, cell in one.items() if cell})
        for place, one in enumerate(cells)
    ]


def table(file: RowFile) -> Table:
    """Return the rows of an open file in the common schema.

    Raises: InputError as ``read_table`` does.
    """
    where, found, columns = file.path, [], tuple(file.headings)
    unknown = _check_columns(where, columns)
    while (block := file.take(4096)) is not None:
        for place, cells in enumerate(zip(*block.cells, strict=True)):
            if place in block.ragged:
                raise refusal(f"{where}: line {block.lines[place]}", block.ragged[place])
            stripped = (cell.strip() for cell in cells)
            filled = {name: cell for name, cell in zip(columns, stripped, strict=True) if cell}
            found.append(Row(block.lines[place], filled))
    if not found:
        raise refusal(where, "no rows; expected a measured run a line")
    _check_names(where, found)
    return Table(columns, tuple(found), unknown)


def _check_columns(where: str, columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that the schema does not have.

    Raises: InputError for a column without a name or twice, for a misspelt one, for a lacking one.
    """
    seen: set[str] = set()
    for name in columns:
        if not name or name in seen:
            said = f"{name}: twice" if name else "a column without a name"
            raise refusal(f"{where}: line 1", f"{said}; expected each column of the schema once")
        seen.add(name)
    missing = [name for name in COLUMNS if name not in seen]
    lacking = [name for name in NEEDED if name in missing]
    unknown = tuple(name for name in columns if name not in COLUMNS)
    if len(lacking) > 1:
        expected = "expected the columns of the schema of measured runs (docs/validation_memory.md)"
        raise refusal(f"{where}: line 1", f"{', '.join(lacking)}: missing; {expected}")
    for name in unknown:
        near = difflib.get_close_matches(name, missing, n=1, cutoff=MISSPELT)
        if near:
            raise refusal(f"{where}: line 1", f"{name}: no such column. Did you mean {near[0]!r}?")
    if lacking:
        raise refusal(f"{where}: line 1", f"{lacking[0]}: missing; {_expected(lacking[0])}")
    return unknown


def _check_names(where: str, rows: Iterable[Row]) -> None:
    seen: dict[str, int] = {}
    for row in rows:
        name = row.cells.get("row_id")
        if name is None:
            raise refusal(f"{where}: line {row.line}", f"row_id: blank; {_expected('row_id')}")
        if name in seen:
            said = f"row_id: {shown(name)} is line {seen[name]} too"
            raise refusal(f"{where}: line {row.line}", f"{said}; {_expected('row_id')}")
        seen[name] = row.line


def configuration(row: Row) -> tuple[tuple[str, str], ...]:
    """Return what ran: the cells of a row but its names and what was measured.

    Rows of one configuration have one prediction.

    >>> configuration(Row(2, {"row_id": "a", "tp": "8", "measured_step_time_s": "1.5"}))
    (('tp', '8'),)
    """
    return tuple(item for item in row.cells.items() if item[0] not in OF_ONE_ROW)


OF_ONE_ROW = {
    "row_id",
    "split_group",
    "derived_step_time_s",
    *(name for name in COLUMNS if name.startswith("measured_")),
}


# ---- Cells --------------------------------------------------------------------------------------


def _expected(column: str) -> str:
    return f"expected {COLUMNS[column]}"


def text(row: Row, column: str) -> str:
    """Return a cell.

    Raises: InputError that names the column if the cell is blank.
    """
    if column not in row.cells:
        raise refusal(column, f"blank; {_expected(column)}")
    return row.cells[column]


def number(row: Row, column: str, default: float | None = None) -> float:
    """Return a number above 0.

    Raises: InputError that names the column if the cell is blank, or is no such number.
    """
    if column not in row.cells and default is not None:
        return default
    return _positive(text(row, column), column, _expected(column))


def count(row: Row, column: str, default: float | None = None) -> float:
    """Return a whole number above 0.

    Raises: InputError that names the column if the cell is blank, or is no such number.
    """
    return _whole(number(row, column, default), column, _expected(column))


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

Options = Mapping[str, str]


def options(row: Row, column: str = "settings") -> Options:
    """Return ``key=value; key`` as a mapping; a switch has the value ``yes``.

    >>> options(Row(2, {"settings": "swiglu; hidden-size=512"}))
    {'swiglu': 'yes', 'hidden-size': '512'}
    """
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
