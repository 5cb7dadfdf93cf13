"""A variable of a file whose chunks are read, and checked, when their values are needed."""

import os
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from jaxroof.errors import refusal
from jaxroof.io.locks import Path


def lazy(path: Path, name: str, variable: xr.Variable) -> xr.Variable:
    """Return a variable that is read where it is used; a damaged chunk is then an InputError."""
    values: Any = indexing.LazilyIndexedArray(_Values(path, name, variable))
    return xr.Variable(variable.dims, values, variable.attrs, variable.encoding)


class _Values(BackendArray):
    """The values of a variable on disk (xarray's own way for a backend to be lazy)."""

    def __init__(self, path: Path, name: str, variable: xr.Variable) -> None:
        self.path, self.name, self.variable = path, name, variable
        self.shape, self.dtype = variable.shape, variable.dtype

    def __getitem__(self, key: Any) -> Any:
        way = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, way, self._at)

    def _at(self, key: tuple[Any, ...]) -> np.ndarray:
        try:
            return np.asarray(self.variable[key].values)
        except RuntimeError as error:  # of the CRC-32, or of the decompression
            said = f"damaged: {self.name}: {error}; run the sweep again to mend it"
            raise refusal(os.fspath(self.path), said) from error
