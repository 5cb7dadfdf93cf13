"""The command `jaxroof pareto`: what more memory buys."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command, shared


@click.command(
    name="pareto",
    cls=Command,
    short_help="Print what more memory buys.",
    epilog="""\b
Examples:
  jaxroof pareto --model llama3.1-405b --system h100-nvs8 --gpus 2048 \\
      --batch 2048 -o stairs.png
  jaxroof pareto --model llama3-70b --system b200-180-sxm --gpus 256,1024 \\
      --batch 1024 --days 30
""",
)
@shared("model", "system", "estimator")
@click.option(
    "--days", metavar="T", type=types.DAYS, help="Find the smallest machine that trains in T days."
)
@click.option(
    "--gain", default="1%", show_default=True, metavar="P", type=types.SHARE,
    help="Speed that a stair must add.",
)  # fmt: skip
@click.option(
    "--against", metavar="RESULT", help="Set it against this result instead of the memory."
)
@shared("gpus", "batch", "sequence", "tokens", "where", "margin", "set", "output", "json")
@shared("quiet", "verbose", "format", "split")
def command(
    days: float | None, gain: float, against: str | None, output: str | None, **options: Any
) -> int:
    """Print what more memory buys: the staircase of step time against memory."""
    import json

    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.cli.question import PlansQuestion
    from jaxroof.engine.search.none_legal import check_legal
    from jaxroof.engine.search.pareto import pareto
    from jaxroof.errors import refusal
    from jaxroof.views.text.whole_run import days_result

    asked = PlansQuestion(**options)
    deliver.check_output(output)
    with working("finding the fastest plan at every amount of memory"):
        data = pareto(asked.of, None, against=against, **asked.sized)
    if not data.sizes["step_number"]:
        check_legal(asked.of, None, **asked.sized)
    if days is not None and "training_days" not in data:
        raise refusal("--days", f"not of the estimator {asked.of.name}; expected it left out")
    data.attrs |= {"title": f"{asked.words}: what more memory buys", "gain": str(gain)}
    data.attrs |= {"sizes": json.dumps(asked.gpus)}
    data.attrs |= {} if days is None else {"most_days": str(days)}
    data.attrs |= {} if against is None else {"title": asked.words}
    deliver.deliver(data, output)
    fits = data.fits if days is None else data[days_result(data)] <= days
    return 0 if bool(fits.any()) else 1
