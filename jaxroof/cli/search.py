"""Options of the command `jaxroof search`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import shared


@click.command(
    name="search",
    epilog="""\b
Examples:
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 \\
      --split 1d
  jaxroof search --model gpt3-1t --system b200-nvs8 --gpus 512,1024,2048 \\
      --batch 4096
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 \\
      --mine tp=8,pp=8
  jaxroof search --model gpt3-1t --system h200-nvs4 --gpus 2048 --batch 4096 \\
      --all -o plans.csv
""",
)
@shared("model", "system", "format", "split", "set")
@click.option(
    "-o", "--output", metavar="FILE",
    help="A .csv .json or .nc; with --uncertain a .png .svg or .pdf too.",
)  # fmt: skip
@shared("gpus", "batch")
@click.option("--top", default=5, show_default=True, help="Plans to print.")
@click.option("--placements", is_flag=True, help="Every placement of a split, not its best alone.")
@shared("where")
@click.option("--mine", metavar="PLAN", help="Rank your own plan: tp=8,pp=8,microbatch=1.")
@click.option(
    "--within", default="2%", show_default=True, metavar="P", help="What counts as close."
)
@click.option(
    "--objective",
    metavar="NAME",
    help="Result to improve; ties go to the leaner.  [default: step_time]",
)
@click.option("--all", "everything", is_flag=True, help="Write every plan, feasible or not, to -o.")
@click.option("--uncertain", metavar="FILE", help="Draw inputs from the ranges of a TOML table.")
def command(**options: Any) -> None:
    """Print the fastest plans of a cluster, and what binds them."""
    systems.check_options(options)
    process.act(__name__, options)
