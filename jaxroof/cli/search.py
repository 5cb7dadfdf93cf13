"""Options of the command `jaxroof search`."""

from typing import Any

import click

from jaxroof.cli import process, systems
from jaxroof.cli.shared_options import shared
from jaxroof.errors import refusal, unknown


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
  jaxroof search --estimator training --model llama3.1-405b \\
      --system h100-nvs8 --gpus 4096 --batch 2048 --where 'tp<=8,zero<=1'
""",
)
@click.option(
    "--estimator", default="published", show_default=True, metavar="NAME",
    help="published: the study's model; training: models of today.",
)  # fmt: skip
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
    estimator = options.pop("estimator")
    if estimator == "training":
        _refuse_others()
        names = ("model_name", "system_name", "gpus", "batch", "where", "top", "mine", "sets")
        chosen = {name: options[name] for name in (*names, "output", "objective")}
        process.act("search_training", chosen)
    if estimator != "published":
        raise unknown("--estimator", estimator, "estimator of searches", ("published", "training"))
    systems.check_options(options)
    process.act(__name__, options)


def _refuse_others() -> None:
    """Check that no option is given that only the search for the fastest plans has.

    Raises: InputError that names the first.
    """
    context = click.get_current_context()
    for name, option in STUDY.items():
        if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise refusal(option, "belongs to --estimator published; leave it out")


STUDY = {  # options of the search for the fastest plans alone
    "number_format": "--format",
    "split": "--split",
    "placements": "--placements",
    "within": "--within",
    "everything": "--all",
    "uncertain": "--uncertain",
}
