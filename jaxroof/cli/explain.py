"""Options of the command `jaxroof explain`."""

import sys
from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import split_option


@click.command(
    name="explain",
    short_help="Print what binds the best plan, and where that changes.",
    epilog="""\b
Examples:
  jaxroof explain --model gpt3-1t --system b200-nvs8 --gpus 2048 --batch 4096
  jaxroof explain --model vit-era5 --system h200-nvs8 --gpus 2048 \\
      --batch 4096 --split context --json
  jaxroof explain --model gpt3-1t --system a100-nvs4 --gpus 2048 \\
      --batch 4096 --split summa -o tornado.png
""",
)
@click.option("--model", "model_name", required=True, metavar="M", help="Name or file.")
@click.option("--system", "system_name", required=True, metavar="S", help="Name or file.")
@click.option("--gpus", required=True, metavar="N", help="Accelerators to split over.")
@click.option("--batch", required=True, metavar="B", help="Sequences of one optimizer step.")
@split_option
@click.option("--format", "number_format", metavar="F", help="Number format of the peak.")
@click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE",
    help="Change a field, such as system.hbm_capacity='192 GB' or attention=unfused.",
)  # fmt: skip
@click.option("--where", default="", metavar="RULES", help="Constraints: 'tensor<=8,pipeline=4'.")
@click.option(
    "--span", default="16", show_default=True, metavar="X",
    help="Parameters are moved from 1/X to X times today's.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of tables.")
@click.option(
    "-o", "--output", metavar="FILE",
    help="A .json as --json; a tornado in a .png, .svg or .pdf.",
)  # fmt: skip
def command(**options: Any) -> None:
    """Print which resource binds the best plan, by how much, and where that changes."""
    systems.check_options(options)
    from jaxroof.cli.actions.explain import explain_command

    process.start()
    sys.exit(explain_command(**options))
