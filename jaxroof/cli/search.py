"""Options of the command `jaxroof search`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.command import Command, StudyOption
from jaxroof.cli.counts import with_margin, with_sequence
from jaxroof.cli.shared_options import is_own, refuse_study_options, shared
from jaxroof.errors import refusal


@click.command(
    name="search",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof search --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048
  jaxroof search --model deepseek-v3 --system gb200-nvl72 --gpus 512,2048 \\
      --batch 15360 --set precision=mxfp8
  jaxroof search --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048 --mine tp=8,pp=16 --where 'tp<=8,zero<=1'
  jaxroof search --estimator published --model gpt3-1t --system h200-nvs4 \\
      --gpus 2048 --batch 4096 --all -o plans.csv
  jaxroof search --estimator two_level:estimator --set message='1 GB'

MODULE:NAME is an estimator of your own, of a file MODULE.py here or an installed module; --set
gives its inputs.
""",
)
@shared("model", "system", "estimator", "set")
@click.option(
    "-o", "--output", metavar="FILE",
    help="A .csv .json or .nc; of today's plans and --uncertain a .png .svg .pdf too.",
)  # fmt: skip
@shared("gpus", "batch", "sequence")
@click.option("--top", default=5, show_default=True, help="Plans to print.")
@shared("where", "margin")
@click.option("--mine", metavar="PLAN", help="Rank your own plan: tp=8,pp=8,mb=1.")
@click.option(
    "--objective",
    metavar="NAME",
    help="Result to improve: memory, or a result of the estimator.  [default: step_time]",
)
@click.option("--uncertain", metavar="FILE", help="Draw inputs from the ranges of a TOML table.")
@click.option("--dry-run", is_flag=True, help="With --uncertain: print points, memory, time.")
@shared("json", "quiet", "verbose", "format", "split")
@click.option(
    "--placements", is_flag=True, cls=StudyOption, help="Print every placement, not the best."
)
@click.option(
    "--within", default="2%", metavar="P", cls=StudyOption, help="What is close.  [default: 2%]"
)
@click.option(
    "--all", "everything", is_flag=True, cls=StudyOption, help="Write every plan, fits or not."
)
def command(**options: Any) -> None:
    """Print the fastest plans of a cluster, and what binds them."""
    more = {"placements": "--placements", "within": "--within", "everything": "--all"}
    refuse_study_options(options["estimator"], **({} if is_own(options["estimator"]) else more))
    if options["dry_run"] and options["uncertain"] is None:
        raise refusal("--dry-run", "of draws alone; expected --uncertain FILE beside it")
    options = with_margin(with_sequence(options))
    if options["estimator"] == "training" and options["uncertain"] is None:
        names = ("model_name", "system_name", "gpus", "batch", "where", "top", "mine", "sets")
        chosen = {name: options[name] for name in (*names, "output", "objective")}
        process.act("search_training", chosen)
    systems.check_options(options)
    process.act(__name__, options)
