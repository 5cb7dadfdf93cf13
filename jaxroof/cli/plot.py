"""Options of the command `jaxroof plot`."""

from typing import Any

import click

from jaxroof.cli import process, systems


@click.command(
    name="plot",
    epilog="""\b
Examples:
  jaxroof plot map.nc
  jaxroof plot sweeps/p7_gpt3_bandwidth_capacity.toml -o map.svg
  jaxroof plot days.nc --kind normalised_throughput -o throughput.png
""",
)
@click.argument("file", metavar="FILE")
@click.option("-o", "--output", metavar="FILE", help="A .png, .svg or .pdf.  [default: FILE.png]")
@click.option("--kind", metavar="NAME", help="Picture to draw.  [default: what the file asks for]")
@click.option("--at", "points", multiple=True, metavar="DIM=VALUE", help="Cut at one point.")
@click.option("--trust", is_flag=True, help="Run the code of an estimator beside a sweep file.")
def command(**options: Any) -> None:
    """Draw a file of results, or a sweep file, which is run first."""
    if options["file"].endswith(".toml"):
        systems.check_sweep(options["file"])
    process.act(__name__, options)
