"""The run command: run a sweep file, write it, and print a table and sentences."""

import sys
import time
from functools import partial

from jaxroof.cli.actions.cluster import cluster_of
from jaxroof.cli.actions.console import console, say_all
from jaxroof.cli.actions.dry_run import print_dry_run
from jaxroof.cli.actions.outputs import check_output, is_picture, write_or_draw
from jaxroof.cli.progress import progress_bar
from jaxroof.config.sweep_file import run as run_file
from jaxroof.config.sweep_file import would_take
from jaxroof.views.answers import answer
from jaxroof.views.text.said import Page

MOST = 10  # columns of an axis, and plans of a point, on a terminal


def run_command(
    file: str,
    output: str | None,
    chunk: int | None,
    overwrite: bool,
    trust: bool,
    dry_run: bool,
    workers: int | None,
    scheduler: str | None,
) -> int:
    """Run a sweep file, print and write or draw its results; return the exit status."""
    check_output(output)
    picture = output if is_picture(output) else None
    written = None if picture else output
    if dry_run:
        asked = partial(would_take, file, output=written, chunk=chunk, trust=trust)
        return print_dry_run(asked, written)
    start = time.perf_counter()
    with progress_bar() as progress:
        data = run_file(
            file,
            progress,
            output=written,
            chunk=chunk,
            overwrite=overwrite,
            trust=trust,
            cluster=cluster_of(workers, scheduler),
        )
    took = time.perf_counter() - start
    say_all(answer(data, Page(console().width, MOST)))
    write_or_draw(picture, data, lambda plots: plots.draw(data))
    print(f"{took:.2f} s" + (f", wrote {output}" if output else ""), file=sys.stderr)
    return 0 if "feasible" not in data or bool(data.feasible.any()) else 1
