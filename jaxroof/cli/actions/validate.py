"""The validate command: predictions beside measured rows that travel with the package."""

import pathlib

import pandas as pd

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import PICTURES, check_output, is_picture, report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal
from jaxroof.io.atomic import replace_file
from jaxroof.validation import steps
from jaxroof.validation.rows import reasons
from jaxroof.views.text import scores as views

KINDS = (".csv", ".md")


def validate_command(
    *, memory: bool, source: str | None, as_json: bool, output: str | None
) -> None:
    """Print or write the error of predicted step time, or memory, against measured rows.

    Raises: InputError for an unknown source, or a file of another kind.
    """
    kinds = KINDS if memory else (*KINDS, *PICTURES)
    kind = pathlib.Path(output).suffix if output else ""
    if output and kind not in kinds:
        raise refusal(
            output, f"expected a name that ends in {', '.join(kinds[:-1])} or {kinds[-1]}"
        )
    if kind == ".md" and source is not None:
        raise refusal("--source", "the page is about all sources; leave it out")
    if kind == ".md" and not pathlib.Path(output or "").is_file():
        raise refusal(output or "", "no such page; expected one with `<!-- made: scores -->`")
    check_output(output if is_picture(output) else None)
    of = views.MEMORY if memory else views.STEPS
    with working(f"predicting the {of.words} of measured rows"):
        found = of.of.packaged_answers(source)
    if output and is_picture(output):
        from jaxroof.views import plots
        from jaxroof.views.plots.step_accuracy import predicted_measured

        plots.save(predicted_measured(found), output)
    elif output and kind == ".md":
        _write(output, views.page(of, found, pathlib.Path(output).read_text(encoding="utf-8")))
    elif output:
        _write(output, "".join(views.csv_lines(views.rows_of(of, found))))
    if as_json:
        print(views.scores_json(of, found))
    else:
        _print(of, found)
    report_written(output)


def _print(of: views.Kind, found: pd.DataFrame) -> None:
    screen, measured = console(), of.of.scores(found)
    if of is views.STEPS:
        measured += steps.regime_scores(found)
    if measured:
        screen.print(views.scores_table(of, measured))
    if of is views.STEPS:
        print_text(screen, views.LEGEND)
    else:
        print_text(screen, *views.first_run_sentences(found), *views.fill_sentences(found))
    print_text(screen, *views.reason_lines(reasons(found)))
    if measured:
        print_text(screen, *views.worst_lines(of, of.of.worst(found)))


def _write(output: str, text: str) -> None:
    with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as file:
        file.write(text)
