"""Options of the command `jaxroof validate`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="validate",
    epilog="""\b
Examples:
  jaxroof validate
  jaxroof validate --source mlperf_training
  jaxroof validate -o accuracy.png
  jaxroof validate --memory -o errors.csv

Without --memory it is the step time: errors by source, chip and regime, how many measured times the
80 % interval holds, and the rows that are furthest off with the parts of their step.
""",
)
@click.option("--memory", is_flag=True, help="Compare peaks of memory, not step times.")
@click.option("--source", metavar="NAME", help="One source of measured rows alone.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option(
    "-o", "--output", metavar="FILE", help="A .csv (of rows), .md (the page) or .png (step times)."
)
def command(**options: Any) -> None:
    """Print the error of predictions against what others measured."""
    process.act(__name__, options)
