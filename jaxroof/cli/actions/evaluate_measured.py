"""Evaluate rows of measured runs: memory and step time, beside what was measured."""

from collections import Counter
from collections.abc import Iterator

import pandas as pd
from rich.console import Console

from jaxroof.catalog import lookup
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal, unknown
from jaxroof.io.atomic import replace_file
from jaxroof.validation import memory, steps
from jaxroof.validation.calibration.problem import on_machine
from jaxroof.validation.rows import FROM, note, reasons, rows_of, table_of
from jaxroof.views.text import scores as views
from jaxroof.views.text.scores import MEMORY, STEPS

SCHEMAS = ("measured",)
SHOWN = 20  # rows printed
LONGEST = 26  # characters of a source


def evaluate_measured(
    estimator: str, file: str, output: str | None, schema: str, chip: str | None = None
) -> None:
    """Print or write the memory and the step time of every row of a file of measured runs.

    A row that one of the two refuses still has the other. ``chip`` is a calibrated one that takes
    the place of the catalogue's.
    Raises: InputError if the file cannot be read, or no row has an answer.
    """
    if schema not in SCHEMAS:
        raise unknown("--schema", schema, "schema of rows", SCHEMAS)
    if estimator != "training":
        raise refusal("--schema", f"measured runs are of training; expected it, given {estimator}")
    if chip is not None:
        lookup.chip(chip)  # refused before any row is
    table = table_of(file)
    with working(f"predicting memory and step time of {len(table):,} rows"):
        rows = rows_of(table, lambda name: on_machine(name, chip))
        table[FROM] = [one[:LONGEST] or "no source" for one in note(table, "#source")]
        peaks, found = memory.memory_answers(rows), steps.step_answers(rows)
    if output is not None:
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as out:
            out.writelines(_lines(table.drop(columns=FROM), peaks, found))
    page = console()
    _print_memory(page, peaks, output)
    _print_steps(page, found, output)
    if output is None and len(table) > SHOWN:
        print_text(page, f"The first {SHOWN} are shown; -o OUT.csv writes all.")
    report_written(output)
    if (peaks["kind"].isna() & found["time"].isna()).all():
        said = f"memory: {peaks['reason'][0]}; step time: {found['reason'][0]}"
        raise refusal(file, f"no row has an answer; the first: {said}")


def _lines(table: pd.DataFrame, peaks: pd.DataFrame, found: pd.DataFrame) -> Iterator[str]:
    """Yield the header, then every row with its memory and its step, each with its newline."""
    every = zip(table.to_dict("records"), peaks.iterrows(), found.iterrows(), strict=True)
    return views.csv_lines(
        {**cells, **views.added(MEMORY, peak), **views.added(STEPS, step)}
        for cells, (_, peak), (_, step) in every
    )


def _print_memory(page: Console, found: pd.DataFrame, output: str | None) -> None:
    if output is None:
        page.print(views.rows_table(MEMORY, found[:SHOWN]))
    measured = memory.scores(found)
    if measured:
        page.print(views.scores_table(MEMORY, measured))
    print_text(page, *views.fill_sentences(found))
    answered = found[found["kind"].notna()]
    fits = Counter(answered["fits"])
    said = f"Memory: {len(answered)} of {len(found)} rows answered"
    said += f": {fits[True]} fit, {fits[False]} do not" if len(answered) else ""
    said += f", of {fits[None]} the capacity is not known." if fits[None] else "."
    print_text(page, said, *views.reason_lines(reasons(found)))


def _print_steps(page: Console, found: pd.DataFrame, output: str | None) -> None:
    if output is None:
        page.print(views.rows_table(STEPS, found[:SHOWN]))
    measured = steps.scores(found)
    if measured:
        page.print(views.scores_table(STEPS, [*measured, *steps.regime_scores(found)]))
        print_text(page, views.LEGEND)
    print_text(page, f"Step time: {found['time'].notna().sum()} of {len(found)} rows answered.")
    print_text(page, *views.reason_lines(reasons(found)))
