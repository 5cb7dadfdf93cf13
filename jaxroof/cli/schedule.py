"""Options of the command `jaxroof schedule`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.command import Command, StudyOption
from jaxroof.cli.counts import with_sequence
from jaxroof.cli.shared_options import refuse_study_options, shared


@click.command(
    name="schedule",
    cls=Command,
    short_help="Compare the pipeline schedules of a plan.",
    epilog="""\b
Examples:
  jaxroof schedule --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --plan dp=16,tp=8,pp=16,zero=1,rc=1
  jaxroof schedule --model llama3-70b --system h100-nvs8 --batch 64 \\
      --plan dp=2,tp=8,pp=4 --schedule 1f1b,zb-h1,dualpipe --trace 1f1b.json
  jaxroof schedule --estimator published --model gpt3-1t --system h200-nvs4 \\
      --plan dp=16,tp=4,pp=32,microbatch=1 --schedule 1f1b,zb-h1 \\
      --first 0.1 --last 0.8 --sends blocking -o schedules.png
""",
)
@shared("model", "system", "estimator")
@click.option("--plan", "plan_text", required=True, metavar="PLAN", help="dp=16,tp=8,pp=16,mb=1.")
@click.option(
    "--schedule", "names", default="1f1b,interleaved,zb-h1,dualpipe", show_default=True,
    metavar="NAME[,NAME...]", help="gpipe, 1f1b, 1f1b-greedy, interleaved, zb-h1 or dualpipe.",
)  # fmt: skip
@click.option(
    "--batch", default="4096", show_default=True, metavar="B", help="Sequences of one step."
)
@click.option(
    "--chunks",
    metavar="V",
    help="Stages a device has when interleaved.  [default: vp of the plan, or 2]",
)
@click.option(
    "--sends", metavar="KIND",
    help="Between stages: overlapped with work, blocking or free.  [default: as the software does]",
)  # fmt: skip
@shared("sequence", "set", "output", "json", "quiet", "verbose")
@click.option(
    "--trace", metavar="FILE",
    help="Every visit of the first schedule: .json (Chrome, Perfetto), .csv, .nc, .png ...",
)  # fmt: skip
@click.option(
    "--first", default="0", metavar="X", cls=StudyOption,
    help="What the first stage has more, in layers' worth: 0.1 for an embedding.",
)  # fmt: skip
@click.option(
    "--last", default="0", metavar="Y", cls=StudyOption,
    help="What the last stage has more, in layers' worth: 0.8 for a head.",
)  # fmt: skip
@shared("format", "split")
def command(**options: Any) -> None:
    """Print how fast and how full each pipeline schedule makes a plan, and which is best.

    Fields that --plan leaves open, dp not among them, are filled in as by search --mine.
    """
    refuse_study_options(options["estimator"], first="--first", last="--last")
    systems.check_options(options)
    process.act(__name__, with_sequence(options))
