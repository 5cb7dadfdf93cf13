"""The command `jaxroof trace`: every operation of an MLP's step."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, settings_of, shared

SHORT = {"dp": "data", "tp": "tensor", "pp": "pipeline", "m": "microbatches"}


@click.command(
    name="trace",
    cls=Command,
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
@shared("plan")
@click.option(
    "--batch", metavar="B", type=types.COUNT, help="Samples of one step.  [default: 8192]"
)
@click.option(
    "--profile", metavar="NAME",
    help="distir-a, distir-a-cold, distir-a-real, distir-b or physical.  [default: physical]",
)  # fmt: skip
@click.option(
    "--schedule", "names", metavar="NAME[,NAME...]", type=types.NAMES,
    help="1f1b, 1f1b-greedy or gpipe; several side by side.  [default: the profile's]",
)  # fmt: skip
@shared("set")
@click.option(
    "-o", "--output", required=True, metavar="FILE",
    help="A .json (Chrome, Perfetto), .csv or .nc of events, or a .png, .svg or .pdf.",
)  # fmt: skip
def command(
    mlp_name: str,
    system_name: str,
    plan_text: str,
    batch: int | None,
    profile: str | None,
    names: list[str] | None,
    sets: tuple[str, ...],
    output: str,
) -> None:
    """Write or draw every operation of one MLP's step, device by device."""
    import dataclasses

    from jaxroof.analyses.one_plan import trace
    from jaxroof.cli import deliver
    from jaxroof.engine.search.plan_text import parse_plan
    from jaxroof.errors import unknown
    from jaxroof.estimators.mlp_pipeline.inputs import Plan
    from jaxroof.estimators.mlp_pipeline.recipe import Order
    from jaxroof.io.traces import side_by_side

    deliver.check_output(output)
    orders = [order.value for order in Order]
    for name in names or ():
        if name not in orders:
            raise unknown("--schedule", name, "schedule of an MLP", orders)
    fields = [field.name for field in dataclasses.fields(Plan)]
    degrees = dict.fromkeys(fields, 1) | parse_plan("--plan", plan_text, Plan, SHORT, fields)
    asked: dict[str, Any] = {"model": mlp_name, "system": system_name, "global_batch": batch}
    asked |= {"profile": profile, **{f"plan.{field}": n for field, n in degrees.items()}}
    asked = {name: value for name, value in asked.items() if value is not None}
    asked |= settings_of(sets, order="--schedule")
    each = [{"order": name} for name in names] if names else [{}]
    found = [trace("pipeline", {**asked, **order}) for order in each]
    deliver.deliver(found[0] if len(found) == 1 else side_by_side(found), output)
