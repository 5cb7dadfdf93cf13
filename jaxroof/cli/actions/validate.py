"""The validate command: predictions beside measured rows that travel with the package."""

import pathlib
from collections.abc import Iterable

from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.outputs import PICTURES, check_output, is_picture, report_written
from jaxroof.cli.progress import working
from jaxroof.errors import refusal
from jaxroof.io.atomic import replace_file
from jaxroof.validation import memory, steps
from jaxroof.validation.rows import reasons
from jaxroof.views.text import accuracy_page, memory_page
from jaxroof.views.text import memory_scores as memory_views
from jaxroof.views.text import step_scores as step_views

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
    (_memory if memory else _steps)(source, as_json, output)
    report_written(output)


def _memory(source: str | None, as_json: bool, output: str | None) -> None:
    with working("predicting the memory of measured rows"):
        found = memory.packaged_answers(source)
    if output:
        csv = output.endswith(".csv")
        _write(output, memory_views.scored_lines(found) if csv else memory_page.page(found))
    if as_json:
        print(memory_views.scores_json(found))
        return
    screen = console()
    measured = memory.scores(found)
    if measured:
        screen.print(memory_views.scores_table(measured))
    print_text(screen, *memory_views.first_run_sentences(memory.first_runs(found)))
    print_text(screen, *memory_views.fill_sentences(memory.fills(found)))
    print_text(screen, *memory_views.reason_lines(reasons(found)))
    if measured:
        print_text(screen, *memory_views.worst_lines(memory.worst(found)))


def _steps(source: str | None, as_json: bool, output: str | None) -> None:
    check_output(output if is_picture(output) else None)
    with working("predicting the step times of measured rows"):
        found = steps.packaged_answers(source)
    if output and is_picture(output):
        from jaxroof.views import plots
        from jaxroof.views.plots.step_accuracy import predicted_measured

        plots.save(predicted_measured(found), output)
    elif output:
        csv = output.endswith(".csv")
        _write(output, step_views.answered_lines(found) if csv else accuracy_page.page(found))
    if as_json:
        print(step_views.scores_json(found))
        return
    screen = console()
    total = steps.regime_scores(found)
    screen.print(step_views.scores_table(steps.scores(found), total))
    print_text(screen, step_views.LEGEND)
    print_text(screen, *memory_views.reason_lines(reasons(found)))
    print_text(screen, *step_views.worst_lines(steps.worst(found)))


def _write(output: str, lines: Iterable[str]) -> None:
    with replace_file(output) as name, open(name, "w", encoding="utf-8", newline="") as file:
        file.writelines(f"{line.rstrip(chr(10))}\n" for line in lines)
