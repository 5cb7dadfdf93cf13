"""Options of the command `jaxroof run`."""

from typing import Any

import click

from jaxroof.cli import process, systems


@click.command(
    name="run",
    epilog="""\b
Examples:
  jaxroof run sweeps/gpt3_hbm.toml -o map.nc
  jaxroof run sweeps/gpt3_hbm.toml -o map.zarr
""",
)
@click.argument("file", metavar="FILE.toml")
@click.option("-o", "--output", metavar="FILE", help="Write to a .csv, .json, .nc or .zarr file.")
@click.option(
    "--chunk", type=int, metavar="N", help="Most points of a chunk (.zarr; .csv of every plan)."
)
@click.option("--overwrite", is_flag=True, help="Start such a file anew, whatever it holds.")
def command(**options: Any) -> None:
    """Run a sweep file and print what it found.

    A .zarr file that was stopped is gone on with; so is a .csv file of every plan, which several
    sweeps may share.
    """
    systems.check_sweep(options["file"])
    process.act(__name__, options)
