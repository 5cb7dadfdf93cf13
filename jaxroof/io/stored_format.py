"""The version of the format of a stored Dataset, and checksums of its question and its results.

They are attributes of the file, not of the Dataset: writing adds them, reading takes them away.
Files of versions before 1 have none of them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.errors import refusal, shown
from jaxroof.io.history import ARGUMENTS, HISTORY, history

VERSION = 2  # raise it when readers of before would misread a file, and keep one in the tests
FORMAT = "format_version"
QUESTION, RESULTS = "question_sha256", "results_sha256"
STAMPS = (FORMAT, QUESTION, RESULTS, HISTORY, ARGUMENTS)
# attributes that say nothing about the question
BESIDE = (*STAMPS, "title", "picture", "versions", "Conventions", "unfinished")
SAME_BYTES = {"f": "<f8", "c": "<c16", "b": "u1", "i": "<i8", "u": "<u8"}  # by kind of number


def stamped(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with the version of the format as an attribute."""
    return data.assign_attrs({FORMAT: VERSION})


def summed(data: xr.Dataset) -> xr.Dataset:
    """Return a Dataset with checksums of question and results, and the command that writes it."""
    return data.assign_attrs({**checksums(data), **history()})


def checksums(data: xr.Dataset) -> dict[str, str]:
    """Return the SHA-256 of a Dataset's question (attributes, coordinates) and of its results.

    They are the same for a Dataset that was written and read, whatever the kind of file.

    >>> data = xr.Dataset({"time": ("x", [1.0, 2.0])}, {"x": [3, 4]})
    >>> checksums(data) == checksums(data.astype("float32"))
    True
    >>> checksums(data)["results_sha256"] == checksums(data + 1.0)["results_sha256"]
    False
    """
    asked = {str(k): np.ravel(v).tolist() for k, v in data.attrs.items() if k not in BESIDE}
    question = json.dumps(asked, sort_keys=True, default=str)
    return {
        QUESTION: _sha256([question.encode(), *_contents(data.coords)]),
        RESULTS: _sha256(_contents(data.data_vars)),
    }


def _contents(variables: Mapping[Any, xr.DataArray]) -> Iterable[bytes]:
    """Yield the name, the dimensions and the values of every variable, in the order of names."""
    for name in sorted(map(str, variables)):
        array = variables[name]
        yield json.dumps([name, list(map(str, array.dims)), list(array.shape)]).encode()
        yield _bytes(array.values)


def _bytes(values: np.ndarray) -> bytes:
    """Return values as bytes that depend neither on the machine nor on the width of a number."""
    kind = SAME_BYTES.get(values.dtype.kind)
    if kind is None:
        return json.dumps([str(value) for value in values.ravel().tolist()]).encode()
    same = np.where(np.isnan(values), np.nan, values) if values.dtype.kind == "f" else values
    return same.astype(kind).tobytes()


def _sha256(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def check_version(attrs: Mapping[Any, Any], path: str) -> None:
    """Check that this version of jaxroof reads the format of a file; one without is older."""
    written = np.ravel(attrs.get(FORMAT, 0)).tolist()
    if len(written) != 1 or not isinstance(written[0], int) or isinstance(written[0], bool):
        raise refusal(path, f"damaged: {FORMAT} is {shown(attrs[FORMAT])}; expected a whole number")
    if written[0] > VERSION:
        said = f"written in format {shown(written[0])}, and this jaxroof reads up to {VERSION}"
        raise refusal(path, f"{said}; expected a newer jaxroof, the one that wrote it")


def separated(data: xr.Dataset) -> tuple[xr.Dataset, dict[str, Any]]:
    """Return a Dataset that was read without what its file added, and that."""
    added = {name: data.attrs[name] for name in STAMPS if name in data.attrs}
    kept = {name: value for name, value in data.attrs.items() if name not in added}
    bare = data.drop_attrs(deep=False).assign_attrs(kept) if added else data
    return bare, added
