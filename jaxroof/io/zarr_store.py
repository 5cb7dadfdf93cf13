"""A Zarr store: laid out once for the whole grid, written chunk by chunk, and read lazily.

It uses Zarr format 2, which supports text. Every chunk has a CRC-32, and the manifest lists the
finished chunks.
"""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.errors import refusal
from jaxroof.io.atomic import os_errors, replace_file
from jaxroof.io.chunk_manifest import (
    ABOUT,
    END,
    HOME,
    UNFINISHED,
    Files,
    Layout,
    append,
    check_ours,
    checksums,
    first_damaged,
    plan,
    record,
    remove,
    write_lock,
    write_manifest,
)
from jaxroof.io.lazy_variable import lazy
from jaxroof.io.locks import Path
from jaxroof.io.stored_format import check_version, stamped
from jaxroof.io.zarr_kinds import check_kinds
from jaxroof.io.zarr_sizes import check_selected

PROVEN = 1 << 26  # stores of fewer bytes are checked by CRC-32 before they are opened
CONSOLIDATED = ".zmetadata"  # all metadata in one file
NOTHING = -1  # fill value of integers while a store is unfinished
AS_FILES: Any = {  # how xarray writes a store
    "zarr_format": 2,
    "consolidated": False,
    "write_empty_chunks": True,  # so that a lost file differs from a chunk of zeros
}


def create(
    path: Path, first: xr.Dataset, coordinates: xr.Dataset, layout: Layout, asked: Any
) -> None:
    """Lay out an empty store for a whole grid, given the results of its first chunk.

    xarray writes the first chunk with its coordinates; the arrays are then enlarged and emptied.
    """
    import zarr

    filled = [
        str(name)
        for name, values in first.data_vars.items()
        if values.dtype.kind == "i" and "_FillValue" not in values.encoding
    ]
    behind = {n: c for n, c in first.coords.items() if not set(c.dims) & set(layout.sizes)}
    whole = xr.Dataset(coords={**coordinates.coords, **behind})
    part = whole.isel({dim: slice(size) for dim, size in layout.chunk.items()})
    template = xr.Dataset(
        {name: values.variable.copy(deep=False) for name, values in first.data_vars.items()},
        part.coords,
        {**stamped(first).attrs, **UNFINISHED},
    )
    for name in filled:
        template[name].encoding["_FillValue"] = NOTHING
    # a coordinate is one file
    chunks = {n: v.shape for n, v in {**template.variables, **whole.variables}.items()}
    sizes: dict[Any, int] = {**dict(first.sizes), **layout.sizes}
    fresh = pathlib.Path(path, HOME, "fresh")
    with os_errors(path):
        _lay_out(template, fresh, chunks)
        for file in fresh.glob("*/[0-9]*"):
            file.unlink()  # the first chunk is written like any other
        group = zarr.open_group(fresh, mode="r+", zarr_format=2, use_consolidated=False)
        for key, variable in template.variables.items():
            shape = tuple(sizes[dim] for dim in variable.dims)
            group[str(key)].resize(shape)  # type: ignore[union-attr]
        whole.to_zarr(fresh, mode="r+", **AS_FILES)
        for made in fresh.iterdir():
            made.rename(pathlib.Path(path, made.name))
        fresh.rmdir()
        write_manifest(path, *_names(template), layout, asked, filled)
    reopen(path)


def _names(data: xr.Dataset) -> tuple[list[str], list[str]]:
    """Return the names of a Dataset's variables and of its coordinates."""
    return list(map(str, data.data_vars)), list(map(str, data.coords))


def _lay_out(data: xr.Dataset, folder: pathlib.Path, chunks: Mapping[Any, Any]) -> None:
    """Write a Dataset as Zarr; ``chunks`` are the shapes of chunks, by variable."""
    import numcodecs

    def encoding(name: Any, variable: xr.Variable) -> dict[str, Any]:
        fill, cut = variable.encoding.get("_FillValue"), chunks.get(name)
        return {
            "filters": (numcodecs.CRC32(location="end"),),
            "compressors": (numcodecs.Zstd(level=1),),
            **({"chunks": cut} if cut else {}),
            **({} if fill is None else {"_FillValue": fill}),
        }

    encodings = {name: encoding(name, v) for name, v in data.variables.items()}
    data.to_zarr(folder, mode="w", encoding=encodings, **AS_FILES)


def write_chunk(
    path: Path, number: int, layout: Layout, data: xr.Dataset, sums: Mapping[str, Any]
) -> None:
    """Write the results of one chunk to its region, then append its line to the record."""
    record_chunk(path, number, write_region(path, number, layout, data), sums)


def record_chunk(path: Path, number: int, files: Files, sums: Mapping[str, Any]) -> None:
    """Append the line of a chunk whose files are written to the record."""
    with os_errors(path):
        append(path, {"chunk": number, "files": files, "sums": sums})


def write_region(path: Path, number: int, layout: Layout, data: xr.Dataset) -> Files:
    """Write the results of one chunk to its region; return the size and CRC-32 of its files.

    A variable that lacks a dimension is written by the first chunk along it.
    """
    import zarr

    place, part = layout.place(number), layout.part(number)
    names = []
    with os_errors(path), zarr.config.set({"array.write_empty_chunks": True}):
        group = zarr.open_group(os.fspath(path), mode="r+", zarr_format=2, use_consolidated=False)
        for name, values in data.data_vars.items():
            dims = list(map(str, values.dims))
            if any(index for dim, index in place.items() if dim not in dims):
                continue
            array = group[str(name)]
            array[tuple(part.get(dim, slice(None)) for dim in dims)] = values.values  # type: ignore[index]
            key = ".".join(str(place.get(dim, 0)) for dim in dims) or "0"
            names.append(f"{name}/{key}")
        return checksums(pathlib.Path(path), names)


def metadata(path: Path) -> dict[str, Any]:
    """Return all metadata of an unfinished store, by file.

    Raises: InputError for an array of a kind that jaxroof does not write.
    """
    found = plan(path)
    assert found is not None
    names = [
        f"{name}/{kind}" for name in found["variables"] + found["coordinates"] for kind in ABOUT
    ]
    known = found.get("metadata") or {  # stores of earlier versions have it only in files
        ".zgroup": {"zarr_format": 2},
        **{name: json.loads(pathlib.Path(path, name).read_bytes()) for name in names},
    }
    check_kinds(path, known)
    return {**known, ".zattrs": {**found["attributes"], **UNFINISHED}}


def reopen(path: Path) -> None:
    """Mark a store as unfinished and restore all of its metadata."""
    _mend(path, metadata(path))


def finalise(path: Path, attrs: Mapping[str, Any], without: Collection[str] = ()) -> None:
    """Finish a store: write the attributes of the whole sweep, dropping those in ``without``."""
    found, every = plan(path), metadata(path)
    assert found is not None
    kept = {name: text for name, text in found["attributes"].items() if name not in without}
    every[".zattrs"] = {**kept, **attrs}
    for name in found.get("filled", ()):
        every[f"{name}/.zarray"] = {**every[f"{name}/.zarray"], "fill_value": None}
    _mend(path, every)
    with os_errors(path):
        files = checksums(pathlib.Path(path), [*every, CONSOLIDATED])
        if record(path).get(END, {}).get("files") != files:
            append(path, {"chunk": END, "files": files, "sums": {}})


def _mend(path: Path, known: Mapping[str, Any]) -> None:
    """Write the metadata files, separate and consolidated, that are missing or differ."""
    one = {CONSOLIDATED: {"metadata": known, "zarr_consolidated_format": 1}}
    for name, content in {**one, **known}.items():  # the consolidated file first: others read it
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
    found = plan(path)
    if found is None:
        raise refusal(os.fspath(path), "not a .zarr file that jaxroof wrote, or one hardly begun")
    layout, lines = Layout(**found["layout"]), record(path)
    done = len(layout.finished(lines))
    if done < layout.count or END not in lines:
        said = f"{done} of {layout.count} chunks are finished; run the sweep again to continue"
        raise refusal(os.fspath(path), said)
    files = [found["files"], *(line["files"] for line in lines.values())]
    thorough = sum(size for some in files for size, _ in some.values()) < PROVEN
    for some in files:
        wrong = first_damaged(path, some, thorough)
        if wrong is not None:
            said = f"damaged: {wrong} is not as it was written; run the sweep again to mend it"
            raise refusal(os.fspath(path), said)
    known = json.loads(pathlib.Path(path, CONSOLIDATED).read_bytes())["metadata"]
    check_version(known[".zattrs"], os.fspath(path))
    check_kinds(path, known)
    about = {name: known[f"{name}/.zarray"] for name in found["variables"] + found["coordinates"]}
    for name in found["coordinates"]:
        check_selected(path, name, about[name])
    # integers stay integers: -1 is not turned into NaN
    data = xr.open_zarr(
        os.fspath(path),
        chunks=None,  # lazy without dask
        mask_and_scale=False,
        decode_times=False,
        consolidated=True,
        zarr_format=2,
    )
    for variable in data.variables.values():
        fill = variable.attrs.pop("_FillValue", None)
        variable.encoding = {"_FillValue": int(fill)} if variable.dtype == np.int64 and fill else {}
    variables = {
        name: lazy(
            path, name, data.variables[name], partial(check_selected, path, name, about[name])
        )
        for name in found["variables"]
    }
    # coordinates are short and not chunked like the results, so they are loaded now
    coordinates = {name: data.variables[name].load() for name in found["coordinates"]}
    return xr.Dataset(variables, coordinates, data.attrs)


def save(data: xr.Dataset, path: Path) -> None:
    """Write a whole Dataset as a finished store in a temporary directory, then replace ``path``."""
    target = pathlib.Path(path)
    check_ours(target)
    with os_errors(path):
        temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            new = temporary / "new"
            _lay_out(_even(data), new, {})
            (new / HOME).mkdir()
            write_manifest(new, *_names(data), Layout({}, {}), None)
            append(new, {"chunk": 0, "files": {}, "sums": {}})
            finalise(new, {})
            with write_lock(path) if target.exists() else contextlib.nullcontext():
                if target.exists():
                    target.rename(temporary / "old")
                new.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _even(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose dask arrays have equal chunks along a dimension, but the last one."""
    chunks = data.unify_chunks().chunksizes
    return data.chunk({dim: max(sizes) for dim, sizes in chunks.items()}) if chunks else data
