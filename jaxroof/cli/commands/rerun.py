"""The command `jaxroof rerun`: a stored question, answered again and compared."""

from typing import Any

import click

from jaxroof.cli.options import Command
from jaxroof.errors import errors_in, refusal


@click.command(
    name="rerun",
    cls=Command,
    epilog="""\b
Examples:
  jaxroof rerun map.nc
\b
Exit status: 0 where every result is the same to the last bit, 1 where one
differs, 2 where the file holds no question that can be answered again.
""",
)
@click.argument("file", metavar="FILE")
def command(file: str) -> int:
    """Answer the question of a stored result again, and compare.

    FILE is a .nc, .json or .zarr file that a command wrote. Searches, tables, elasticities and the
    plans of a training step are asked again from the numbers in the file; other answers from the
    options in it, which may name models and systems. Nothing is written, whatever the file says.
    """
    from jaxroof.cli import deliver
    from jaxroof.cli.progress import working
    from jaxroof.io.formats import CSV, errors_of_contents, read_stamped
    from jaxroof.io.history import ARGUMENTS
    from jaxroof.io.stored_format import QUESTION, RESULTS, checksums
    from jaxroof.limits import check_memory
    from jaxroof.views.text.rerun import rerun_sentences

    if file.endswith(CSV):
        raise refusal(file, "a table does not say what was asked; expected .nc, .json or .zarr")
    data, stamps = read_stamped(file)
    with (
        errors_of_contents(file),
        errors_in(file),
        working("answering the question of the file again"),
    ):
        check_memory("its results", 2.0 * data.nbytes, "expected a smaller file")
        now = checksums(data) if QUESTION in stamps else {}
        if now and now[QUESTION] != stamps[QUESTION]:
            said = "not as it was written: another program changed it"
            raise refusal("question", f"{said}; expected the file that jaxroof wrote")
        found = _again(data, stamps.get(ARGUMENTS))
    touched = bool(now) and now[RESULTS] != stamps.get(RESULTS)
    deliver.print_text(deliver.console(), *rerun_sentences(found, touched))
    return 0 if found.identical else 1


def _again(data: Any, arguments: str | None) -> Any:
    """Return the answer to the question of a Dataset beside it: from its record, or its arguments.

    The record holds every number; arguments need the files that they name.
    """
    from jaxroof.analyses.rerun import compare, is_answered, rerun

    if is_answered(data) or arguments is None:
        found = rerun(data)
        if not found.not_again or arguments is None:
            return found
    return compare(data, _answered(arguments))


def _answered(arguments: str) -> Any:
    """Return the answer to the question that arguments of a command ask, now."""
    import contextlib
    import io
    import os
    import tempfile

    from jaxroof.cli.stored_question import answer_to
    from jaxroof.io.formats import read

    nowhere = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.nc")
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            answer_to(arguments, path)
        if not os.path.exists(path):
            raise refusal("question", "has no answer now; expected one, as when it was written")
        return read(path)
