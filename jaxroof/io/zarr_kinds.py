"""The kinds of arrays that a store may hold, checked before one is opened."""

import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.errors import brief, refusal, shown
from jaxroof.io.locks import Path
from jaxroof.io.zarr_sizes import check_declared

KINDS = re.compile(r"[|<>][biufcSU]\d+")  # accepted dtypes: flags, numbers and fixed-width texts
CODECS = ("crc32", "zstd")
WIDEST = 1 << 16  # bytes of a text


def check_kinds(path: Path, known: Mapping[str, Any]) -> None:
    """Check, before an array is opened, that jaxroof writes its dtype and codecs.

    Other kinds may unpickle data, and so run code of the file's choice.
    """
    for name, about in known.items():
        if not name.endswith(".zarray"):
            continue
        kind, where = about.get("dtype"), f"{os.fspath(path)}: {name}"
        if not (isinstance(kind, str) and KINDS.fullmatch(kind)):
            expected = "expected numbers, flags or texts of one width"
            raise refusal(where, f"dtype {shown(kind)} is not accepted; {expected}")
        if np.dtype(kind).itemsize > WIDEST:
            raise refusal(where, f"dtype {brief(kind)} is too wide; expected texts of a line")
        check_declared(where, about)
        codecs = [*(about.get("filters") or ()), about.get("compressor")]
        for codec in filter(None, codecs):
            identifier = codec.get("id") if isinstance(codec, dict) else codec
            if identifier not in CODECS:
                what = f"codec {shown(identifier)} is not accepted; expected {' or '.join(CODECS)}"
                raise refusal(where, what)
