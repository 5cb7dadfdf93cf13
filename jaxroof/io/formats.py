"""Files of results: write them whole or not at all as NetCDF, CSV, JSON or Zarr; read them back."""

import contextlib
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from jaxroof.errors import InputError, refusal, shown
from jaxroof.io import netcdf_files, traces, zarr_store
from jaxroof.io.atomic import DAMAGE, Path, replace_file
from jaxroof.io.chunk_manifest import check_ours
from jaxroof.io.stored_format import (
    RESULTS,
    check_version,
    checksums,
    separated,
    stamped,
    summed,
)
from jaxroof.io.traces import is_trace
from jaxroof.limits import check_memory, out_of_memory

ZARR = ".zarr"  # a directory, written chunk by chunk
CSV = ".csv"
JSON = ".json"
SUMMED = (".nc", JSON)  # a .zarr file has a CRC-32 of every chunk instead
DAMAGED = "damaged: its results are not as they were written; write it again, or put back a copy"
PARSED = 8  # bytes of memory for a byte of text while it is read


def write(data: xr.Dataset, path: Path) -> None:
    """Write a Dataset to a file in the format of its suffix (.nc, .csv, .json, .zarr).

    As .json a trace is written in the format of Chrome and Perfetto, as .csv with one row per
    event. The file appears whole or not at all: it is written under another name, then renamed.
    As .nc and .json it says the version of its format and has checksums (``stored_format``).
    Raises: InputError for another suffix, or if the file cannot be written.
    """
    kind = _kind(path, WRITERS)
    if kind != CSV:
        data = stamped(data)
    whole = contextlib.nullcontext(os.fspath(path)) if kind == ZARR else replace_file(path)
    with whole as temporary:
        try:
            summed_up = kind in SUMMED and not is_trace(data)
            WRITERS[kind](summed(data) if summed_up else data, temporary)
        except InputError:
            raise
        except (ValueError, TypeError, RuntimeError) as error:
            reason = f"{kind} cannot hold this result: {error}"
            raise InputError(f"{os.fspath(path)}: cannot be written: {reason}") from error


def read(path: Path) -> xr.Dataset:
    """Return the Dataset of a file written by ``write``.

    A CSV file has no units and no grid: its rows come back along a dimension ``row``, those of
    a trace along ``event``. The variables of a Zarr store are read lazily, so a damaged
    chunk of a large one is an InputError when its values are used.
    Raises: InputError for a missing, unreadable or corrupt file, and for a newer format.
    """
    return read_stamped(path)[0]


def read_stamped(path: Path) -> tuple[xr.Dataset, dict[str, Any]]:
    """Return the Dataset of a file, and what the file says about itself: format and checksums."""
    kind = _kind(path, READERS)
    if not os.path.exists(path):
        raise InputError(f"{os.fspath(path)}: no such file")
    try:
        if kind in (CSV, JSON):
            what = f"{os.fspath(path)}: its values"
            check_memory(what, PARSED * os.path.getsize(path), "expected a smaller file")
        data = READERS[kind](os.fspath(path))
        check_version(data.attrs, os.fspath(path))
        return separated(data)
    except InputError:
        raise
    except MemoryError as error:
        raise out_of_memory(error, "expected a smaller file", os.fspath(path)) from error
    except OSError as error:
        said = f"cannot be read: {error.strerror or 'not a file of this kind, or a damaged one'}"
        raise refusal(os.fspath(path), said) from error
    except DAMAGE as error:
        said = f"not a {kind} file that jaxroof wrote, or a damaged one"
        raise refusal(os.fspath(path), said) from error


@contextlib.contextmanager
def errors_of_contents(path: Path) -> Iterator[None]:
    """Turn what the block makes of the contents of a damaged file into a one-line error."""
    try:
        yield
    except InputError:
        raise
    except DAMAGE as error:
        said = "damaged: its attributes or results are not those of an answer"
        raise refusal(os.fspath(path), f"{said}; write it again, or put back a copy") from error


def check_writable(path: Path) -> None:
    """Check, before any work, that a result can be written to a path."""
    stored = _kind(path, WRITERS) == ZARR
    if stored:
        check_ours(path)
    check_placeable(path, directory=stored)


def check_placeable(path: Path, directory: bool = False) -> None:
    """Check that a file, or a directory, can be created at a path."""
    folder = pathlib.Path(path).parent
    if not folder.is_dir():
        raise InputError(f"{os.fspath(path)}: no such directory, given {os.fspath(folder)!r}")
    if not directory and os.path.isdir(path):
        raise InputError(f"{os.fspath(path)}: is a directory; expected the name of a file")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{os.fspath(path)}: cannot be written: Permission denied")


def _kind(path: Path, kinds: dict[str, Any]) -> str:
    kind = pathlib.Path(path).suffix
    if kind not in kinds:
        said = f"cannot tell the kind of file from {shown(kind)}"
        raise refusal(os.fspath(path), f"{said}; expected a name that ends in {', '.join(kinds)}")
    return kind


def frame(data: xr.Dataset) -> pd.DataFrame:
    """Return a Dataset as a table with a row per point; coordinates are the first columns."""
    single = data.expand_dims("row") if not data.sizes else data
    dims = list(single.sizes)
    grid = xr.DataArray(np.empty(tuple(single.sizes.values())), dims=dims)
    columns: dict[str, Any] = {}
    for name in [*single.coords, *single.data_vars]:
        if name == "row":
            continue
        full = single[name].broadcast_like(grid)
        values = full.transpose(*dims).values.reshape(-1)
        flags = single[name].attrs.get("flag_meanings", "").split()
        if flags:  # numbers that stand for words, none where there is no number
            there = np.isfinite(values)
            values = np.where(there, np.array(flags)[np.where(there, values, 0).astype(int)], "")
        columns[str(name)] = values
    return pd.DataFrame(columns)


def _write_csv(data: xr.Dataset, path: str) -> None:
    if is_trace(data):
        traces.write_table(data, path)
        return
    table = frame(data)
    for name in table.columns:
        if str(table[name].dtype).startswith("int"):
            table[name] = table[name].astype("Int64").mask(table[name] == -1)
    table.to_csv(path, index=False)


def _read_csv(path: str) -> xr.Dataset:
    table = pd.read_csv(path)
    if traces.is_table(table.columns):
        return traces.read_table(path)
    return xr.Dataset({name: ("row", table[name].to_numpy()) for name in table.columns})


def json_text(data: xr.Dataset) -> str:
    """Return what ``write`` puts into a .json file."""
    try:
        return _json_text(summed(stamped(data)))
    except ValueError as error:
        raise refusal("--json", f"cannot hold this result: {error}") from error


def _write_json(data: xr.Dataset, path: str) -> None:
    if is_trace(data):
        traces.write_chrome(data, path)
        return
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f"{_json_text(data)}\n")


def _json_text(data: xr.Dataset) -> str:
    def variable(array: xr.DataArray) -> dict[str, Any]:
        if array.dtype.kind == "f" and np.isinf(array.values).any():
            raise ValueError(f"{array.name} is infinite at some points")
        return {
            "dims": list(array.dims),
            "dtype": str(array.dtype),
            "attrs": dict(array.attrs),
            "data": _plain(array.values, array.encoding.get("_FillValue")),
        }

    whole = {
        "attrs": dict(data.attrs),
        "coords": {str(name): variable(data.coords[name]) for name in data.coords},
        "data_vars": {str(name): variable(data[name]) for name in data.data_vars},
    }
    return json.dumps(whole, allow_nan=False)


def _plain(values: np.ndarray, fill: Any) -> Any:
    """Return nested lists of values, with None for missing ones."""
    none = values == fill if fill is not None else pd.isna(values)
    found = values.astype(object)
    found[none] = None
    return found.tolist()


def _read_json(path: str) -> xr.Dataset:
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    whole = json.loads(text)
    if traces.is_chrome(whole):
        return traces.read_chrome(text)

    def variable(written: dict[str, Any]) -> xr.Variable:
        values, dims = _values(written["data"], written["dtype"]), written["dims"]
        encoding = {"_FillValue": -1} if values.dtype.kind == "i" else {}
        if values.ndim < len(dims):  # an empty list does not tell the lengths within it
            values = values.reshape([lengths.get(dim, 0) for dim in dims])
        return xr.Variable(dims, values, written["attrs"], encoding)

    lengths = {
        name: len(one["data"]) for name, one in whole["coords"].items() if one["dims"] == [name]
    }

    check_version(whole["attrs"], path)
    data = xr.Dataset(
        {name: variable(v) for name, v in whole["data_vars"].items()},
        {name: variable(v) for name, v in whole["coords"].items()},
        whole["attrs"],
    )
    if RESULTS in data.attrs and data.attrs[RESULTS] != checksums(data)[RESULTS]:
        raise refusal(path, DAMAGED)
    return data


def _values(data: Any, written: str) -> np.ndarray:
    """Return values of the type that a file names: flags, numbers, or texts."""
    kind = np.dtype(written)
    if kind.kind not in "biufU":
        raise ValueError(written)
    values = np.array(data, object)
    values[values == None] = -1 if kind.kind == "i" else math.nan  # noqa: E711 -- of every value
    return np.array(values.tolist(), np.str_ if kind.kind == "U" else kind)


WRITERS: dict[str, Callable[[xr.Dataset, str], None]] = {
    ".nc": netcdf_files.write,
    CSV: _write_csv,
    JSON: _write_json,
    ZARR: zarr_store.save,
}
READERS: dict[str, Callable[[str], xr.Dataset]] = {
    ".nc": netcdf_files.read,
    CSV: _read_csv,
    JSON: _read_json,
    ZARR: zarr_store.read,
}
