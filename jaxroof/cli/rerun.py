"""Options of the command `jaxroof rerun`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="rerun",
    epilog="""\b
Examples:
  jaxroof rerun map.nc
\b
Exit status: 0 where every result is the same to the last bit, 1 where one
differs, 2 where the file holds no question that can be answered again.
""",
)
@click.argument("file", metavar="FILE")
def command(**options: Any) -> None:
    """Answer the question of a stored result again, and compare.

    FILE is a .nc, .json or .zarr file that a command wrote. Searches, tables, elasticities and the
    plans of a training step are asked again from the numbers in the file; other answers from the
    options in it, which may name models and systems. Nothing is written, whatever the file says.
    """
    process.act(__name__, options)
