"""A Zarr store, laid out whole and written chunk by chunk, read when its values are used.

Zarr format 2, the one that has texts; every chunk carries a CRC-32, and the ledger beside them
says which are finished.
"""

import contextlib
import json
import os
import pathlib
import shutil
import tempfile
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.atomic import os_errors
from jaxroof.engine.ledger import (
    END,
    HOME,
    Layout,
    append,
    held,
    misfit,
    ours,
    plan,
    prints,
    record,
    replace,
    settle,
)
from jaxroof.engine.locks import Path
from jaxroof.errors import refusal

PROVEN = 1 << 26  # bytes of a store that is read to the last bit before it is opened


def begin(
    path: Path, first: xr.Dataset, coordinates: xr.Dataset, layout: Layout, asked: Any
) -> None:
    """Lay out an empty store for a whole grid, given the results of its first chunk."""
    import dask.array as da

    chunk = {dim: layout.chunk.get(str(dim), size) for dim, size in first.sizes.items()}
    sizes = {dim: layout.sizes.get(str(dim), size) for dim, size in first.sizes.items()}

    def empty(name: str, variable: xr.Variable) -> xr.Variable:
        shape, cut = ([some[dim] for dim in variable.dims] for some in (sizes, chunk))
        values = da.zeros(shape, dtype=variable.dtype, chunks=cut, name=name)  # named: no hash
        return xr.Variable(variable.dims, values, variable.attrs, variable.encoding)

    behind = {n: c for n, c in first.coords.items() if not set(c.dims) & set(layout.sizes)}
    whole = xr.Dataset(
        {name: empty(str(name), values.variable) for name, values in first.data_vars.items()},
        {**coordinates.coords, **behind},
        first.attrs,
    )
    fresh = pathlib.Path(path, HOME, "fresh")
    with os_errors(path):
        _lay_out(whole, fresh, compute=False)
        for made in fresh.iterdir():
            made.rename(pathlib.Path(path, made.name))
        fresh.rmdir()
        settle(path, map(str, whole.data_vars), map(str, whole.coords), layout, asked)


def _lay_out(data: xr.Dataset, folder: pathlib.Path, *, compute: bool) -> None:
    """Write a Dataset as Zarr; what dask holds is written with ``compute`` alone."""
    import numcodecs

    def encoding(variable: xr.Variable) -> dict[str, Any]:
        fill = variable.encoding.get("_FillValue")
        return {
            "filters": (numcodecs.CRC32(location="end"),),
            "compressors": (numcodecs.Zstd(level=1),),
            **({} if fill is None else {"_FillValue": fill}),
        }

    lay_out: Any = data.to_zarr  # one overload for each kind of `compute`
    lay_out(
        folder,
        mode="w",
        compute=compute,
        encoding={name: encoding(v) for name, v in data.variables.items()},
        zarr_format=2,
        consolidated=False,
        write_empty_chunks=True,  # so that a file that is lost is told from one of zeros
    )


def put(path: Path, number: int, layout: Layout, data: xr.Dataset, sums: Mapping[str, Any]) -> None:
    """Write the results of one chunk to its region, then its line of the record.

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
        files = prints(pathlib.Path(path), names)
        append(path, {"chunk": number, "files": files, "sums": sums})


def end(path: Path, attrs: Mapping[str, Any], without: Collection[str] = ()) -> None:
    """Finish a store: the attributes of the whole, less those of the first chunk in ``without``."""
    root = pathlib.Path(path)
    found = plan(path)
    assert found is not None
    kept = {name: text for name, text in found["attributes"].items() if name not in without}
    wanted, known = {**kept, **attrs}, record(path).get(END, {"files": {".zattrs": [0, 0]}})
    with os_errors(path):
        if misfit(path, known["files"], True) is None and wanted == json.loads(
            (root / ".zattrs").read_text(encoding="utf-8")
        ):
            return
        replace(root / ".zattrs", wanted, path)
        about = [root / ".zgroup", root / ".zattrs"]
        for name in [*found["variables"], *found["coordinates"]]:
            about += [root / name / ".zarray", root / name / ".zattrs"]
        every = {
            file.relative_to(root).as_posix(): json.loads(file.read_text(encoding="utf-8"))
            for file in about
            if file.exists()
        }
        replace(root / ".zmetadata", {"metadata": every, "zarr_consolidated_format": 1}, path)
        files = prints(root, (".zgroup", ".zattrs", ".zmetadata"))
        append(path, {"chunk": END, "files": files, "sums": {}})


def read(path: Path) -> xr.Dataset:
    """Return a finished store, its variables read when they are used.

    A large store is known to have every file at its full size; what else is wrong with a chunk
    its CRC-32 tells when it is read.
    Raises: InputError for a store that is not finished, or damaged.
    """
    found = plan(path)
    if found is None:
        raise refusal(os.fspath(path), "not a .zarr file that jaxroof wrote, or one hardly begun")
    layout, lines = Layout(**found["layout"]), record(path)
    done = sum(number in lines for number in range(len(layout)))
    if done < len(layout) or END not in lines:
        said = f"{done} of {len(layout)} chunks are finished; run the sweep again to continue"
        raise refusal(os.fspath(path), said)
    files = [found["files"], *(line["files"] for line in lines.values())]
    thorough = sum(size for some in files for size, _ in some.values()) < PROVEN
    for some in files:
        wrong = misfit(path, some, thorough)
        if wrong is not None:
            said = f"damaged: {wrong} is not as it was written; run the sweep again to mend it"
            raise refusal(os.fspath(path), said)
    # whole numbers stay whole: -1 is not turned into NaN
    data = xr.open_zarr(
        os.fspath(path), chunks={}, mask_and_scale=False, decode_times=False, consolidated=True
    )
    for variable in data.variables.values():
        fill = variable.attrs.pop("_FillValue", None)
        variable.encoding = {"_FillValue": int(fill)} if variable.dtype == np.int64 and fill else {}
    variables, coordinates = (
        {name: data.variables[name] for name in found[kind]}
        for kind in ("variables", "coordinates")
    )
    return xr.Dataset(variables, coordinates, data.attrs)


def save(data: xr.Dataset, path: Path) -> None:
    """Write a whole Dataset as a finished store, beside what is there, which it then replaces."""
    target = pathlib.Path(path)
    ours(target)
    with os_errors(path):
        temporary = pathlib.Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        try:
            new = temporary / "new"
            _lay_out(_even(data), new, compute=True)
            (new / HOME).mkdir()
            settle(new, map(str, data.data_vars), map(str, data.coords), Layout({}, {}), None)
            append(new, {"chunk": 0, "files": {}, "sums": {}})
            end(new, {})
            with held(path) if target.exists() else contextlib.nullcontext():
                if target.exists():
                    target.rename(temporary / "old")
                new.rename(target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _even(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset whose chunks are equal along a dimension, but for the last."""
    chunks = data.unify_chunks().chunksizes
    return data.chunk({dim: max(sizes) for dim, sizes in chunks.items()}) if chunks else data
