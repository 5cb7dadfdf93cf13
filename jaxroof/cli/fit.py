"""Options of the command `jaxroof fit`."""

from typing import Any

import click

from jaxroof.cli import process
from jaxroof.cli.counts import with_margin, with_sequence
from jaxroof.cli.shared_options import shared
from jaxroof.errors import InputError


@click.command(
    name="fit",
    epilog="""\b
Examples:
  jaxroof fit --model llama3-8b --system h100-nvs8 --plan dp=8 --batch 128 \\
      --set recompute=full
  jaxroof fit --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --plan tp=8,pp=16,dp=128 --set layer_split=7,14x8,7
  jaxroof fit --model mixtral-8x7b --system h100-nvs8 --batch 128 \\
      --plan tp=2,pp=4,dp=8,ep=8 --sequence 8192 -o stages.png
  jaxroof fit --model llama3-8b --system h100-nvs8 --software fsdp2 \\
      --plan dp=8,replicas=4 --batch 64 --set recompute=op --set loss=chunked
  jaxroof fit --model llama3.1-405b --system h100-nvs8 --batch 2048 \\
      --where 'tp<=8,zero<=1,off=0'
\b
Plan: dp tp cp pp (degrees), ep etp (of experts), microbatch, interleave,
  sp=0 (no sequence parallelism), zero=0..3 (ZeRO stage, 1 if not given),
  replicas (of FSDP2 groups that each shard everything over dp).
Without a plan every legal one is tried, on --gpus or on the fewest that hold
  one; --where may constrain vp (interleave), mb (microbatch), rc (computed
  again: 0 none, 1 selective, 2 full) and off (optimizer in host memory) too.
""",
)
@shared("model", "system")
@click.option(
    "--plan", "plan_text", metavar="PLAN",
    help="tp=8,pp=4,dp=16.  [default: every legal plan is tried]",
)  # fmt: skip
@shared("batch", "where")
@shared("sequence", "margin")
@click.option(
    "--gpus", metavar="N", help="Accelerators; the product of the degrees, or the fewest."
)
@click.option("--software", metavar="NAME", help="Who trains: jaxroof list software.")
@click.option(
    "--set", "sets", multiple=True, metavar="NAME=VALUE",
    help="Change a choice or a number, such as recompute=full, attention_kernel=flash or "
    "system.hbm_capacity='85.5 GB'.",
)  # fmt: skip
@shared("json", "quiet", "verbose")
@click.option("-o", "--output", metavar="FILE", help="A picture, .csv, .json or .nc.")
def command(**options: Any) -> None:
    """Print whether a training step fits, what is missing, and the memory of every stage.

    If it does not fit, the cheapest changes that make it fit follow; if it does, those that make
    a step shorter. Fields that --plan leaves open are filled in as by search --mine, where the
    number of accelerators is known. Without a plan: whether any fits on --gpus, the fastest and the
    leanest of them; without --gpus too: the fewest accelerators that hold a step.
    """
    options = with_margin(with_sequence(options))
    if options["plan_text"] is None:
        if options.pop("software") is not None:
            raise InputError("--software: the plans of a search are Megatron's; expected a --plan")
        process.act("fit_plans", options)
    if options.pop("where"):
        raise InputError("--where: constrains the plans of a search; expected no --plan with it")
    process.act(__name__, options)
