"""Where the project's own files are."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MEASURED = ROOT / "jaxroof" / "validation" / "data"  # rows that travel with the package


def packed_bytes(of: str) -> int:
    """Return the bytes that the rows of ``steps``, ``memory`` or ``serving`` take."""
    return sum(file.stat().st_size for file in (MEASURED / of).iterdir())
