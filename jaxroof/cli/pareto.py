"""Options of the command `jaxroof pareto`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import shared


@click.command(
    name="pareto",
    short_help="Print what more memory buys.",
    epilog="""\b
Examples:
  jaxroof pareto --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 \\
      -o stairs.png
  jaxroof pareto --model gpt3-1t --system b200-nvs8 --gpus 512,2048 \\
      --batch 4096 --days 30
""",
)
@shared("model", "system", "split")
@click.option("--days", metavar="T", help="Find the smallest machine that trains in T days.")
@click.option(
    "--gain", default="1%", show_default=True, metavar="P", help="Speed that a stair must add."
)
@shared("gpus", "batch", "format", "where", "set", "output")
def command(**options: Any) -> None:
    """Print what more memory buys: the staircase of step time against memory."""
    systems.check_options(options)
    process.act(__name__, options)
