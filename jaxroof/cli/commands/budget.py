"""The command `jaxroof budget`: which accelerators, and how many, for a whole training run."""

from typing import Any

import click

from jaxroof.cli import completion, types
from jaxroof.cli.options import Command, settings_of, shared


@click.command(
    name="budget",
    cls=Command,
    short_help="Find the accelerators that train by a deadline for least.",
    epilog="""\b
Examples:
  jaxroof budget sweeps/budget/llama_405b.toml
  jaxroof budget --model llama3.1-405b --systems h100-nvs8,gb200-nvl72 \\
      --gpus 4096,8192,16384 --batch 2048 --deadline '80 days' \\
      --rent '2.5 $/h'
  jaxroof budget sweeps/budget/llama_405b.toml --minimise days
\b
FILE.toml holds what the options say, and how the run is operated, with a
table of its own for a system:
  [operation]
  chip_mtbf = "50_000 h"
  rent = "2.2 $/h"
  [operation.gb200-nvl72]
  rent = "3.3 $/h"
Options stand in place of what the file says.
""",
)
@click.argument("file", metavar="[FILE.toml]", required=False)
@click.option("--model", metavar="M", help="Name or file.", shell_complete=completion.models)
@click.option(
    "--systems", "--system", metavar="S[,S...]", type=types.NAMES, help="To choose from.",
    shell_complete=completion.systems, **types.LIST,
)  # fmt: skip
@click.option(
    "--gpus", metavar="N[,N...]", type=types.COUNTS, help="Each of which is evaluated.",
    **types.LIST,
)  # fmt: skip
@click.option("--batch", metavar="B", type=types.COUNT, help="Sequences of one optimizer step.")
@click.option("--tokens", metavar="N", type=types.TOKENS, help="Of the whole training: 15T.")
@click.option("--deadline", metavar="DAYS", type=types.DEADLINE, help="At most so long: 80.")
@click.option("--minimise", metavar="AIM", help="cost, days, energy or carbon.  [default: cost]")
@click.option("--site-power", metavar="W", help="At most so much at the meter: '25 MW'.")
@click.option("--rent", metavar="R", help="Of one accelerator: '2.2 $/h'.")
@shared("where", "set", "output", "json", "quiet")
def command(
    file: str | None, sets: tuple[str, ...], rent: str | None, output: str | None, **options: Any
) -> int:
    """Print which accelerators, and how many, train within a deadline for least.

    Exit 1 if none is in time.
    """
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.config.budget_file import run_budget

    deliver.check_output(output)
    given = {name: value for name, value in options.items() if value not in (None, "")}
    chosen = settings_of(sets)
    operation = {
        path.removeprefix("operation."): chosen.pop(path)
        for path in [*chosen]
        if path.startswith("operation.")
    }
    operation |= {} if rent is None else {"rent": rent}
    given |= {"operation": operation} if operation else {}
    given |= {"set": chosen} if chosen else {}
    with working("searching plans on every number of accelerators"):
        data = run_budget(file, given)
    deliver.deliver(data, output)
    return 0 if int(data.best) >= 0 else 1
