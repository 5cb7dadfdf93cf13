"""The codecs of Zarr files; their packages are imported where a file is written or read."""

import numpy as np


def crc32c(text: bytes) -> int:
    """Return the checksum CRC-32C.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    import google_crc32c

    return int(google_crc32c.value(text))


def compressed(text: bytes, level: int) -> bytes:
    """Return bytes as a frame of Zstandard.

    >>> decompressed(compressed(b"123", level=1))
    b'123'
    """
    import numcodecs

    return bytes(numcodecs.Zstd(level=level).encode(text))


def decompressed(frame: bytes) -> bytes:
    """Return the bytes of a frame of Zstandard.

    Raises: RuntimeError if it is none.
    """
    import numcodecs

    return bytes(numcodecs.Zstd().decode(frame))


def words(values: list[str]) -> bytes:
    """Return texts, each behind its length, behind their number: the codec vlen-utf8.

    >>> words(["ab"])
    b'\\x01\\x00\\x00\\x00\\x02\\x00\\x00\\x00ab'
    """
    import numcodecs

    return bytes(numcodecs.VLenUTF8().encode(np.array(values, object)))
