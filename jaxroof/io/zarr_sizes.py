"""The sizes that the files of a store declare, checked before any memory of that size is taken."""

import itertools
import math
import os
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any, BinaryIO

import numpy as np

from jaxroof.errors import refusal
from jaxroof.io.locks import Path
from jaxroof.io.stored_array import EMPTY, SUM, WIDEST, StoredArray
from jaxroof.io.zarr_codecs import crc32c, decompressed
from jaxroof.limits import check_memory

MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of a Zstandard frame
HEAD = 18  # bytes of the longest header of a frame
LENGTH = 4  # bytes of the length of a text, and of the number of texts
REMEDY = "expected fewer values: choose some of the points"
MEND = "run the sweep again to mend it"


def check_selected(
    path: Path, name: str, array: StoredArray, key: Sequence[Any] | None = None
) -> None:
    """Check that some values of an array fit in memory, and that its files hold no more than that.

    Arguments: ``key`` is an index, a slice or indices for each dimension; by default all values.
    Raises: InputError for a file that would decode to another size than that of its pieces.
    """
    key = [slice(None)] * len(array.shape) if key is None else key
    wanted = [_span(length, some) for length, some in zip(array.shape, key, strict=True)]
    size = math.prod(len(some) for some in wanted) * array.itemsize
    check_memory(f"{os.fspath(path)}: the values of {name}", size, REMEDY)
    pieces = [_distinct(some, cut) for some, cut in zip(wanted, array.piece, strict=True)]
    by_chunk = [_by_chunk(some, n) for some, n in zip(pieces, array.counts, strict=True)]
    for place in itertools.product(*by_chunk):
        file = pathlib.Path(path, name, ".".join(map(str, place)) or "0")
        if not file.is_file():
            continue
        within = itertools.product(*(some[at] for some, at in zip(by_chunk, place, strict=True)))
        said = _wrong(file, array, within)
        if said:
            raise refusal(os.fspath(path), f"damaged: {name}: {file.name} {said}; {MEND}")


def _span(length: int, some: Any) -> Sequence[int]:
    """Return the places that an index, a slice or an array of indices chooses."""
    if isinstance(some, slice):
        return range(length)[some]
    if isinstance(some, int | np.integer):
        return (int(some) % length,)
    return [int(place) % length for place in np.asarray(some).ravel()]


def _distinct(places: Sequence[int], cut: int) -> Sequence[int]:
    """Return the parts of a dimension, each of length ``cut``, that some places are in."""
    if isinstance(places, range) and abs(places.step) <= cut:
        ends = sorted((places[0] // cut, places[-1] // cut)) if places else (0, -1)
        return range(ends[0], ends[1] + 1)
    return sorted({place // cut for place in places})


def _by_chunk(pieces: Sequence[int], count: int) -> dict[int, list[int]]:
    """Return pieces along a dimension by the chunk that they are in, as places inside it."""
    found: dict[int, list[int]] = {}
    for piece in pieces:
        found.setdefault(piece // count, []).append(piece % count)
    return found


def _wrong(file: pathlib.Path, array: StoredArray, places: Iterable[tuple[int, ...]]) -> str:
    """Return what is wrong with a file of a chunk, as far as some of its pieces say."""
    size = file.stat().st_size
    with open(file, "rb") as stream:
        if not array.sharded:
            return _wrong_piece(stream, 0, size, array)
        index = _index(stream, size, array)
        if index is None:
            return "has an index that is not as it was written"
        for place in places:
            start, length = map(int, index[place])
            if start == EMPTY and length == EMPTY:
                continue
            if start + length > size - array.index_size:
                return "has an index of another file"
            said = _wrong_piece(stream, start, length, array)
            if said:
                return said
    return ""


def _index(stream: BinaryIO, size: int, array: StoredArray) -> np.ndarray | None:
    """Return where the pieces of a shard lie (offset, length), None if that is damaged."""
    if size < array.index_size:
        return None
    stream.seek(size - array.index_size)
    text = stream.read()
    if crc32c(text[:-SUM]) != int.from_bytes(text[-SUM:], "little"):
        return None
    return np.frombuffer(text[:-SUM], "<u8").reshape(*array.counts, 2)


def _wrong_piece(stream: BinaryIO, start: int, length: int, array: StoredArray) -> str:
    """Return what is wrong with the size that a compressed piece declares."""
    stream.seek(start)
    said = "is not of the size of its chunk"
    if array.dtype is not None:
        return "" if frame_size(stream.read(min(HEAD, length))) == array.frame else said
    count, text = math.prod(array.piece), stream.read(length)[:-SUM]
    size = frame_size(text)
    if size is None or not LENGTH <= size <= LENGTH + count * (LENGTH + WIDEST):
        return said
    check_memory(stream.name, size, REMEDY)
    try:
        first = decompressed(text)[:LENGTH]
    except RuntimeError:
        return "cannot be decompressed"
    return "" if int.from_bytes(first, "little") == count else said


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
