"""Options of the command `jaxroof pareto`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.command import Command
from jaxroof.cli.counts import with_margin, with_sequence
from jaxroof.cli.shared_options import refuse_study_options, shared


@click.command(
    name="pareto",
    cls=Command,
    short_help="Print what more memory buys.",
    epilog="""\b
Examples:
  jaxroof pareto --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048 -o stairs.png
  jaxroof pareto --model llama3-70b --system b200-180-sxm --gpus 256,1024 \\
      --batch 1024 --days 30
""",
)
@shared("model", "system", "estimator")
@click.option("--days", metavar="T", help="Find the smallest machine that trains in T days.")
@click.option(
    "--gain", default="1%", show_default=True, metavar="P", help="Speed that a stair must add."
)
@shared("gpus", "batch", "sequence", "where", "margin", "set", "output", "json")
@shared("quiet", "verbose", "format", "split")
def command(**options: Any) -> None:
    """Print what more memory buys: the staircase of step time against memory."""
    refuse_study_options(options["estimator"])
    systems.check_options(options)
    process.act(__name__, with_margin(with_sequence(options)))
