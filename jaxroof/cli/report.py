"""Options of the command `jaxroof report`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="report",
    epilog="""\b
Examples:
  jaxroof report map.nc
  jaxroof report fit.nc search.nc map.zarr -o plans.html
""",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-o", "--output", metavar="FILE", help="An .html file.  [default: FILE.html]")
def command(**options: Any) -> None:
    """Write one page of HTML that shows stored results.

    A FILE is a .nc, .json or .zarr file of any command. The page has their sentences, tables and
    pictures, what was assumed and what made them. It needs no server and no network.
    """
    process.act(__name__, options)
