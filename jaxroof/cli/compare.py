"""Options of the command `jaxroof compare`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import SPLITS, shared


@click.command(
    name="compare",
    short_help="Print the best plans of systems and splits side by side.",
    epilog="""\b
Examples:
  jaxroof compare --model gpt3-1t --gpus 2048 --batch 4096 \\
      --system a100-nvs4,h200-nvs4,b200-nvs8
  jaxroof compare --model gpt3-1t --gpus 512,4096 --batch 4096 \\
      --system h200-nvs4 -o compare.png
""",
)
@click.option("--model", "model_names", required=True, metavar="M[,M...]", help="Names or files.")
@click.option("--system", "system_names", required=True, metavar="S[,S...]", help="Names or files.")
@click.option(
    "--split", "splits", default=",".join(SPLITS), show_default=True, metavar="NAME[,NAME...]",
    help="How a layer is split.",
)  # fmt: skip
@shared("gpus", "batch", "format", "where", "set", "output")
def command(**options: Any) -> None:
    """Print the best plan of each system and split side by side, and why they differ."""
    systems.check_options(options)
    process.act(__name__, options)
