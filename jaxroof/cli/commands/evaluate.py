"""The command `jaxroof evaluate`: the rows of a table, asked of an estimator."""

from typing import Any

import click

from jaxroof.cli import types
from jaxroof.cli.options import Command

SHOWN = 20  # rows of measured runs that are printed
LONGEST = 26  # characters of a source


@click.command(
    name="evaluate",
    cls=Command,
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
choice (split), a degree (tp), a letter (B) or a name (precision, dispatcher). Columns named id, or
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
def command(
    estimator: str,
    file: str,
    output: str | None,
    keep_going: bool,
    sets: tuple[str, ...],
    schema: str | None,
    chip: str | None,
) -> None:
    """Ask an estimator every row of a table: results are columns beside it."""
    import pathlib
    import time

    from jaxroof.analyses.rows.evaluate import evaluate_file
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import progress_bar
    from jaxroof.errors import refusal
    from jaxroof.estimators.plugins import estimator_of
    from jaxroof.views.text.rows import rows_sentence, rows_table

    if schema is not None:
        if sets:
            raise refusal("--set", f"{sets[0]}: a measured run is as it was; leave it out")
        _measured(estimator, file, output, schema, chip)
        return
    if chip is not None:
        raise refusal("--chip", f"{chip}: for measured runs; expected --schema measured beside it")
    of = estimator_of(estimator, pathlib.Path.cwd(), trust=True)
    settings = types.parse_pairs("--set", sets)
    start = time.perf_counter()
    with progress_bar() as progress:
        done = evaluate_file(of, file, output, settings, keep_going, progress)
    took = time.perf_counter() - start
    page = deliver.console()
    if output is None:
        page.print(rows_table(done.headings, done.typed, done.shown, done.units))
    about = (done.first, took, len(done.shown), output, done.verdicts)
    deliver.print_text(page, rows_sentence(done.rows, done.passed, *about))
    deliver.report_written(output)
    if done.passed == done.rows:
        raise refusal(file, f"no row has an answer; the first: {done.first}")


def _measured(estimator: str, file: str, output: str | None, schema: str, chip: str | None) -> None:
    """Print or write the memory and the step time of every row of a file of measured runs.

    A row that one of the two refuses still has the other. ``chip`` is a calibrated one that takes
    the place of the catalogue's.
    Raises: InputError if the file cannot be read, or no row has an answer.
    """
    from jaxroof.catalog import lookup
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.errors import refusal, unknown
    from jaxroof.estimators import STEP
    from jaxroof.io.atomic import replace_file
    from jaxroof.validation import memory, steps
    from jaxroof.validation.calibration.problem import on_machine
    from jaxroof.validation.rows import FROM, note, rows_of, table_of
    from jaxroof.views.text import scores as views

    if schema != "measured":
        raise unknown("--schema", schema, "schema of rows", ["measured"])
    if estimator != STEP:
        raise refusal("--schema", f"measured runs are of training; expected it, given {estimator}")
    if chip is not None:
        lookup.chip(chip)  # refused before any row is
    table = table_of(file)
    with working(f"predicting memory and step time of {len(table):,} rows"):
        rows = rows_of(table, lambda name: on_machine(name, chip))
        table[FROM] = [one[:LONGEST] or "no source" for one in note(table, "#source")]
        peaks, found = memory.memory_answers(rows), steps.step_answers(rows)
    if output is not None:
        every = zip(
            table.drop(columns=FROM).to_dict("records"),
            peaks.iterrows(),
            found.iterrows(),
            strict=True,
        )
        lines = views.csv_lines(
            {
                **{str(name): cell for name, cell in cells.items()},
                **views.added(views.MEMORY, peak),
                **views.added(views.STEPS, step),
            }
            for cells, (_, peak), (_, step) in every
        )
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as out:
            out.writelines(lines)
    _print(peaks, found, output)
    if output is None and len(table) > SHOWN:
        deliver.print_text(
            deliver.console(), f"The first {SHOWN} are shown; -o OUT.csv writes all."
        )
    deliver.report_written(output)
    if (peaks["kind"].isna() & found["time"].isna()).all():
        said = f"memory: {peaks['reason'][0]}; step time: {found['reason'][0]}"
        raise refusal(file, f"no row has an answer; the first: {said}")


def _print(peaks: Any, found: Any, output: str | None) -> None:
    """Print what is said of the memory and of the step time of rows."""
    from collections import Counter

    from jaxroof.cli import deliver
    from jaxroof.validation import memory, steps
    from jaxroof.validation.rows import reasons
    from jaxroof.views.text import scores as views
    from jaxroof.views.text.scores import MEMORY, STEPS

    page = deliver.console()
    if output is None:
        page.print(views.rows_table(MEMORY, peaks[:SHOWN]))
    if measured := memory.scores(peaks):
        page.print(views.scores_table(MEMORY, measured))
    deliver.print_text(page, *views.fill_sentences(peaks))
    answered = peaks[peaks["kind"].notna()]
    fits = Counter(answered["fits"])
    said = f"Memory: {len(answered)} of {len(peaks)} rows answered"
    said += f": {fits[True]} fit, {fits[False]} do not" if len(answered) else ""
    said += f", of {fits[None]} the capacity is not known." if fits[None] else "."
    deliver.print_text(page, said, *views.reason_lines(reasons(peaks)))
    if output is None:
        page.print(views.rows_table(STEPS, found[:SHOWN]))
    if timed := steps.scores(found):
        page.print(views.scores_table(STEPS, [*timed, *steps.regime_scores(found)]))
        deliver.print_text(page, views.LEGEND)
    said = f"Step time: {found['time'].notna().sum()} of {len(found)} rows answered."
    deliver.print_text(page, said, *views.reason_lines(reasons(found)))
