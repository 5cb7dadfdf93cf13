"""The evaluate command: evaluate and print the rows of a table."""

import pathlib
import time

from jaxroof.analyses.rows.evaluate import evaluate_file
from jaxroof.cli.actions.arguments import parse_pairs
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.evaluate_measured import evaluate_measured
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import progress_bar
from jaxroof.errors import refusal
from jaxroof.estimators.plugins import estimator_of
from jaxroof.views.text.rows import rows_sentence, rows_table


def evaluate_command(
    *,
    estimator: str,
    file: str,
    output: str | None,
    keep_going: bool,
    sets: tuple[str, ...],
    schema: str | None,
    chip: str | None,
) -> None:
    """Evaluate a file of rows; print the first ones or write them all.

    Raises: InputError for rows or settings that cannot be used, and if no row has results.
    """
    if schema is not None:
        if sets:
            raise refusal("--set", f"{sets[0]}: a measured run is as it was; leave it out")
        evaluate_measured(estimator, file, output, schema, chip)
        return
    if chip is not None:
        raise refusal("--chip", f"{chip}: for measured runs; expected --schema measured beside it")
    here = pathlib.Path.cwd()
    asked, settings = estimator_of(estimator, here, trust=True), parse_pairs("--set", sets)
    start = time.perf_counter()
    with progress_bar() as progress:
        done = evaluate_file(asked, file, output, settings, keep_going, progress)
    took = time.perf_counter() - start
    page = console()
    if output is None:
        table, rest = rows_table(done.headings, done.typed, done.shown, done.units, page.width)
        page.print(table)
        if rest:
            print_text(page, f"and {len(rest)} more results: {', '.join(rest)}.")
    about = (done.first, took, len(done.shown), output, done.verdicts)
    print_text(page, rows_sentence(done.rows, done.passed, *about))
    report_written(output)
    if done.passed == done.rows:
        raise refusal(file, f"no row has an answer; the first: {done.first}")
