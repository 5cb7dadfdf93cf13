"""Options of the command `jaxroof schedule`."""

import sys
from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import split_option


@click.command(
    name="schedule",
    short_help="Compare the pipeline schedules of a plan.",
    epilog="""\b
Examples:
  jaxroof schedule --model gpt3-1t --system h200-nvs4 \\
      --plan dp=16,tp=4,pp=32,microbatch=1
  jaxroof schedule --model gpt3-1t --system h200-nvs4 \\
      --plan dp=16,tp=4,pp=32,microbatch=1 --schedule 1f1b,zb-h1 \\
      --first 0.1 --last 0.8 --sends blocking -o schedules.png
  jaxroof schedule --model gpt3 --system a100-nvs4 \\
      --plan dp=8,tp=4,pp=8,microbatch=1 --batch 256 --schedule dualpipe \\
      --trace dualpipe.json
""",
)
@click.option("--model", "model_name", required=True, metavar="M", help="Name or file.")
@click.option("--system", "system_name", required=True, metavar="S", help="Name or file.")
@click.option("--format", "number_format", metavar="F", help="Number format of the peak.")
@click.option(
    "--plan", "plan_text", required=True, metavar="PLAN", help="dp=16,tp=4,pp=32,microbatch=1."
)
@click.option(
    "--schedule", "names", default="1f1b,interleaved,zb-h1,dualpipe", show_default=True,
    metavar="NAME[,NAME...]", help="gpipe, 1f1b, 1f1b-greedy, interleaved, zb-h1 or dualpipe.",
)  # fmt: skip
@click.option(
    "--batch", default="4096", show_default=True, metavar="B", help="Sequences of one step."
)
@click.option("--chunks", metavar="V", help="Stages a device has when interleaved.  [default: 2]")
@click.option(
    "--first", default="0", show_default=True, metavar="X",
    help="What the first stage has more, in layers' worth: 0.1 for an embedding.",
)  # fmt: skip
@click.option(
    "--last", default="0", show_default=True, metavar="Y",
    help="What the last stage has more, in layers' worth: 0.8 for a head.",
)  # fmt: skip
@click.option(
    "--sends", default="overlapped", show_default=True, metavar="KIND",
    help="Between stages: overlapped with work, blocking or free.",
)  # fmt: skip
@split_option
@click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE",
    help="Change a field, such as system.hbm_capacity='192 GB' or attention=unfused.",
)  # fmt: skip
@click.option("-o", "--output", metavar="FILE", help="A .png .svg .pdf .csv .json or .nc.")
@click.option(
    "--trace", metavar="FILE",
    help="Every visit of the first schedule: .json (Chrome, Perfetto), .csv, .nc, .png ...",
)  # fmt: skip
def command(**options: Any) -> None:
    """Print how fast and how full each pipeline schedule makes a plan, and which is best."""
    systems.check_options(options)
    from jaxroof.cli.actions.schedule import schedule_command

    process.start()
    sys.exit(schedule_command(**options))
