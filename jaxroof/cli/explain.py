"""Options of the command `jaxroof explain`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.command import Command
from jaxroof.cli.counts import with_sequence
from jaxroof.cli.shared_options import refuse_study_options, shared


@click.command(
    name="explain",
    cls=Command,
    short_help="Print what binds the best plan, and where that changes.",
    epilog="""\b
Examples:
  jaxroof explain --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048
  jaxroof explain --estimator published --model vit-era5 \\
      --system h200-nvs8 --gpus 2048 --batch 4096 --split context --json
  jaxroof explain --model deepseek-v3 --system gb200-nvl72 --gpus 2048 \\
      --batch 15360 -o tornado.png
""",
)
@shared("model", "system", "estimator")
@click.option("--gpus", required=True, metavar="N", help="Accelerators to split over.")
@shared("batch", "sequence", "set", "where")
@click.option(
    "--span", default="16", show_default=True, metavar="X",
    help="Parameters are moved from 1/X to X times today's.",
)  # fmt: skip
@click.option(
    "-o", "--output", metavar="FILE",
    help="A .nc .json, also for a report; a .png .svg .pdf.",
)  # fmt: skip
@shared("json", "quiet", "verbose", "format", "split")
def command(**options: Any) -> None:
    """Print which resource binds the best plan, by how much, and where that changes."""
    refuse_study_options(options["estimator"])
    systems.check_options(options)
    process.act(__name__, with_sequence(options))
