"""Options of the command `jaxroof validate`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="validate",
    epilog="""\b
Examples:
  jaxroof validate --memory
  jaxroof validate --memory --source simumax_b200
  jaxroof validate --memory -o errors.csv
""",
)
@click.option("--memory", is_flag=True, help="Compare peaks of memory.")
@click.option("--source", metavar="NAME", help="One source of measured rows alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option("-o", "--output", metavar="FILE", help="A .csv (a row a number) or .md (the page).")
def command(**options: Any) -> None:
    """Print the error of predictions against what others measured."""
    process.act(__name__, options)
