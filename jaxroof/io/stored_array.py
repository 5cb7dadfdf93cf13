"""What a store says of an array, read and checked before the array is opened.

Kinds of arrays that jaxroof does not write may unpickle data, and so run code of the file's choice;
sizes that do not fit are refused before memory is taken.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.errors import refusal, shown
from jaxroof.io.locks import Path
from jaxroof.limits import check_memory

NUMBERS = [*(f"{kind}int{8 * size}" for kind in ("", "u") for size in (1, 2, 4, 8))]
NAMES = ("bool", *NUMBERS, "float16", "float32", "float64", "complex64", "complex128")  # format 3
TEXT, TEXT_CODEC = "string", "vlen-utf8"
BYTES, ZSTD, CRC32C, SHARDED = "bytes", "zstd", "crc32c", "sharding_indexed"
INDEX_CODECS = (BYTES, CRC32C)
WIDEST = 1 << 16  # bytes of a text
HELD = 128  # bytes of memory that a short text takes
SUM = 4  # bytes of a CRC-32
EMPTY = 2**64 - 1  # offset of a piece that a shard does not have
ENTRY = 16  # bytes of a piece in the index of a shard


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of a store, checked: a file holds a chunk, and a chunk holds pieces."""

    shape: tuple[int, ...]
    chunk: tuple[int, ...]
    piece: tuple[int, ...]
    dtype: np.dtype[Any] | None  # none for texts of any length
    frame: int | None  # bytes that a piece decodes to; none for texts
    sharded: bool = False  # with an index of its pieces at the end of the file

    @property
    def counts(self) -> tuple[int, ...]:
        """Return how many pieces a chunk has along each dimension."""
        return tuple(c // p for c, p in zip(self.chunk, self.piece, strict=True))

    @property
    def index_size(self) -> int:
        """Return the bytes of the index of a shard."""
        return ENTRY * math.prod(self.counts) + SUM

    @property
    def itemsize(self) -> int:
        """Return the bytes of a value in memory."""
        return HELD if self.dtype is None else self.dtype.itemsize


def arrays_of(path: Path, known: Mapping[str, Any]) -> dict[str, StoredArray]:
    """Return the arrays that the metadata of a store describes.

    Raises: InputError for a data type, codecs or sizes that jaxroof does not write.
    """
    return {
        name.rpartition("/")[0]: _array_of(f"{os.fspath(path)}: {name}", about)
        for name, about in known.items()
        if "/" in name  # else it is that of the whole store
    }


def _array_of(where: str, about: Mapping[str, Any]) -> StoredArray:
    kind = about.get("data_type")
    if kind not in (*NAMES, TEXT):
        raise _no_kind(where, f"data_type {shown(kind)}")
    keys, grid = about.get("chunk_key_encoding"), about.get("chunk_grid")
    if keys != {"name": "v2", "configuration": {"separator": "."}}:
        raise refusal(where, "chunk_key_encoding: expected names of files such as 0.0")
    if about.get("storage_transformers"):
        raise refusal(where, "storage_transformers: expected none")
    if not isinstance(grid, dict) or grid.get("name") != "regular":
        raise refusal(where, "chunk_grid: expected a regular one")
    shape = _sizes(where, about, "shape", 0)
    chunk = _sizes(where, grid.get("configuration"), "chunk_shape", 1, len(shape))
    codecs, piece = about.get("codecs"), chunk
    outer = codecs[0] if isinstance(codecs, list) and len(codecs) == 1 else None
    sharded = isinstance(outer, dict) and outer.get("name") == SHARDED
    if isinstance(outer, dict) and sharded:
        inner = outer.get("configuration")
        piece = _sizes(where, inner, "chunk_shape", 1, len(shape))
        if any(c % p for c, p in zip(chunk, piece, strict=True)):
            raise refusal(where, "chunk_shape: expected pieces that divide a chunk")
        assert isinstance(inner, dict)  # it has a chunk_shape
        _check_codecs(where, inner.get("index_codecs"), INDEX_CODECS)
        if inner.get("index_location", "end") != "end":
            raise refusal(where, "index_location: expected the end")
        codecs = inner.get("codecs")
    _check_codecs(where, codecs, (TEXT_CODEC if kind == TEXT else BYTES, ZSTD, CRC32C))
    dtype = None if kind == TEXT else np.dtype(kind)
    frame = None if dtype is None else math.prod(piece) * dtype.itemsize
    return _checked(where, StoredArray(shape, chunk, piece, dtype, frame, sharded=sharded))


def _checked(where: str, array: StoredArray) -> StoredArray:
    """Return an array after checking that a piece of it, and its index, fit in memory."""
    size = math.prod(array.piece) * array.itemsize + array.sharded * array.index_size
    check_memory(f"{where}: its chunks", size, "expected a store that jaxroof wrote")
    return array


def _sizes(
    where: str, about: Any, key: str, least: int, dimensions: int | None = None
) -> tuple[int, ...]:
    """Return the lengths that metadata gives, checked to be whole numbers, one a dimension."""
    sizes = about.get(key) if isinstance(about, dict) else None
    whole = isinstance(sizes, list) and all(type(n) is int and n >= least for n in sizes)
    wanted = len(about.get("shape") or ()) if whole and dimensions is None else dimensions
    if not whole or len(sizes or ()) != wanted:
        raise refusal(where, f"{key}: expected whole numbers, one a dimension")
    return tuple(sizes or ())


def _names(codecs: Any) -> tuple[Any, ...]:
    """Return the names of codecs, which metadata gives as objects or as bare names."""
    listed = codecs if isinstance(codecs, list) else [codecs]
    return tuple(codec.get("name") if isinstance(codec, dict) else codec for codec in listed)


def _check_codecs(where: str, codecs: Any, expected: Sequence[str]) -> None:
    """Check that codecs are those that jaxroof writes, in that order, of little-endian numbers.

    Raises: InputError for any other.
    """
    names = _names(codecs)
    for name in names:
        if name not in expected:
            raise _no_codec(where, name, expected)
    if names != tuple(expected):
        raise refusal(where, f"codecs: expected {', '.join(expected)}")
    first = codecs[0].get("configuration") or {} if isinstance(codecs[0], dict) else {}
    if names[0] == BYTES and first.get("endian", "little") != "little":
        raise refusal(where, "codecs: expected little-endian numbers")


def _no_kind(where: str, what: str) -> Exception:
    return refusal(where, f"{what} is not accepted; expected numbers, flags or texts")


def _no_codec(where: str, name: Any, expected: Sequence[str]) -> Exception:
    return refusal(where, f"codec {shown(name)} is not accepted; expected {' or '.join(expected)}")
