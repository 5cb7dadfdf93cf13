"""Tables of uncertain inputs in TOML, for `jaxroof search --uncertain`."""

import os
from typing import Any

from jaxroof.config.toml_reader import errors_in_file, known, load, table
from jaxroof.errors import refusal

KEYS = ("title", "samples", "seed", "distributions")


def read_uncertain(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the contents of a table of uncertain inputs, as arguments of ``uncertain``.

    Raises: InputError that starts with the file's name, if the file cannot be read, a key is
    unknown (with the nearest), or no input has a distribution.
    """
    with errors_in_file(path):
        written = load(path)
        known("", written, KEYS, "key of a table of uncertain inputs")
        spread = table(written, "distributions")
        if not spread:
            example = '"system.matrix_efficiency" = ["70 %", "90 %"]'
            raise refusal("distributions", f"nothing is there; expected lines such as {example}")
        return {key: written[key] for key in KEYS[1:] if key in written}
