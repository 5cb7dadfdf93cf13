"""A Zarr store: laid out once for the whole grid, written chunk by chunk, and read lazily.

zarr lays out and reads the arrays (format 3): a chunk of a result is one file, a shard of pieces,
each compressed by Zstandard, with a CRC-32C. Pieces are appended to it as they are evaluated. The
manifest lists the finished chunks.
"""

import contextlib
import dataclasses
import json
import math
import os
import pathlib
import shutil
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.conventions import encode_dataset_coordinates
from xarray.core import indexing

from jaxroof.errors import refusal
from jaxroof.io.atomic import Path, os_errors, replace_file
from jaxroof.io.chunk_manifest import (
    END,
    HOME,
    PLAN,
    Files,
    append,
    check_ours,
    checksums,
    first_damaged,
    plan,
    record,
    refuse_links,
    write_lock,
    write_plan,
)
from jaxroof.io.layout import PIECE, Layout, Piece, cut
from jaxroof.io.stored_format import check_version, stamped
from jaxroof.limits import check_memory

CHANGED = "is not as it was written; run the sweep again to mend it"
UNFINISHED = {"unfinished": "chunks that are missing read as NaN, -1 or false; run the sweep again"}
PROVEN = 1 << 26  # stores of fewer bytes are checked by CRC-32 before they are opened
HELD = 128  # bytes of memory that a short text takes
REMEDY = "expected fewer values: choose some of the points"
ROOT = "zarr.json"  # metadata of the whole store, and, in the folder of an array, of the array
MARK = "_FillValue"  # attribute: this value is a missing one
FILL: dict[str, Any] = {"f": np.nan, "c": np.nan, "i": -1, "u": 0, "b": False, "U": ""}


def create(
    path: Path, first: xr.Dataset, coordinates: xr.Dataset, layout: Layout, asked: Any
) -> None:
    """Lay out an empty store for a whole grid, given the results of its first piece."""
    behind = {n: c for n, c in first.coords.items() if not set(c.dims) & set(layout.sizes)}
    whole = xr.Dataset(coords={**coordinates.coords, **behind})
    template = xr.Dataset(
        {name: values.variable for name, values in first.data_vars.items()},
        whole.isel({dim: slice(size) for dim, size in layout.inner.items()}).coords,
        stamped(first).attrs,
    )
    _lay_out(path, template, whole, layout, asked)
    _write_metadata(path, UNFINISHED)


def _lay_out(path: Path, data: xr.Dataset, whole: xr.Dataset, layout: Layout, asked: Any) -> None:
    """Write a store's plan, the metadata of ``data``, and the values that ``whole`` has."""
    import zarr

    variables, attributes = encode_dataset_coordinates(data)
    names, root = list(map(str, variables)), pathlib.Path(path)
    with os_errors(path):
        group = zarr.open_group(os.fspath(path), mode="a", zarr_format=3)
        for name, variable in variables.items():
            values = whole.variables.get(name)
            if values is None:
                every = layout.sizes, layout.chunk, layout.inner
                lengths = [[{**variable.sizes, **s}[d] for d in variable.dims] for s in every]
                _array(group, str(name), variable, *lengths)
                continue
            sizes = {str(d): size for d, size in enumerate(values.shape)}
            cuts = Layout(sizes, cut({d: max(1, size) for d, size in sizes.items()}, PIECE))
            piece = list(cuts.chunk.values())
            array = _array(group, str(name), variable, values.shape, piece, piece)
            for number in range(cuts.count):
                part = tuple(cuts.part(number).values())
                array[part] = values[part].values
        files = [f"{n}/{f.name}" for n in names for f in (root / n).iterdir() if f.name != ROOT]
        found = {
            "asked": asked,
            "layout": dataclasses.asdict(layout),
            "variables": list(map(str, data.data_vars)),
            "coordinates": list(map(str, data.coords)),
            "files": checksums(path, sorted(files)),
            "metadata": {f"{n}/{ROOT}": json.loads((root / n / ROOT).read_bytes()) for n in names},
            "attributes": _plain(attributes),
        }
        write_plan(path, found)


def _array(group: Any, name: str, variable: xr.Variable, *sizes: Sequence[int]) -> Any:
    """Return a new array of a store: dtype, dimensions and attributes of a variable, and sizes."""
    from zarr.codecs import Crc32cCodec, ZstdCodec

    from jaxroof.io.stored_array import LEVEL

    shape, chunk, piece = sizes
    kind, fill = variable.dtype.kind, variable.encoding.get(MARK)
    if kind not in FILL:
        raise ValueError(f"values of {variable.dtype.name}")
    in_shards = list(chunk) != list(piece)
    return group.create_array(
        name,
        shape=tuple(shape),
        dtype=str if kind == "U" else variable.dtype,
        shards=tuple(chunk) if in_shards else None,
        chunks=tuple(max(1, size) for size in (piece if in_shards else chunk)),
        compressors=[ZstdCodec(level=LEVEL), Crc32cCodec()],
        fill_value=FILL[kind],
        chunk_key_encoding={"name": "v2", "separator": "."},
        dimension_names=tuple(map(str, variable.dims)),
        attributes=_plain({**variable.attrs, **({} if fill is None else {MARK: int(fill)})}),
        config={"write_empty_chunks": True},  # each chunk has its files
        overwrite=True,
    )


def _plain(attrs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return attributes as JSON holds them."""
    text = json.dumps(
        {str(k): v for k, v in attrs.items()}, default=lambda v: np.asarray(v).tolist()
    )
    return json.loads(text)


def write_region(
    path: Path, number: int, layout: Layout, pieces: Iterable[tuple[Piece, xr.Dataset]]
) -> Files:
    """Write the results of one chunk, piece by piece; return size and CRC-32 of its files.

    A result that lacks a dimension is written by the first chunk, and its first piece, along it.
    """
    from jaxroof.io.stored_array import ArrayFile, arrays_of

    found, place = plan(path), layout.place(number)
    assert found is not None
    about = {name: found["metadata"][f"{name}/{ROOT}"] for name in found["variables"]}
    dims = {name: known.get("dimension_names", ()) for name, known in about.items()}
    files: dict[str, ArrayFile] = {}
    with os_errors(path), contextlib.ExitStack() as left:
        for name, array in arrays_of(path, about).items():
            if not _later(place, dims[name]):
                inside = f"{name}/{'.'.join(str(place.get(d, 0)) for d in dims[name]) or '0'}"
                target = pathlib.Path(path, inside)
                if target.is_dir():
                    raise refusal(os.fspath(target), "cannot be written: it is a directory")
                temporary = left.enter_context(replace_file(target, path, sync=False))
                files[name] = ArrayFile(inside, array, left.enter_context(open(temporary, "wb")))
        for piece, data in pieces:
            for name, file in files.items():
                if not _later(piece.place, dims[name]):
                    at = tuple(piece.place.get(dim, 0) for dim in dims[name])
                    file.add(at, data.variables[name].values)
        return {file.name: file.finish() for file in files.values()}


def _later(place: Mapping[str, int], dims: Sequence[str]) -> bool:
    """Return whether a chunk or a piece is a later one along a dimension that an array lacks."""
    return any(index for dim, index in place.items() if dim not in dims)


def record_chunk(path: Path, number: int, files: Files, sums: Mapping[str, Any]) -> None:
    """Append the line of a chunk whose files are written to the record."""
    with os_errors(path):
        append(path, {"chunk": number, "files": files, "sums": sums})


def reopen(path: Path) -> None:
    """Mark a store as unfinished and restore all of its metadata."""
    _write_metadata(path, UNFINISHED)


def finalise(path: Path, attrs: Mapping[str, Any], without: Collection[str] = ()) -> None:
    """Finish a store: write the attributes of the whole sweep, dropping those in ``without``."""
    names = _write_metadata(path, attrs, without)
    with os_errors(path):
        files = checksums(path, names)
        if record(path).get(END, {}).get("files") != files:
            append(path, {"chunk": END, "files": files, "sums": {}})


def _write_metadata(
    path: Path, attrs: Mapping[str, Any], without: Collection[str] = ()
) -> list[str]:
    """Write the metadata files of a store that are missing or differ; return the names of all."""
    from jaxroof.io.stored_array import arrays_of

    found = plan(path)
    assert found is not None
    arrays = {name.rpartition("/")[0]: about for name, about in found["metadata"].items()}
    arrays_of(path, arrays)
    kept = {name: text for name, text in found["attributes"].items() if name not in without}
    whole = {
        "zarr_format": 3,
        "node_type": "group",
        "attributes": {**kept, **attrs},
        "consolidated_metadata": {"kind": "inline", "must_understand": False, "metadata": arrays},
    }
    every = {ROOT: whole, **found["metadata"]}  # that of the whole first: others read it first
    for name, content in every.items():
        file, text = pathlib.Path(path, name), json.dumps(content, indent=2)
        with contextlib.suppress(OSError):
            if file.read_bytes() == text.encode():
                continue
        with os_errors(file):  # a directory of that name is never removed
            file.unlink(missing_ok=True)
            file.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(file, path) as temporary:
            pathlib.Path(temporary).write_text(text, encoding="utf-8")
    return list(every)


def _opened(path: Path) -> tuple[Any, dict[str, Any]]:
    """Return the group of a store whose arrays are checked, and its attributes."""
    import zarr

    from jaxroof.io.stored_array import CheckedStore, arrays_of

    known = json.loads(pathlib.Path(path, ROOT).read_bytes())
    arrays = arrays_of(path, known["consolidated_metadata"]["metadata"])
    store = CheckedStore(zarr.storage.LocalStore(os.fspath(path), read_only=True), arrays)
    group = zarr.open_group(store, mode="r", zarr_format=3)
    return group, known["attributes"]


def read(path: Path) -> xr.Dataset:
    """Return the Dataset of a finished store; its variables are read lazily.

    For a large store only the sizes of the files are checked here; other damage to a chunk is
    detected by its CRC-32C when the chunk is read: that raises an InputError too.
    Raises: InputError for a store that is unfinished or damaged.
    """
    where = os.fspath(path)
    refuse_links(path)
    found = plan(path)
    if found is None:
        raise refusal(where, "not a .zarr file that jaxroof wrote, or one hardly begun")
    layout, lines = Layout(**found["layout"]), record(path)
    done = len(layout.finished(lines))
    if done < layout.count or END not in lines:
        said = f"{done} of {layout.count} chunks are finished; run the sweep again to continue"
        raise refusal(where, said)
    files = {**found["files"]}
    for line in lines.values():
        files |= line["files"]
    wrong = first_damaged(path, files, sum(size for size, _ in files.values()) < PROVEN)
    if wrong is not None:
        raise refusal(where, f"damaged: {wrong} {CHANGED}")
    group, attributes = _opened(path)
    check_version(attributes, where)
    names = [*found["variables"], *found["coordinates"]]
    if not {f"{name}/{ROOT}" for name in names} <= {*found["metadata"]}:  # those are inside
        raise refusal(where, f"damaged: {HOME}/{PLAN} {CHANGED}")
    known = {name: _variable(where, name, group[name]) for name in names}
    for name in found["coordinates"]:
        known[name].load()  # they are short
    attributes.pop("coordinates", None)
    return xr.Dataset(
        {name: known[name] for name in found["variables"]},
        {name: known[name] for name in found["coordinates"]},
        attributes,
    )


def _variable(where: str, name: str, array: Any) -> xr.Variable:
    """Return an array of a store as a variable that is read where it is used."""
    attrs = array.attrs.asdict()
    attrs.pop("coordinates", None)
    fill = attrs.pop(MARK, None)  # integers stay integers: -1 is not turned into NaN
    encoding = {MARK: int(fill)} if array.dtype == np.int64 and fill else {}
    lazy: Any = indexing.LazilyIndexedArray(_Values(where, name, array))
    variable = xr.Variable(tuple(array.metadata.dimension_names or ()), lazy, attrs, encoding)
    if array.dtype.kind in "biufc":
        return variable
    texts = np.array(variable.values.tolist(), np.str_).reshape(variable.shape)
    return xr.Variable(variable.dims, texts, attrs)


class _Values(BackendArray):
    """The values of an array on disk (xarray's own way for a backend to be lazy)."""

    def __init__(self, where: str, name: str, array: Any) -> None:
        self.where, self.name, self.array = where, name, array
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, key: Any) -> Any:
        way = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, way, self._at)

    def _at(self, key: tuple[Any, ...]) -> np.ndarray:
        """Return the values that an index, a slice or indices choose along each dimension."""
        lengths = zip(self.shape, key, strict=True)
        many = [len(range(n)[k]) if isinstance(k, slice) else np.size(k) for n, k in lengths]
        width = self.dtype.itemsize if self.dtype.kind in "biufc" else HELD
        what = f"{self.where}: the values of {self.name}"
        check_memory(what, math.prod(many) * width, REMEDY)
        try:
            return np.asarray(self.array.oindex[key])
        except (RuntimeError, ValueError) as error:  # of a checksum, or of the decompression
            said = f"damaged: {self.name}: {error}; run the sweep again to mend it"
            raise refusal(self.where, said) from error


def save(data: xr.Dataset, path: Path) -> None:
    """Write a whole Dataset as a finished store in a temporary directory, then replace ``path``."""
    target = pathlib.Path(path)
    check_ours(target)
    with os_errors(path):
        temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            new = temporary / "new"
            (new / HOME).mkdir(parents=True)
            _lay_out(new, data, data, Layout({}, {}), None)
            append(new, {"chunk": 0, "files": {}, "sums": {}})
            finalise(new, {})
            with write_lock(path) if target.exists() else contextlib.nullcontext():
                if target.exists():
                    target.rename(temporary / "old")
                new.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
