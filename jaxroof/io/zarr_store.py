"""A Zarr store: laid out once for the whole grid, written chunk by chunk, and read lazily.

It uses Zarr format 3: a chunk of a result is one file, a shard of pieces with a CRC-32C each, and
the manifest lists the finished chunks.
"""

import contextlib
import json
import math
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from xarray.conventions import encode_dataset_coordinates

from jaxroof.errors import refusal
from jaxroof.io import zarr_format_3
from jaxroof.io.atomic import os_errors, replace_file
from jaxroof.io.chunk_manifest import (
    END,
    HOME,
    RECORD,
    UNFINISHED,
    Files,
    append,
    check_ours,
    checksums,
    first_damaged,
    is_changed,
    plan,
    record,
    refuse_links,
    remove,
    write_lock,
    write_manifest,
)
from jaxroof.io.layout import PIECE, Layout, Piece, cut, gathered
from jaxroof.io.lazy_variable import lazy
from jaxroof.io.locks import Path
from jaxroof.io.stored_format import check_version, stamped
from jaxroof.io.zarr_format_3 import MARK
from jaxroof.io.zarr_sizes import check_selected

CHANGED = "is not as it was written; run the sweep again to mend it"
PROVEN = 1 << 26  # stores of fewer bytes are checked by CRC-32 before they are opened
# dimensions of an array -> its shape, and the shapes of its chunks and pieces
Shapes = Callable[[Sequence[str]], tuple[Sequence[int], Sequence[int], Sequence[int]]]


def create(
    path: Path, first: xr.Dataset, coordinates: xr.Dataset, layout: Layout, asked: Any
) -> None:
    """Lay out an empty store for a whole grid, given the results of its first piece."""
    filled = [
        str(name)
        for name, values in first.data_vars.items()
        if values.dtype.kind == "i" and MARK not in values.encoding
    ]
    behind = {n: c for n, c in first.coords.items() if not set(c.dims) & set(layout.sizes)}
    whole = xr.Dataset(coords={**coordinates.coords, **behind})
    template = xr.Dataset(
        {name: values.variable for name, values in first.data_vars.items()},
        whole.isel({dim: slice(size) for dim, size in layout.inner.items()}).coords,
        stamped(first).attrs,
    )
    sizes = {**{str(dim): size for dim, size in first.sizes.items()}, **layout.sizes}

    def shapes(dims: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        every = sizes, {**sizes, **layout.chunk}, {**sizes, **layout.inner}
        shape, chunk, piece = ([some[dim] for dim in dims] for some in every)
        return shape, chunk, piece

    _lay_out(path, template, whole, shapes, layout, asked, filled)
    reopen(path)


def _lay_out(
    path: Path,
    data: xr.Dataset,
    written: xr.Dataset,
    shapes: Shapes,
    layout: Layout,
    asked: Any,
    filled: Collection[str] = (),
) -> None:
    """Write the plan of a store, with all metadata, and the values that are known.

    Arguments: ``data`` has every variable; ``written`` has the values; coordinates are not cut.
    """
    variables, attributes = encode_dataset_coordinates(data)
    known = {}
    with os_errors(path):
        for name, variable in variables.items():
            shape, chunk, piece = shapes(list(map(str, variable.dims)))
            uncut = [max(1, size) for size in shape], None
            cuts = uncut if name in data.coords else (chunk, piece)
            about = zarr_format_3.array_metadata(variable, shape, *cuts)
            known[zarr_format_3.file_of(str(name))] = about
            if name in written.variables:
                zarr_format_3.write_whole(path, str(name), about, written.variables[name])
        names = list(map(str, data.data_vars)), list(map(str, data.coords))
        write_manifest(path, *names, known, attributes, layout, asked, list(filled))


def record_chunk(path: Path, number: int, files: Files, sums: Mapping[str, Any]) -> None:
    """Append the line of a chunk whose files are written to the record."""
    with os_errors(path):
        append(path, {"chunk": number, "files": files, "sums": sums})


def write_region(
    path: Path, number: int, layout: Layout, pieces: Iterable[tuple[Piece, xr.Dataset]]
) -> Files:
    """Write the results of one chunk, piece by piece; return the size and CRC-32 of its files."""
    found = plan(path)
    assert found is not None
    with os_errors(path):
        names = zarr_format_3.write_region(path, found, number, layout, pieces)
        return checksums(pathlib.Path(path), names)


def _documents(
    path: Path, found: Mapping[str, Any], attributes: Mapping[str, Any], marked: Sequence[str]
) -> dict[str, Any]:
    """Return all metadata of a store, by file.

    Raises: InputError for an array of a kind that jaxroof does not write.
    """
    known: dict[str, Any] = zarr_format_3.documents(path, found, attributes, marked)
    zarr_format_3.arrays(path, known)
    return known


def reopen(path: Path) -> None:
    """Mark a store as unfinished and restore all of its metadata."""
    found = plan(path)
    assert found is not None
    attributes = {**found["attributes"], **UNFINISHED}
    _mend(path, _documents(path, found, attributes, found.get("filled", ())))


def finalise(path: Path, attrs: Mapping[str, Any], without: Collection[str] = ()) -> None:
    """Finish a store: write the attributes of the whole sweep, dropping those in ``without``."""
    found = plan(path)
    assert found is not None
    kept = {name: text for name, text in found["attributes"].items() if name not in without}
    every = _documents(path, found, {**kept, **attrs}, ())
    _mend(path, every)
    with os_errors(path):
        files = checksums(pathlib.Path(path), every)
        if record(path).get(END, {}).get("files") != files:
            append(path, {"chunk": END, "files": files, "sums": {}})


def _mend(path: Path, known: Mapping[str, Any]) -> None:
    """Write the metadata files that are missing or differ, in their order."""
    for name, content in known.items():
        file, text = pathlib.Path(path, name), json.dumps(content, indent=2)
        with contextlib.suppress(OSError):
            if file.read_bytes() == text.encode():
                continue
        remove(file)
        with os_errors(path):
            file.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(file, path) as temporary:
            pathlib.Path(temporary).write_text(text, encoding="utf-8")


def read(path: Path) -> xr.Dataset:
    """Return the Dataset of a finished store; its variables are read lazily.

    For a large store only the sizes of the files are checked here; other damage to a chunk is
    detected by its CRC-32 when the chunk is read: that raises an InputError too.
    Raises: InputError for a store that is unfinished or damaged.
    """
    refuse_links(path)
    found = plan(path)
    if found is None:
        raise refusal(os.fspath(path), "not a .zarr file that jaxroof wrote, or one hardly begun")
    layout, lines = Layout(**found["layout"]), record(path)
    done = len(layout.finished(lines))
    if done < layout.count or END not in lines:
        if is_changed(path):
            raise refusal(os.fspath(path), f"damaged: {HOME}/{RECORD} {CHANGED}")
        said = f"{done} of {layout.count} chunks are finished; run the sweep again to continue"
        raise refusal(os.fspath(path), said)
    files = [found["files"], *(line["files"] for line in lines.values())]
    thorough = sum(size for some in files for size, _ in some.values()) < PROVEN
    for some in files:
        wrong = first_damaged(path, some, thorough)
        if wrong is not None:
            raise refusal(os.fspath(path), f"damaged: {wrong} {CHANGED}")
    attributes, about = zarr_format_3.opened(path)
    check_version(attributes, os.fspath(path))
    arrays = zarr_format_3.arrays(path, about)
    for name in found["coordinates"]:
        check_selected(path, name, arrays[name])
    # integers stay integers: -1 is not turned into NaN
    data = xr.open_zarr(
        os.fspath(path),
        chunks=None,  # lazy without dask
        mask_and_scale=False,
        decode_times=False,
        consolidated=True,
        zarr_format=zarr_format_3.NUMBER,
    )
    for variable in data.variables.values():
        fill = variable.attrs.pop(MARK, None)
        variable.encoding = {MARK: int(fill)} if variable.dtype == np.int64 and fill else {}
    # coordinates are short and not chunked like the results, so they are loaded now
    coordinates = {name: data.variables[name].load() for name in found["coordinates"]}
    variables = {
        name: lazy(
            path, name, data.variables[name], partial(check_selected, path, name, arrays[name])
        )
        for name in found["variables"]
    }
    known = {
        name: variable if arrays[name].dtype is not None else _of_one_width(variable)
        for name, variable in {**variables, **coordinates}.items()
    }
    return xr.Dataset(
        {name: known[name] for name in variables},
        {name: known[name] for name in coordinates},
        data.attrs,
    )


def _of_one_width(texts: xr.Variable) -> xr.Variable:
    """Return texts as an array of one width, as they were given."""
    values = np.array(texts.values.tolist(), np.str_).reshape(texts.shape)
    return xr.Variable(texts.dims, values, texts.attrs)


def save(data: xr.Dataset, path: Path) -> None:
    """Write a whole Dataset as a finished store in a temporary directory, then replace ``path``."""
    target = pathlib.Path(path)
    check_ours(target)
    with os_errors(path):
        temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            new = temporary / "new"
            (new / HOME).mkdir(parents=True)
            _lay_out(new, data, data, _shapes_of(data), Layout({}, {}), None)
            append(new, {"chunk": 0, "files": {}, "sums": {}})
            finalise(new, {})
            with write_lock(path) if target.exists() else contextlib.nullcontext():
                if target.exists():
                    target.rename(temporary / "old")
                new.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _shapes_of(data: xr.Dataset) -> Shapes:
    """Return how the arrays of a Dataset are cut: in chunks like those of dask, else in one."""
    sizes = {str(dim): max(1, size) for dim, size in data.sizes.items()}
    chunked = data.unify_chunks().chunksizes
    chunks = {**sizes, **{str(dim): max(some) for dim, some in chunked.items()}}

    def shapes(dims: Sequence[str]) -> tuple[list[int], list[int], list[int]]:
        sizes = {dim: chunks[dim] for dim in dims}
        piece = cut(sizes, PIECE)
        chunk = gathered(sizes, piece, math.prod(sizes.values()))
        return [data.sizes[dim] for dim in dims], list(chunk.values()), list(piece.values())

    return shapes
