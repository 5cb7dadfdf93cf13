"""A table of uncertain inputs in TOML: what `jaxroof search --uncertain` reads."""

import os
from typing import Any

from jaxroof.config.sweep_file import errors_in_file
from jaxroof.config.toml_reader import known, load, table
from jaxroof.errors import refusal

KEYS = ("title", "samples", "seed", "distributions")


def read_uncertain(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a table of uncertain inputs says, as arguments of ``uncertain``.

    Raises: InputError, led by the file's name, where it cannot be read, for an unknown key (with
    the nearest), or where it spreads no input.
    """
    with errors_in_file(path):
        written = load(path)
        known("", written, KEYS, "key of a table of uncertain inputs")
        spread = table(written, "distributions")
        if not spread:
            example = '"system.matrix_efficiency" = ["70 %", "90 %"]'
            raise refusal("distributions", f"nothing is there; expected lines such as {example}")
        return {key: written[key] for key in KEYS[1:] if key in written}
