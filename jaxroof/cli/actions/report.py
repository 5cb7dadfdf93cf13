"""The report command: one page of HTML from stored results."""

import pathlib
import sys

from jaxroof.cli.progress import working
from jaxroof.units import size
from jaxroof.views.report import report


def report_command(*, files: tuple[str, ...], output: str | None) -> None:
    """Write the page of some files of results."""
    target = output or f"{pathlib.Path(files[0]).stem}.html"
    with working("drawing the results"):
        report(files, target)
    written = size(pathlib.Path(target).stat().st_size, "B")
    print(f"wrote {target}, {written}", file=sys.stderr)
