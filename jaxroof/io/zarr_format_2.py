"""Stores of Zarr format 2, as jaxroof wrote them before: they are read, and gone on with."""

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import xarray as xr

from jaxroof.io.layout import Layout, Piece
from jaxroof.io.locks import Path
from jaxroof.io.stored_array import arrays_of_format_2

NUMBER = 2
ABOUT = (".zarray", ".zattrs")  # metadata files of an array
CONSOLIDATED = ".zmetadata"  # all metadata in one file

arrays = arrays_of_format_2


def documents(
    path: Path, found: Mapping[str, Any], attributes: Mapping[str, Any], marked: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the metadata of a store, by file, that of the whole first: others read it first.

    Arguments: ``marked`` are variables that have a fill value, of those that may have one.
    """
    arrays = found["variables"] + found["coordinates"]
    known = found.get("metadata") or {  # the oldest stores have it only in files
        ".zgroup": {"zarr_format": NUMBER},
        **{
            name: json.loads(pathlib.Path(path, name).read_bytes())
            for name in (f"{array}/{kind}" for array in arrays for kind in ABOUT)
        },
    }
    known = {**known, ".zattrs": dict(attributes)}
    for name in found.get("filled", ()):
        if name not in marked:
            known[f"{name}/.zarray"] = {**known[f"{name}/.zarray"], "fill_value": None}
    return {CONSOLIDATED: {"metadata": known, "zarr_consolidated_format": 1}, **known}


def opened(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the file that others read first says: attributes, and metadata of the arrays."""
    known = json.loads(pathlib.Path(path, CONSOLIDATED).read_bytes())["metadata"]
    return known[".zattrs"], known


def write_region(
    path: Path,
    found: Mapping[str, Any],
    number: int,
    layout: Layout,
    pieces: Iterable[tuple[Piece, xr.Dataset]],
) -> list[str]:
    """Write the results of one chunk of a sweep to its region; return the names of its files.

    A variable that lacks a dimension is written by the first chunk along it.
    """
    import zarr

    place, names = layout.place(number), []
    with zarr.config.set({"array.write_empty_chunks": True}):
        group = zarr.open_group(os.fspath(path), mode="r+", zarr_format=2, use_consolidated=False)
        for piece, data in pieces:  # one: chunks had no pieces
            for name, values in data.data_vars.items():
                dims = list(map(str, values.dims))
                if any(index for dim, index in place.items() if dim not in dims):
                    continue
                array = group[str(name)]
                array[tuple(piece.part.get(dim, slice(None)) for dim in dims)] = values.values  # type: ignore[index]
                names.append(f"{name}/{'.'.join(str(place.get(dim, 0)) for dim in dims) or '0'}")
    return names
