"""Options of the command `jaxroof trace`."""

from typing import Any

import click

from jaxroof.cli import process
from jaxroof.cli.shared_options import shared


@click.command(
    name="trace",
    short_help="Write or draw every operation of an MLP's step.",
    epilog="""\b
Examples:
  jaxroof trace --model mlp-xs --system distir-a --plan dp=2,tp=2,pp=2,m=4 \\
      --batch 256 --profile distir-a -o trace.json
  jaxroof trace --model mlp-small --system h200-nvs8 --plan pp=8,m=8 \\
      --schedule gpipe,1f1b,1f1b-greedy -o orders.png
""",
)
@click.option("--model", "mlp_name", required=True, metavar="M", help="Name of an MLP.")
@shared("system")
@click.option("--plan", "plan_text", required=True, metavar="PLAN", help="dp=2,tp=2,pp=2,m=4.")
@click.option("--batch", metavar="B", help="Samples of one step.  [default: 8192]")
@click.option(
    "--profile", metavar="NAME",
    help="distir-a, distir-a-cold, distir-a-real, distir-b or physical.  [default: physical]",
)  # fmt: skip
@click.option(
    "--schedule", "names", metavar="NAME[,NAME...]",
    help="1f1b, 1f1b-greedy or gpipe; several side by side.  [default: the profile's]",
)  # fmt: skip
@click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE",
    help="Change a field, such as model.layers=8 or system.hbm_bandwidth='2 TB/s'.",
)  # fmt: skip
@click.option("--from", "start", metavar="TIME", help="Draw from here on, such as '5 us'.")
@click.option("--to", "end", metavar="TIME", help="Draw up to here.  [default: the whole step]")
@click.option(
    "-o", "--output", required=True, metavar="FILE",
    help="A .json (Chrome, Perfetto), .csv or .nc of events, or a .png, .svg or .pdf.",
)  # fmt: skip
def command(**options: Any) -> None:
    """Write or draw every operation of one MLP's step, device by device."""
    process.act(__name__, options)
