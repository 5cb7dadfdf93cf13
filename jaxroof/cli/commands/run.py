"""The command `jaxroof run`: a sweep file, run, written and printed."""

import click

from jaxroof.cli.options import Command, shared

MOST = 10  # columns of an axis, and plans of a point, on a terminal


@click.command(
    name="run",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof run sweeps/gpt3_hbm.toml -o map.nc
  jaxroof run sweeps/gpt3_hbm.toml -o map.png
  jaxroof run sweeps/gpt3_hbm.toml -o map.zarr
  jaxroof run sweeps/gpt3_hbm.toml -o map.zarr --workers 4
  jaxroof run sweeps/gpt3_hbm.toml --dry-run
\b
A file with estimator = "MODULE:NAME" runs code: that of MODULE.py beside it
(only with --trust) or that of an installed module. Read it before.
\b
Sizes are checked before anything is computed. The limits are 16 GB of memory,
and 80 % of what is free of memory and disk; the environment variables
JAXROOF_MEMORY and JAXROOF_DISK set others, such as JAXROOF_MEMORY="64 GB".
""",
)
@click.argument("file", metavar="FILE.toml")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    help="Write to a .csv, .json, .nc or .zarr file, or draw to a .png, .svg or .pdf.",
)
@click.option("--chunk", type=int, metavar="N", help="Most points of a chunk of a .zarr file.")
@click.option("--overwrite", is_flag=True, help="Start a .zarr file anew, whatever it holds.")
@click.option("--dry-run", is_flag=True, help="Print points, memory, disk and time; run nothing.")
@shared("trust")
@click.option("--workers", type=int, metavar="N", help="Evaluate chunks (.zarr) in N processes.")
@shared("json", "quiet", "verbose")
@click.option("--scheduler", metavar="ADDRESS", help="Or by the workers of dask.distributed.")
def command(
    file: str,
    output: str | None,
    chunk: int | None,
    overwrite: bool,
    dry_run: bool,
    trust: bool,
    workers: int | None,
    scheduler: str | None,
) -> int:
    """Run a sweep file and print what it found.

    A .zarr file that was stopped is gone on with.
    """
    import functools
    import time

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import progress_bar
    from jaxroof.config import sweep_file
    from jaxroof.engine.runs.cluster import Cluster
    from jaxroof.views.answers import answer
    from jaxroof.views.text.said import Page

    deliver.check_output(output)
    written = None if deliver.is_picture(output) else output
    if dry_run:
        asked = functools.partial(sweep_file.would_take, output=written, chunk=chunk, trust=trust)
        return deliver.print_dry_run(functools.partial(asked, file), written)
    cluster = None
    if (workers, scheduler) != (None, None):
        cluster = Cluster(workers, scheduler, functools.partial(click.echo, err=True))
    start = time.perf_counter()
    with progress_bar() as progress:
        data = sweep_file.run(
            file,
            progress,
            output=written,
            chunk=chunk,
            overwrite=overwrite,
            trust=trust,
            cluster=cluster,
        )
    took = time.perf_counter() - start
    said = answer(data, Page(deliver.console().width, MOST))
    deliver.deliver(data, output if written is None else None, said=said, report=False)
    click.echo(f"{took:.2f} s" + (f", wrote {output}" if output else ""), err=True)
    return 0 if "feasible" not in data or bool(data.feasible.any()) else 1
