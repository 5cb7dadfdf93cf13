"""Names and what they are, one below the other: what `list` and `show` print, without any array."""

import shutil
import sys
import textwrap
from collections.abc import Sequence

from jaxroof.units import JOIN, unbroken

GAP = 2  # blanks between a name and what it is


def print_entries(entries: Sequence[tuple[str, str]]) -> None:
    """Print every name with its text: wrapped at a terminal's width, on one line to a pipe."""
    wide = max((len(name) for name, _ in entries), default=0) + GAP
    for name, text in entries:
        line = f"{name:<{wide}}{' '.join(text.split())}".rstrip()
        print(_wrapped(line, wide) if sys.stdout.isatty() else line)


def _wrapped(line: str, indent: int) -> str:
    """Return a line as the terminal has room for it, its text below its text."""
    width = shutil.get_terminal_size().columns
    below = " " * min(indent, width // 2)
    lines = textwrap.wrap(unbroken(line), width, subsequent_indent=below, break_on_hyphens=False)
    return "\n".join(lines).replace(JOIN, " ")
