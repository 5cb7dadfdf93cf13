"""Options of the command `jaxroof evaluate`."""

from typing import Any

import click

from jaxroof.cli import process, systems

OTHERS = ("schema", "chip")  # options that do not say what rows are


@click.command(
    name="evaluate",
    short_help="Ask an estimator every row of a CSV file.",
    epilog="""\b
Examples:
  jaxroof evaluate published rows.csv
  jaxroof evaluate published rows.csv -o answers.csv --keep-going
  jaxroof evaluate published rows.csv --set system=h200-nvs4 \\
      --set system.hbm_bandwidth='6 TB/s'
  jaxroof evaluate training runs.csv --schema measured -o predicted.csv

A row is one configuration, a column an input: a path (system.hbm_bandwidth, with a unit in the
heading or in the cell: system.hbm_bandwidth [GB/s]), a name of the catalogue (model, system), a
choice (split), a degree (tp), a letter (B) or the precision (of training). Columns named id, or
with a # first, are notes.

With --schema measured a row of training is a measured run, with columns such as
#measured_step_time_s (docs/validation_memory.md); answers are its memory and its step time with an
80 % interval, errors where they were measured, and the reason where a row lacks something.
""",
)
@click.argument("estimator", metavar="ESTIMATOR")
@click.argument("file", metavar="ROWS.csv")
@click.option("-o", "--output", metavar="OUT.csv", help="Write all rows, answers beside them.")
@click.option(
    "--keep-going", is_flag=True, help="Pass over bad rows; a column 'error' says what is wrong."
)
@click.option(
    "--set", "sets", multiple=True, metavar="PATH=VALUE", help="Give a value that all rows share."
)
@click.option("--schema", metavar="NAME", help="What the rows are: measured (runs).")
@click.option(
    "--chip", metavar="NAME", help="A calibrated chip for measured runs, such as mine.toml."
)
def command(**options: Any) -> None:
    """Ask an estimator every row of a table: results are columns beside it."""
    if not options["keep_going"] and options["schema"] is None:
        systems.check_rows(**{k: v for k, v in options.items() if k not in OTHERS})
    process.act(__name__, options)
