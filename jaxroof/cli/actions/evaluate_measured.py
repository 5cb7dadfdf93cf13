"""Evaluate rows in the schema of measured runs: their memory, beside what was measured."""

from collections import Counter

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal, unknown
from jaxroof.io.atomic import replace_file
from jaxroof.validation.memory.answered_rows import answered_lines
from jaxroof.validation.memory.measured_rows import read_table
from jaxroof.validation.memory.prediction import Answer, answer
from jaxroof.validation.memory.scores import fills, reasons, scores
from jaxroof.views.text import memory_scores as views

SCHEMAS = ("measured",)
SHOWN = 20  # rows printed


def _by_source(found: list[Answer]) -> dict[str, list[Answer]]:
    """Return rows by what their column source says."""
    made: dict[str, list[Answer]] = {}
    for one in found:
        made.setdefault(one.row.cells.get("source", "no source")[:LONGEST], []).append(one)
    return made


LONGEST = 26  # characters of a source


def evaluate_measured(estimator: str, file: str, output: str | None, schema: str) -> None:
    """Print or write the memory of every row of a file of measured runs.

    Raises: InputError if the file cannot be read, or no row has an answer.
    """
    if schema not in SCHEMAS:
        raise unknown("--schema", schema, "schema of rows", SCHEMAS)
    if estimator != "training":
        raise refusal("--schema", f"measured runs are of training; expected it, given {estimator}")
    table = read_table(file)
    with working(f"predicting the memory of {len(table.rows)} rows"):
        found = [answer(row) for row in table.rows]
    answered = [one for one in found if one.prediction is not None]
    if output is not None:
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as out:
            out.writelines(answered_lines(table.columns, found))
    page, by_source = console(), _by_source(found)
    if output is None:
        page.print(views.rows_table(found[:SHOWN]))
    measured = scores(by_source)
    if measured:
        page.print(views.scores_table(measured))
    print_text(page, *views.fill_sentences(fills(by_source)))
    fits = Counter(one.fits for one in answered)
    said = f"{len(answered)} of {len(found)} rows answered: {fits[True]} fit, {fits[False]} do not"
    said += f", of {fits[None]} the capacity is not known." if fits[None] else "."
    if output is None and len(found) > SHOWN:
        said += f" The first {SHOWN} are shown; -o OUT.csv writes all."
    print_text(page, said, *views.reason_lines(reasons(by_source)))
    if table.unknown:
        print_text(page, f"Columns that the schema does not have: {', '.join(table.unknown)}.")
    report_written(output)
    if not answered:
        raise refusal(file, f"no row has an answer; the first: {found[0].reason}")
