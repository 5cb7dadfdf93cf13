"""Options of the command `jaxroof calibrate`."""

from typing import Any

import click

from jaxroof.cli import process


@click.command(
    name="calibrate",
    short_help="Fit few constants to your own measured steps.",
    epilog="""\b
Examples:
  jaxroof calibrate runs.csv --system h100-nvs8
  jaxroof calibrate runs.csv --system h100-nvs8 -o mine.toml

A row is a measured run: its columns are inputs of training, as evaluate reads them, and
#measured_step_time_s, the seconds of a step. Columns such as software.year and attention_kernel say
what software it was. First comes the factor by which its steps take longer than predicted, then the
constants that the rows tell; what they do not tell stays as it is. The file is a system like any
other: --system mine.toml.
""",
)
@click.argument("file", metavar="ROWS.csv")
@click.option(
    "--system", required=True, metavar="NAME", help="The machine of the rows, or a TOML file."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option("-o", "--output", metavar="FILE.toml", help="Write the calibrated system.")
def command(**options: Any) -> None:
    """Fit few constants of a chip to your own measured steps."""
    process.act(__name__, options)
