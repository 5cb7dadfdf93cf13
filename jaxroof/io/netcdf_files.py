"""NetCDF files: written with a digest of their bytes, checked before they are opened.

The digest stands after the last byte of the file's own format, which other readers do not read. A
file that another program changed has lost it, and is read as one without.
"""

import contextlib
import hashlib
import pathlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.errors import refusal
from jaxroof.limits import check_memory

MARK = b"\njaxroof-sha256:"
LENGTH = len(MARK) + 64 + 1  # of the digest, with its mark before it and a new line behind it
BLOCK = 1 << 20  # bytes read at once
DAMAGED = "damaged: its bytes are not as they were written; write it again, or put back a copy"


def write(data: xr.Dataset, path: str) -> None:
    """Write a Dataset as NetCDF 4, with a digest of its bytes behind them."""
    # encode in memory first: HDF5 does not survive a full disk
    content = data.to_netcdf(None, engine="h5netcdf")
    with open(path, "wb") as stream:
        stream.write(content)
        stream.write(MARK + hashlib.sha256(content).hexdigest().encode() + b"\n")


def read(path: str) -> xr.Dataset:
    """Return the Dataset of a NetCDF file, with all its values.

    Raises: InputError if a byte is not as it was written, TooLarge for more values than fit in
    memory, and what the readers raise for a damaged file without a digest.
    """
    if not _is_as_written(path):
        raise refusal(path, DAMAGED)
    with _silent():
        check_memory(f"{path}: its values", _declared(path), "expected a smaller file")
        # integers stay integers: -1 is not turned into NaN
        data = xr.load_dataset(path, engine="h5netcdf", mask_and_scale=False)
    for name in data.variables:
        variable = data[name]
        fill = variable.attrs.pop("_FillValue", None)
        if fill is not None and variable.dtype.kind == "i":
            variable.encoding["_FillValue"] = int(np.asarray(fill).ravel()[0])
    return data


def _is_as_written(path: str) -> bool:
    """Return whether the bytes of a file have their digest; true for a file without one."""
    size = pathlib.Path(path).stat().st_size
    with open(path, "rb") as stream:
        stream.seek(max(0, size - LENGTH))
        last = stream.read()
        if MARK not in last:
            return True
        stream.seek(0)
        digest, left = hashlib.sha256(), size - LENGTH
        while left > 0 and (block := stream.read(min(BLOCK, left))):
            digest.update(block)
            left -= len(block)
    return last == MARK + digest.hexdigest().encode() + b"\n"


def _declared(path: str) -> int:
    """Return the bytes of all values that a file declares."""
    import h5py

    sizes = []

    def add(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            sizes.append(int(item.size or 0) * item.dtype.itemsize)

    with h5py.File(path, "r") as file:
        file.visititems(add)
    return sum(sizes)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Let the readers of damaged files say nothing by themselves, nor what they leave behind."""
    before = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.unraisablehook = before
