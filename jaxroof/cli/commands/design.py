"""The command `jaxroof design`: the machine that a budget should buy."""

import click

from jaxroof.cli.options import Command, shared


@click.command(
    name="design",
    cls=Command,
    short_help="Find the machine that a budget should buy.",
    epilog="""\b
Examples:
  jaxroof design sweeps/design/gpt3_1t.toml
  jaxroof design sweeps/design/vit_era5.toml -o design.png
  jaxroof design sweeps/design/gpt3_1t.toml --dry-run
\b
FILE.toml holds a model, a system (the base), a [plan] with gpus, what to
minimise (training_days or cost_days), a budget in dollars a part (what the
base costs unless given), fixed dollars of it that are spent anyway, a [price]
for each field that money moves, and its [bounds]:
  [price]
  "system.hbm_bandwidth" = { price = 0.5, per = "1 GB/s", power = 1.0 }
  [bounds]
  "system.hbm_bandwidth" = ["1 TB/s", "20 TB/s"]
""",
)
@click.argument("file", metavar="FILE.toml")
@click.option("-o", "--output", metavar="FILE", help="A .png .svg .pdf .csv .json or .nc.")
@shared("trust", "json", "quiet", "verbose")
@click.option("--dry-run", is_flag=True, help="Print plans, memory and time; search nothing.")
def command(file: str, output: str | None, trust: bool, dry_run: bool) -> int:
    """Print the machine that a budget should buy, its plan and what more money would save."""
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.config.design_file import design_would_take, run_design

    deliver.check_output(output)
    if dry_run:
        return deliver.print_dry_run(lambda: design_would_take(file, trust))
    with working("searching machines and plans within the budget"):
        data = run_design(file, trust)
    deliver.deliver(data, output)
    return 0
