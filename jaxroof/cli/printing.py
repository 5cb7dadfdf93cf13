"""Names with their descriptions, one per line, as `list` and `show` print them, without JAX."""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxroof.errors import printable
from jaxroof.units import JOIN, unbroken

COUNTED = {  # what the counts of a system are of, which its entry writes as plain numbers
    "nics": "per accelerator",
    "nics_per_node": "on the accelerators of a node together",
    "fast_domain": "accelerators",
    "pod": "accelerators",
    "host": "accelerators",
    "torus_axes": "axes",
}
GAP = 2  # blanks between a name and its description


def print_entries(entries: Sequence[tuple[str, str]]) -> None:
    """Print every name with its text: wrapped at a terminal's width, or on one line when piped."""
    wide = max((len(name) for name, _ in entries), default=0) + GAP
    for name, text in entries:
        line = f"{name:<{wide}}{printable(' '.join(text.split()))}".rstrip()
        print_wrapped(line, wide)


def print_wrapped(line: str, indent: int = 0) -> None:
    """Print a line wrapped at the width of a terminal or of COLUMNS, or as it is when piped."""
    print(_wrapped(line, indent) if _has_width() else line)


def page_width() -> int:
    """Return the width of the terminal, or COLUMNS; else a pipe has room for any table."""
    return shutil.get_terminal_size().columns if _has_width() else sys.maxsize


def _has_width() -> bool:
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def _wrapped(line: str, indent: int) -> str:
    """Return a line wrapped to the terminal, with the continuation aligned below its text."""
    width = shutil.get_terminal_size().columns
    below = " " * min(indent, width // 2)
    lines = textwrap.wrap(unbroken(line), width, subsequent_indent=below, break_on_hyphens=False)
    return "\n".join(lines).replace(JOIN, " ")


def entry_rows(written: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return one row per key of an entry or a file; a table of tables has a row for each.

    >>> entry_rows({"title": "A part", "peaks": {"bf16": "2 PFLOP/s", "fp8": "4 PFLOP/s"}})
    [('title', 'A part'), ('peaks', 'bf16 2 PFLOP/s, fp8 4 PFLOP/s')]
    >>> entry_rows({"axes": {"gpus": [8, 16], "case": {"system": ["a", "b"]}}})[1]
    ('axes.case', 'system a, b')
    """
    return list(_rows(written))


def _rows(written: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in written.items():
        if isinstance(value, dict) and any(isinstance(v, dict | list) for v in value.values()):
            yield from ((f"{key}.{name}", _words(inner)) for name, inner in value.items())
        else:
            counted = (
                f" {COUNTED[key]}" if key in COUNTED and isinstance(value, int | float) else ""
            )
            yield key, _words(value) + counted


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return ", ".join(_words(inner) for inner in value)
    if isinstance(value, float) and not 1e-3 <= abs(value) < 1e6:
        return f"{value:.12g}"
    return str(value).strip()
