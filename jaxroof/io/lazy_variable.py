"""A variable of a file whose chunks are read, and checked, when their values are needed."""

import os
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.errors import refusal
from jaxroof.io.locks import Path


def lazy(path: Path, name: str, variable: xr.Variable, chunks: tuple[int, ...]) -> xr.Variable:
    """Return a variable in chunks, of which a damaged one is an InputError when it is read."""
    import dask.array as da

    values = da.from_array(_Values(path, name, variable), chunks=chunks, name=False)
    return xr.Variable(variable.dims, values, variable.attrs, variable.encoding)


class _Values:
    """The values of a variable on disk, as an array that dask can slice."""

    def __init__(self, path: Path, name: str, variable: xr.Variable) -> None:
        self.path, self.name, self.variable = path, name, variable
        self.shape, self.dtype, self.ndim = variable.shape, variable.dtype, variable.ndim

    def __getitem__(self, key: Any) -> np.ndarray:
        try:
            return np.asarray(self.variable[key].values)
        except RuntimeError as error:  # of the CRC-32, or of the decompression
            said = f"damaged: {self.name}: {error}; run the sweep again to mend it"
            raise refusal(os.fspath(self.path), said) from error
