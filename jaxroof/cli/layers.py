"""Options of the command `jaxroof layers`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.command import Command
from jaxroof.cli.counts import with_sequence
from jaxroof.cli.shared_options import refuse_study_options, shared


@click.command(
    name="layers",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof layers --model llama3.1-405b --system h100-nvs8 \\
      --plan dp=32,tp=8,pp=16
  jaxroof layers --model deepseek-v3 --system gb200-nvl72 \\
      --plan dp=128,pp=16,ep=64 -o layer.png
  jaxroof layers --estimator published --model gpt3-1t --system h200-nvs4 \\
      --plan dp=64,tp=4,pp=8,microbatch=1
  jaxroof layers --estimator unfused --model gpt3 --system a100-unfused \\
      --plan tp=4 -o layer.csv
""",
)
@shared("model", "system")
@click.option("--plan", "plan_text", required=True, metavar="PLAN", help="dp=32,tp=8,pp=16,mb=1.")
@click.option(
    "--estimator", default="training", show_default=True, metavar="NAME",
    help="training: models of today; published: the study's; unfused: each operator alone.",
)  # fmt: skip
@shared("sequence", "set", "output", "json", "quiet", "verbose", "format", "split")
def command(**options: Any) -> None:
    """Print what every operation of one layer costs."""
    refuse_study_options(options["estimator"])
    systems.check_options(options)
    process.act(__name__, with_sequence(options))
