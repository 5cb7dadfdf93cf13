"""Options of the command `jaxroof pareto`."""

import sys
from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import comparison_options, split_option


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
@click.option("--model", "model_name", required=True, metavar="M", help="Name or file.")
@click.option("--system", "system_name", required=True, metavar="S", help="Name or file.")
@split_option
@click.option("--days", metavar="T", help="Find the smallest machine that trains in T days.")
@click.option(
    "--gain", default="1%", show_default=True, metavar="P", help="Speed that a stair must add."
)
@comparison_options
def command(**options: Any) -> None:
    """Print what more memory buys: the staircase of step time against memory."""
    systems.check_options(options)
    from jaxroof.cli.actions.pareto import pareto_command

    process.start()
    sys.exit(pareto_command(**options))
