"""Evaluate rows in the schema of measured runs: memory and step time, beside what was measured."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal, unknown
from jaxroof.io.atomic import replace_file
from jaxroof.validation.measured_rows import read_table
from jaxroof.validation.memory import scores as memory_scores
from jaxroof.validation.memory.prediction import Answer
from jaxroof.validation.memory.prediction import answers as memory_answers
from jaxroof.validation.steps import scores as step_scores
from jaxroof.validation.steps.answered_rows import predicted_lines
from jaxroof.validation.steps.prediction import StepAnswer, answers
from jaxroof.views.text import memory_scores as memory_views
from jaxroof.views.text import step_scores as step_views

SCHEMAS = ("measured",)
SHOWN = 20  # rows printed
LONGEST = 26  # characters of a source


def _by_source(found: Iterable[Any]) -> dict[str, list[Any]]:
    """Return rows by what their column source says."""
    made: dict[str, list[Any]] = {}
    for one in found:
        made.setdefault(one.row.cells.get("source", "no source")[:LONGEST], []).append(one)
    return made


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
    table = read_table(file)
    with working(f"predicting memory and step time of {len(table.rows):,} rows"):
        memory = memory_answers(table.rows)
        steps = answers(table.rows, chip)
    if output is not None:
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as out:
            out.writelines(predicted_lines(table.columns, memory, steps))
    page = console()
    _print_memory(page, memory, output)
    _print_steps(page, steps, output)
    if output is None and len(table.rows) > SHOWN:
        print_text(page, f"The first {SHOWN} are shown; -o OUT.csv writes all.")
    print_text(page, *step_views.assumed_lines(table), *step_views.unknown_columns(table))
    report_written(output)
    if all(one.prediction is None for one in memory) and all(one.step is None for one in steps):
        said = f"memory: {memory[0].reason}; step time: {steps[0].reason}"
        raise refusal(file, f"no row has an answer; the first: {said}")


def _print_memory(page: Console, found: list[Answer], output: str | None) -> None:
    by_source = _by_source(found)
    if output is None:
        page.print(memory_views.rows_table(found[:SHOWN]))
    measured = memory_scores.scores(by_source)
    if measured:
        page.print(memory_views.scores_table(measured))
    print_text(page, *memory_views.fill_sentences(memory_scores.fills(by_source)))
    answered = [one for one in found if one.prediction is not None]
    fits = Counter(one.fits for one in answered)
    said = f"Memory: {len(answered)} of {len(found)} rows answered"
    said += f": {fits[True]} fit, {fits[False]} do not" if answered else ""
    said += f", of {fits[None]} the capacity is not known." if fits[None] else "."
    print_text(page, said, *memory_views.reason_lines(memory_scores.reasons(by_source)))


def _print_steps(page: Console, found: list[StepAnswer], output: str | None) -> None:
    by_source = _by_source(found)
    if output is None:
        page.print(step_views.rows_table(found[:SHOWN]))
    measured = step_scores.scores(by_source)
    if measured:
        page.print(
            step_views.scores_table(measured, step_scores.regime_scores(by_source)),
        )
        print_text(page, step_views.LEGEND)
    answered = sum(one.step is not None for one in found)
    print_text(page, f"Step time: {answered} of {len(found)} rows answered.")
    print_text(page, *memory_views.reason_lines(step_scores.reasons(by_source)))
