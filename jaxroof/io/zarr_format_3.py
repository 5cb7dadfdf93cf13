"""Arrays of Zarr format 3: their metadata, and files that are written piece by piece.

The file of a chunk is a shard: its pieces one after another, each compressed by Zstandard and
followed by its CRC-32C, and an index of them at the end. So a chunk may be as large as is good for
the number of files, and its writer holds one piece.

Source: zarr-specs.readthedocs.io, core specification 3.1 and the codec sharding_indexed.
"""

import contextlib
import json
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import xarray as xr

from jaxroof.io.atomic import replace_file
from jaxroof.io.layout import Layout, Piece
from jaxroof.io.locks import Path
from jaxroof.io.stored_array import (
    BYTES,
    CRC32C,
    EMPTY,
    NAMES,
    SHARDED,
    SUM,
    TEXT,
    TEXT_CODEC,
    ZSTD,
    StoredArray,
    arrays_of,
)
from jaxroof.io.zarr_codecs import compressed, crc32c, words

NUMBER = 3
ROOT = "zarr.json"  # metadata of the whole store, and, in the folder of an array, of the array
NOTHING = -1  # fill value of integers
FILL: dict[str, Any] = {"f": "NaN", "c": ["NaN", "NaN"], "i": NOTHING, "u": 0, "b": False, "U": ""}
MARK = "_FillValue"  # attribute: this value is a missing one
LEVEL = 1  # of compression


def array_metadata(
    variable: xr.Variable,
    shape: Sequence[int],
    chunk: Sequence[int],
    piece: Sequence[int] | None,
) -> dict[str, Any]:
    """Return the metadata of an array: dtype, dimensions and attributes of a variable, and sizes.

    Arguments: without ``piece``, and for texts, a chunk has no index.
    Raises: ValueError for values that are neither numbers, flags nor texts.
    """
    kind = variable.dtype.kind
    name = TEXT if kind == "U" else variable.dtype.name
    if name not in (*NAMES, TEXT):
        raise ValueError(f"values of {name}")
    endian = {} if variable.dtype.itemsize == 1 else {"configuration": {"endian": "little"}}
    first = {"name": TEXT_CODEC} if kind == "U" else {"name": BYTES, **endian}
    zstd = {"name": ZSTD, "configuration": {"level": LEVEL, "checksum": False}}
    codecs: list[Any] = [first, zstd, {"name": CRC32C}]
    if piece is not None and kind != "U" and shape:
        index = [{"name": BYTES, "configuration": {"endian": "little"}}, {"name": CRC32C}]
        about = {"chunk_shape": list(piece), "codecs": codecs, "index_codecs": index}
        codecs = [{"name": SHARDED, "configuration": {**about, "index_location": "end"}}]
    fill = variable.encoding.get(MARK)
    return {
        "zarr_format": NUMBER,
        "node_type": "array",
        "shape": list(shape),
        "data_type": name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunk)}},
        "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
        "fill_value": FILL[kind],
        "codecs": codecs,
        "attributes": {**_plain(variable.attrs), **({} if fill is None else {MARK: int(fill)})},
        "dimension_names": list(map(str, variable.dims)),
        "storage_transformers": [],
    }


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes as JSON holds them."""
    found = json.dumps(
        {str(k): v for k, v in attrs.items()}, default=lambda v: np.asarray(v).tolist()
    )
    return json.loads(found)


def file_of(name: str) -> str:
    """Return the file of an array's metadata.

    >>> file_of("step_time")
    'step_time/zarr.json'
    """
    return f"{name}/{ROOT}"


def documents(
    path: Path, found: Mapping[str, Any], attributes: Mapping[str, Any], marked: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the metadata of a store, by file, that of the whole first: others read it first.

    Arguments: ``marked`` are variables whose fill value is marked as a missing one.
    """
    arrays = dict(found["metadata"])
    for name in marked:
        about = arrays[file_of(name)]
        arrays[file_of(name)] = {**about, "attributes": {**about["attributes"], MARK: NOTHING}}
    inside = {name.rpartition("/")[0]: about for name, about in arrays.items()}
    consolidated = {"kind": "inline", "must_understand": False, "metadata": inside}
    group = {"zarr_format": NUMBER, "node_type": "group", "attributes": _plain(attributes)}
    return {ROOT: {**group, "consolidated_metadata": consolidated}, **arrays}


def opened(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the file that others read first says: attributes, and metadata of the arrays."""
    known = json.loads(pathlib.Path(path, ROOT).read_bytes())
    inside = known["consolidated_metadata"]["metadata"]
    return known["attributes"], {file_of(name): about for name, about in inside.items()}


arrays = arrays_of


class _File:
    """The file of a chunk of an array while its pieces are written."""

    def __init__(self, stream: BinaryIO, array: StoredArray, kind: str) -> None:
        self.stream, self.array, self.fill = stream, array, float("nan") if kind in "fc" else 0
        self.index = np.full((*array.counts, 2), EMPTY, "<u8")

    def add(self, place: tuple[int, ...], values: np.ndarray) -> None:
        """Append the piece at a place; a piece at the end of the grid is filled up."""
        text = _compressed(self._whole(values))
        self.index[place] = self.stream.tell(), len(text)
        self.stream.write(text)

    def _whole(self, values: np.ndarray) -> bytes:
        if self.array.dtype is None:
            return words(values.ravel().tolist())
        if values.shape != self.array.piece:
            whole = np.full(self.array.piece, self.fill, values.dtype)
            whole[tuple(map(slice, values.shape))] = values
            values = whole
        return np.ascontiguousarray(values, values.dtype.newbyteorder("<")).tobytes()

    def finish(self) -> None:
        """Append the index."""
        if self.array.sharded:
            text = self.index.tobytes()
            self.stream.write(text + _sum(text))


def _compressed(values: bytes) -> bytes:
    frame = compressed(values, LEVEL)
    return frame + _sum(frame)


def _sum(text: bytes) -> bytes:
    return crc32c(text).to_bytes(SUM, "little")


def write_pieces(
    path: Path,
    known: Mapping[str, Any],
    place: Mapping[str, int],
    pieces: Iterable[tuple[Mapping[str, int], Mapping[Any, xr.Variable]]],
) -> list[str]:
    """Write the files of one chunk of arrays from its pieces; return their names.

    Arguments: ``known`` is the metadata of the arrays; ``place`` is the index of the chunk along
    each dimension; ``pieces`` have their index inside the chunk, and the variables' values. A
    variable that lacks a dimension is written from the first chunk, and its first piece, along it.
    """
    checked = arrays(path, known)
    dims = {name: known[file_of(name)]["dimension_names"] for name in checked}
    written = {
        name: f"{name}/{'.'.join(str(place.get(dim, 0)) for dim in dims[name]) or '0'}"
        for name in checked
        if not _later(place, dims[name])
    }
    with contextlib.ExitStack() as left:
        files = {}
        for name, inside in written.items():
            target = pathlib.Path(path, inside)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = left.enter_context(replace_file(target, path, sync=False))
            stream = left.enter_context(open(temporary, "wb"))
            files[name] = _File(stream, checked[name], known[file_of(name)]["data_type"][0])
        for index, variables in pieces:
            for name, file in files.items():
                if not _later(index, dims[name]):
                    at = tuple(index.get(dim, 0) for dim in dims[name])
                    file.add(at, np.asarray(variables[name].values))
        for file in files.values():
            file.finish()
    return list(written.values())


def _later(place: Mapping[str, int], dims: Sequence[str]) -> bool:
    """Return whether a chunk or a piece is a later one along a dimension that an array lacks."""
    return any(index for dim, index in place.items() if dim not in dims)


def write_region(
    path: Path,
    found: Mapping[str, Any],
    number: int,
    layout: Layout,
    pieces: Iterable[tuple[Piece, xr.Dataset]],
) -> list[str]:
    """Write the results of one chunk of a sweep, piece by piece; return the names of its files."""
    known = {file_of(name): found["metadata"][file_of(name)] for name in found["variables"]}
    given = ((piece.place, data.variables) for piece, data in pieces)
    return write_pieces(path, known, layout.place(number), given)


def write_whole(path: Path, name: str, about: Mapping[str, Any], variable: xr.Variable) -> None:
    """Write all values of an array, chunk by chunk."""
    known = {file_of(name): about}
    array = arrays(path, known)[name]
    dims, sizes = map(str, variable.dims), array.shape
    names = list(dims)
    layout = Layout(
        dict(zip(names, sizes, strict=True)),
        dict(zip(names, array.chunk, strict=True)),
        dict(zip(names, array.piece, strict=True)),
    )
    for number in range(layout.count):
        part = layout.part(number)
        values = variable.isel(part).load()
        starts = {dim: some.start for dim, some in part.items()}
        pieces = (
            (piece.place, {name: values.isel(_moved(piece.part, starts))})
            for piece in layout.pieces(number)
        )
        write_pieces(path, known, layout.place(number), pieces)


def _moved(part: Mapping[str, slice], starts: Mapping[str, int]) -> dict[str, slice]:
    """Return a part of a grid as a part of a chunk that starts elsewhere."""
    return {
        dim: slice(some.start - starts[dim], some.stop - starts[dim]) for dim, some in part.items()
    }
