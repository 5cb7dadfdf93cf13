"""A variable of a file whose chunks are read, and checked, when their values are needed."""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

from jaxroof.errors import refusal
from jaxroof.io.locks import Path

Check = Callable[[tuple[Any, ...]], None]


def lazy(path: Path, name: str, variable: xr.Variable, check: Check) -> xr.Variable:
    """Return a variable that is read where it is used; a damaged chunk is then an InputError.

    ``check`` is called with what is chosen along each dimension, before it is read.
    """
    values: Any = indexing.LazilyIndexedArray(_Values(path, name, variable, check))
    return xr.Variable(variable.dims, values, variable.attrs, variable.encoding)


class _Values(BackendArray):
    """The values of a variable on disk (xarray's own way for a backend to be lazy)."""

    def __init__(self, path: Path, name: str, variable: xr.Variable, check: Check) -> None:
        self.path, self.name, self.variable, self.check = path, name, variable, check
        self.shape, self.dtype = variable.shape, variable.dtype

    def __getitem__(self, key: Any) -> Any:
        way = indexing.IndexingSupport.OUTER
        return indexing.explicit_indexing_adapter(key, self.shape, way, self._at)

    def _at(self, key: tuple[Any, ...]) -> np.ndarray:
        self.check(key)
        try:
            return np.asarray(self.variable[key].values)
        except (RuntimeError, ValueError) as error:  # of a checksum, or of the decompression
            said = f"damaged: {self.name}: {error}; run the sweep again to mend it"
            raise refusal(os.fspath(self.path), said) from error
