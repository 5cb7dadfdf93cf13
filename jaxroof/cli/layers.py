"""Options of the command `jaxroof layers`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import shared


@click.command(
    name="layers",
    epilog="""\b
Examples:
  jaxroof layers --model gpt3-1t --system h200-nvs4 \\
      --plan dp=64,tp=4,pp=8,microbatch=1
  jaxroof layers --estimator unfused --model gpt3 --system a100-unfused \\
      --plan tp=4 -o layer.csv
""",
)
@shared("model", "system", "format", "split", "set", "output")
@click.option(
    "--plan", "plan_text", required=True, metavar="PLAN", help="dp=64,tp=4,pp=8,microbatch=1."
)
@click.option(
    "--estimator", default="published", show_default=True, metavar="NAME",
    help="published, or unfused: each operator alone, in two tables.",
)  # fmt: skip
def command(**options: Any) -> None:
    """Print what every operation of one layer costs."""
    systems.check_options(options)
    process.act(__name__, options)
