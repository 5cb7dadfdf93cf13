"""What a store says of an array, checked before the array is opened, and what its files decode to.

Kinds of arrays that jaxroof does not write may unpickle data, and so run code of the file's choice;
sizes that do not fit are refused before memory is taken.
"""

import dataclasses
import math
import os
import zlib
from collections.abc import Mapping
from typing import Any, BinaryIO

import google_crc32c
import numcodecs
import numpy as np
from zarr.storage import LocalStore, WrapperStore

from jaxroof.errors import InputError, refusal, shown
from jaxroof.io.atomic import DAMAGE, Path
from jaxroof.limits import check_memory

NUMBERS = [*(f"{kind}int{8 * size}" for kind in ("", "u") for size in (1, 2, 4, 8))]
NAMES = ("bool", *NUMBERS, "float16", "float32", "float64", "complex64", "complex128")
TEXT, SHARDED = "string", "sharding_indexed"
KEYS = {"name": "v2", "configuration": {"separator": "."}}  # files are called 0.0
INDEX = ("bytes", "crc32c")  # codecs of the index of a shard
WIDEST = 1 << 16  # bytes of a text
HELD = 128  # bytes of memory that a short text takes
SUM = 4  # bytes of a CRC-32C
NUMBER = 4  # bytes of the number of texts
ENTRY = 16  # bytes of a piece in the index of a shard
EMPTY = 2**64 - 1  # offset of a piece that a shard does not have
WRONG = "a file is not of the size of its chunk"
MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of a Zstandard frame
LEVEL = 1  # of compression
HEAD = 18  # bytes of the longest header of a frame


@dataclasses.dataclass(frozen=True)
class StoredArray:
    """An array of a store, checked: a file holds a chunk, and a chunk holds pieces."""

    chunk: tuple[int, ...]
    piece: tuple[int, ...]
    dtype: np.dtype[Any] | None  # none for texts of any length
    sharded: bool  # with an index of its pieces at the end of the file

    @property
    def index_size(self) -> int:
        """Return the bytes of the index of a shard."""
        return ENTRY * math.prod(self.counts) + SUM if self.sharded else 0

    @property
    def counts(self) -> tuple[int, ...]:
        """Return how many pieces a chunk has along each dimension."""
        return tuple(c // p for c, p in zip(self.chunk, self.piece, strict=True))

    @property
    def itemsize(self) -> int:
        """Return the bytes of a value in memory."""
        return HELD if self.dtype is None else self.dtype.itemsize


def arrays_of(path: Path, known: Mapping[str, Any]) -> dict[str, StoredArray]:
    """Return the arrays that the metadata of a store describes, by name."""
    found = {}
    for name, about in known.items():
        where = f"{os.fspath(path)}: {name}/zarr.json"
        try:
            found[name] = _array_of(where, about)
        except InputError:
            raise
        except DAMAGE as error:
            raise refusal(where, "damaged: not the array that jaxroof wrote") from error
    return found


def _array_of(where: str, about: Mapping[str, Any]) -> StoredArray:
    kind = about["data_type"]
    if kind not in (*NAMES, TEXT):
        said = f"data_type {shown(kind)} is not accepted"
        raise refusal(where, f"{said}; expected numbers, flags or texts")
    if about["chunk_key_encoding"] != KEYS or about.get("storage_transformers"):
        raise refusal(where, "chunk_key_encoding: expected names of files such as 0.0")
    codecs, first = about["codecs"], "vlen-utf8" if kind == TEXT else "bytes"
    plain = (first, "zstd", "crc32c")
    names, sharded = _names(codecs), ((SHARDED, plain, INDEX),)
    if names not in (plain, sharded):
        said = f"codecs {shown(names)} are not accepted"
        raise refusal(where, f"{said}; expected {', '.join(plain)}, in shards or not")
    if about["chunk_grid"]["name"] != "regular":
        raise refusal(where, "chunk_grid: expected a regular one")
    chunk = piece = about["chunk_grid"]["configuration"]["chunk_shape"]
    if names == sharded:
        piece = codecs[0]["configuration"]["chunk_shape"]
    for sizes, least in ((about["shape"], 0), (chunk, 1), (piece, 1)):
        if not all(type(size) is int and size >= least for size in sizes):
            raise refusal(where, "shape and chunk_shape: expected whole numbers")
    if any(c % p for _, c, p in zip(about["shape"], chunk, piece, strict=True)):
        raise refusal(where, "chunk_shape: expected pieces that divide a chunk")
    dtype = None if kind == TEXT else np.dtype(kind)
    found = StoredArray(tuple(chunk), tuple(piece), dtype, names == sharded)
    size = math.prod(piece) * found.itemsize + found.index_size
    check_memory(f"{where}: its chunks", size, "expected a store that jaxroof wrote")
    return found


def _names(codecs: Any) -> tuple[Any, ...]:
    """Return the names of codecs, with those inside of a shard."""
    found: list[Any] = []
    for codec in codecs:
        name, about = codec["name"], codec.get("configuration", {})
        if name != SHARDED:
            found.append(name)
        elif about.get("index_location", "end") == "end":
            found.append((name, _names(about["codecs"]), _names(about["index_codecs"])))
    return tuple(found)


class ArrayFile:
    """The file of a chunk of an array, to which its pieces are appended, so none stays in memory.

    zarr itself would need all of a chunk at once.
    """

    def __init__(self, name: str, array: StoredArray, stream: BinaryIO) -> None:
        self.name, self.array, self.stream = name, array, stream
        self.index = np.full((*array.counts, 2), EMPTY, "<u8")
        self.size = self.checksum = 0

    def add(self, place: tuple[int, ...], values: np.ndarray) -> None:
        """Append the piece at a place; one at the end of the grid is filled up."""
        whole = np.zeros(self.array.piece, self.array.dtype or values.dtype)
        whole[tuple(map(slice, values.shape))] = values
        texts = numcodecs.VLenUTF8() if self.array.dtype is None else None
        plain = texts.encode(whole.astype(object)) if texts else whole
        at, frame = self.size, numcodecs.Zstd(LEVEL).encode(plain)
        self._write(frame)
        self.index[place] = at, self.size - at

    def _write(self, text: bytes) -> None:
        """Append bytes and their CRC-32C."""
        for part in (text, google_crc32c.value(text).to_bytes(SUM, "little")):
            self.stream.write(part)
            self.size, self.checksum = self.size + len(part), zlib.crc32(part, self.checksum)

    def finish(self) -> list[int]:
        """Append the index of a shard; return size and CRC-32 of the file."""
        if self.array.sharded:
            self._write(self.index.tobytes())
        return [self.size, self.checksum]


class CheckedStore(WrapperStore[LocalStore]):
    """The files of a store, whose pieces are checked to decode to no more than their size."""

    def __init__(self, store: LocalStore, arrays: Mapping[str, StoredArray]) -> None:
        super().__init__(store)
        self.arrays = arrays

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        """Return the bytes of a file, or of a part of it."""
        found = await super().get(key, prototype, byte_range)
        array = self.arrays.get(key.rpartition("/")[0])
        if found is not None and array is not None and not key.endswith("zarr.json"):
            _check(found.as_numpy_array().data, array, byte_range is None)
        return found


def _check(text: memoryview, array: StoredArray, whole: bool) -> None:
    """Check that the pieces in a file, or a piece or an index read from it, have their size."""
    pieces = [text]
    if whole and len(text) < array.index_size:
        raise ValueError(WRONG)
    if array.sharded and whole:
        index = np.frombuffer(text[-array.index_size : -SUM], "<u8").reshape(-1, 2)
        pieces = [text[at : at + length] for at, length in index.tolist() if at != EMPTY]
    elif array.sharded and bytes(text[: len(MAGIC)]) != MAGIC:
        return  # the index, of the size that was asked for
    count = math.prod(array.piece)
    for piece in pieces:
        size = frame_size(bytes(piece[:HEAD]))
        if size is None or size > count * (array.itemsize if array.dtype else WIDEST):
            raise ValueError(WRONG)
        if array.dtype is None:  # room is made for as many texts as the first bytes say
            plain = numcodecs.Zstd().decode(bytes(piece[:-SUM]))
            if int.from_bytes(plain[:NUMBER], "little") != count:
                raise ValueError(WRONG)


def frame_size(head: bytes) -> int | None:
    """Return the bytes that a Zstandard frame decodes to, None where its header does not say.

    Source: RFC 8878, section 3.1.1.1.

    >>> frame_size(bytes.fromhex("28b52ffd2010")), frame_size(b"no frame")
    (16, None)
    """
    if not head.startswith(MAGIC) or len(head) < len(MAGIC) + 1:
        return None
    flags = head[len(MAGIC)]
    single = flags >> 5 & 1
    width = (single, 2, 4, 8)[flags >> 6]
    start = len(MAGIC) + 1 + (0 if single else 1) + (0, 1, 2, 4)[flags & 3]
    if not width or len(head) < start + width:
        return None
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size
