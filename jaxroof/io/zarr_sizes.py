"""The sizes that a store declares, checked before any memory of that size is taken."""

import itertools
import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.errors import refusal
from jaxroof.io.locks import Path
from jaxroof.limits import check_memory

MAGIC = b"\x28\xb5\x2f\xfd"  # the first bytes of a Zstandard frame
HEAD = 18  # bytes of the longest header of a frame
SUM = 4  # bytes that a CRC-32 adds to a chunk
REMEDY = "expected fewer values: choose some of the points"


def check_declared(where: str, about: Mapping[str, Any]) -> None:
    """Check that the shape and the chunks of an array are whole numbers, and a chunk of it fits.

    Raises: InputError for anything else, TooLarge for a chunk larger than the memory there is.
    """
    for key, least in (("shape", 0), ("chunks", 1)):
        sizes = about.get(key)
        whole = isinstance(sizes, list) and all(type(n) is int and n >= least for n in sizes)
        if not whole or len(sizes or ()) != len(about.get("shape") or ()):
            raise refusal(where, f"{key}: expected whole numbers, one a dimension")
    check_memory(f"{where}: its chunks", _chunk_bytes(about), "expected a store that jaxroof wrote")


def check_selected(
    path: Path, name: str, about: Mapping[str, Any], key: Sequence[Any] | None = None
) -> None:
    """Check that some values of an array fit in memory, and that its files hold no more than that.

    Arguments: ``key`` is an index, a slice or indices for each dimension; by default all values.
    Raises: InputError for a file that would decode to another size than that of a chunk.
    """
    shape, chunks = about["shape"], about["chunks"]
    key = [slice(None)] * len(shape) if key is None else key
    pairs = zip(shape, key, strict=True)
    wanted = [_span(length, some) for length, some in pairs]
    size = math.prod(len(some) for some in wanted) * np.dtype(about["dtype"]).itemsize
    check_memory(f"{os.fspath(path)}: the values of {name}", size, REMEDY)
    places = [_distinct(some, chunk) for some, chunk in zip(wanted, chunks, strict=True)]
    for place in itertools.product(*places):
        file = pathlib.Path(path, name, ".".join(map(str, place)) or "0")
        if file.is_file() and not _decodes_to(file, about):
            said = f"damaged: {name}/{file.name} is not of the size of its chunk"
            raise refusal(os.fspath(path), f"{said}; run the sweep again to mend it")


def _span(length: int, some: Any) -> Sequence[int]:
    """Return the places that an index, a slice or an array of indices chooses."""
    if isinstance(some, slice):
        return range(length)[some]
    if isinstance(some, int | np.integer):
        return (int(some) % length,)
    return [int(place) % length for place in np.asarray(some).ravel()]


def _distinct(places: Sequence[int], chunk: int) -> Sequence[int]:
    """Return the chunks along a dimension that some places are in."""
    if isinstance(places, range) and abs(places.step) <= chunk:
        ends = sorted((places[0] // chunk, places[-1] // chunk)) if places else (0, -1)
        return range(ends[0], ends[1] + 1)
    return sorted({place // chunk for place in places})


def _chunk_bytes(about: Mapping[str, Any]) -> int:
    return math.prod(about["chunks"]) * np.dtype(about["dtype"]).itemsize


def _decodes_to(file: pathlib.Path, about: Mapping[str, Any]) -> bool:
    """Return whether a file declares the bytes of one chunk of its array."""
    sums = sum(codec.get("id") == "crc32" for codec in about.get("filters") or ())
    expected = _chunk_bytes(about) + SUM * sums
    if not about.get("compressor"):
        return file.stat().st_size == expected
    with open(file, "rb") as stream:
        return frame_size(stream.read(HEAD)) == expected


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
