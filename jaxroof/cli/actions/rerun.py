"""The rerun command: answer a stored question again, and compare the results."""

import contextlib
import io
import os
import tempfile

import xarray as xr

from jaxroof.analyses.rerun import Rerun, compare, is_answered, rerun
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.progress import working
from jaxroof.cli.stored_question import answer_to
from jaxroof.config.toml_reader import errors_in_file
from jaxroof.errors import refusal
from jaxroof.io.formats import CSV, errors_of_contents, read, read_stamped
from jaxroof.io.history import ARGUMENTS
from jaxroof.io.stored_format import QUESTION, RESULTS, checksums
from jaxroof.limits import check_memory
from jaxroof.views.text.rerun import rerun_sentences


def rerun_command(*, file: str) -> int:
    """Print whether a stored result is what its question is answered with now; 1 if not."""
    if file.endswith(CSV):
        raise refusal(file, "a table does not say what was asked; expected .nc, .json or .zarr")
    data, stamps = read_stamped(file)
    with (
        errors_of_contents(file),
        errors_in_file(file),
        working("answering the question of the file again"),
    ):
        check_memory("its results", 2.0 * data.nbytes, "expected a smaller file")
        now = checksums(data) if QUESTION in stamps else {}
        if now and now[QUESTION] != stamps[QUESTION]:
            said = "not as it was written: another program changed it"
            raise refusal("question", f"{said}; expected the file that jaxroof wrote")
        found = _again(data, stamps.get(ARGUMENTS))
    touched = bool(now) and now[RESULTS] != stamps.get(RESULTS)
    print_text(console(), *rerun_sentences(found, touched))
    return 0 if found.identical else 1


def _again(data: xr.Dataset, arguments: str | None) -> Rerun:
    """Return the answer to the question of a Dataset beside it: from its record, or its arguments.

    The record holds every number; arguments need the files that they name.
    """
    if is_answered(data) or arguments is None:
        found = rerun(data)
        if not found.not_again or arguments is None:
            return found
    return compare(data, _answered(arguments))


def _answered(arguments: str) -> xr.Dataset:
    """Return the answer to the question that arguments of a command ask, now."""
    nowhere = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.nc")
        with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            answer_to(arguments, path)
        if not os.path.exists(path):
            raise refusal("question", "has no answer now; expected one, as when it was written")
        return read(path)
