"""The validate command: predictions beside measured rows that travel with the package."""

import pathlib

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal
from jaxroof.io.atomic import replace_file
from jaxroof.validation.memory.answered_rows import scored_lines
from jaxroof.validation.memory.scores import answers, fills, first_runs, reasons, scores, worst
from jaxroof.views.text import memory_scores as views
from jaxroof.views.text.memory_page import page

KINDS = (".csv", ".md")


def validate_command(
    *, memory: bool, source: str | None, as_json: bool, output: str | None
) -> None:
    """Print or write the error of predicted memory against measured rows.

    Raises: InputError for an unknown source, or a file of another kind.
    """
    if not memory:
        raise refusal("validate", "nothing to compare; expected --memory")
    kind = pathlib.Path(output).suffix if output else ""
    if output and kind not in KINDS:
        raise refusal(output, f"expected a name that ends in {' or '.join(KINDS)}")
    if kind == ".md" and source is not None:
        raise refusal("--source", "the page is about all sources; leave it out")
    with working("predicting the memory of measured rows"):
        found = answers(source)
    if output:
        rows = ((name, one) for name, some in found.items() for one in some)
        text = scored_lines(rows) if kind == ".csv" else (f"{line}\n" for line in page(found))
        with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as file:
            file.writelines(text)
    if as_json:
        print(views.scores_json(found))
    else:
        screen = console()
        measured = scores(found)
        if measured:
            screen.print(views.scores_table(measured))
        print_text(screen, *views.first_run_sentences(first_runs(found)))
        print_text(screen, *views.fill_sentences(fills(found)))
        print_text(screen, *views.reason_lines(reasons(found)))
        if measured:
            print_text(screen, *views.worst_lines(worst(found)))
    report_written(output)
