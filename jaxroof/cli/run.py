"""Options of the command `jaxroof run`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import shared


@click.command(
    name="run",
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
@click.option("--trust", is_flag=True, help="Run the code of an estimator beside the file.")
@click.option("--workers", type=int, metavar="N", help="Evaluate chunks (.zarr) in N processes.")
@shared("json", "quiet", "verbose")
@click.option("--scheduler", metavar="ADDRESS", help="Or by the workers of dask.distributed.")
def command(**options: Any) -> None:
    """Run a sweep file and print what it found.

    A .zarr file that was stopped is gone on with.
    """
    systems.check_sweep(options["file"])
    process.act(__name__, options)
