"""Options of the command `jaxroof compare`."""

from typing import Any

import click

from jaxroof.cli import completion, process, systems
from jaxroof.cli.command import Command, StudyOption
from jaxroof.cli.counts import with_margin, with_sequence
from jaxroof.cli.shared_options import SPLITS, refuse_study_options, shared


@click.command(
    name="compare",
    cls=Command,
    short_help="Print the best plans of systems and splits side by side.",
    epilog="""\b
Examples:
  jaxroof compare --model llama3.1-405b --gpus 1024 --batch 1024 \\
      --system h100-nvs8,h200-141-sxm,gb200-nvl72
  jaxroof compare --model deepseek-v3 --batch 15360 \\
      --system h800-nvs8:2048:fp8,gb200-nvl72:1024:mxfp8
  jaxroof compare --estimator published --model gpt3-1t --gpus 512,4096 \\
      --batch 4096 --system h200-nvs4 -o compare.png
""",
)
@click.option(
    "--model",
    "model_names",
    required=True,
    metavar="M[,M...]",
    help="Names or files.",
    shell_complete=completion.models,
)
@click.option(
    "--system", "system_names", required=True, metavar="S[,S...]",
    help="Names or files, each as S or S:GPUS:PRECISION.", shell_complete=completion.systems,
)  # fmt: skip
@click.option("--gpus", metavar="N[,N...]", help="Accelerators, of systems without their own.")
@shared("estimator", "batch", "sequence", "where", "margin", "set", "output")
@shared("json", "quiet", "verbose", "format")
@click.option(
    "--split", "splits", default=",".join(SPLITS), metavar="NAME[,NAME...]", cls=StudyOption,
    help="How a layer is split.  [default: all]",
)  # fmt: skip
def command(**options: Any) -> None:
    """Print the best plan of each system and split side by side, and why they differ."""
    refuse_study_options(options["estimator"], splits="--split", split="--split")
    systems.check_options(options)
    process.act(__name__, with_margin(with_sequence(options)))
