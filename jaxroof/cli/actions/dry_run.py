"""Dry runs: print what a question would take."""

import pathlib
import sys
from collections.abc import Callable

from jaxroof.cli.entries import print_entries
from jaxroof.cli.progress import working
from jaxroof.engine.runs.dry_run import DryRun
from jaxroof.limits import disk_limit, memory_limit
from jaxroof.views.text.dry_run import dry_run_rows


def print_dry_run(asked: Callable[[], DryRun], output: str | None = None) -> int:
    """Print what a question would take; return 2 where it would be refused."""
    with working("timing a sample of the points"):
        found = asked()
    disk = None if output is None else disk_limit(pathlib.Path(output).parent)
    print_entries(dry_run_rows(found, memory_limit(), disk))
    if found.refused:
        print(f"jaxroof: {found.refused}", file=sys.stderr)
    return 2 if found.refused else 0
