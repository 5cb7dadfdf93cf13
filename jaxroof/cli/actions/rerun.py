"""The rerun command: answer a stored question again, and compare the results."""

import contextlib
import io
import os
import shlex
import tempfile

import xarray as xr

from jaxroof.analyses.rerun import is_answered, rerun
from jaxroof.analyses.rerun_differences import Rerun, compare
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.main import cli
from jaxroof.cli.progress import working
from jaxroof.config.toml_reader import errors_in_file
from jaxroof.errors import refusal
from jaxroof.io.formats import CSV, read, read_stamped
from jaxroof.io.history import HISTORY, parts_of
from jaxroof.io.stored_format import QUESTION, RESULTS, checksums
from jaxroof.limits import check_memory
from jaxroof.views.text.rerun import rerun_sentences

# commands whose line in a file is run again where its question is not answered from its record
AGAIN = (
    *("search", "compare", "explain", "pareto", "design", "fit", "layers", "schedule"),
    *("roofline", "run"),
)


def rerun_command(*, file: str) -> int:
    """Print whether a stored result is what its question is answered with now; 1 if not."""
    if file.endswith(CSV):
        raise refusal(file, "a table does not say what was asked; expected .nc, .json or .zarr")
    data, stamps = read_stamped(file)
    with errors_in_file(file), working("answering the question of the file again"):
        check_memory("its results", 2.0 * data.nbytes, "expected a smaller file")
        now = checksums(data) if QUESTION in stamps else {}
        if now and now[QUESTION] != stamps[QUESTION]:
            said = "not as it was written: another program changed it"
            raise refusal("question", f"{said}; expected the file that jaxroof wrote")
        found = _again(data, parts_of(stamps.get(HISTORY))[1])
    touched = bool(now) and now[RESULTS] != stamps.get(RESULTS)
    print_text(console(), *rerun_sentences(found, touched))
    return 0 if found.identical else 1


def _again(data: xr.Dataset, line: str) -> Rerun:
    """Return the answer to the question of a Dataset beside it: from its record, or by its command.

    The record holds every number; a command line needs the files that it names.
    """
    can = _can_run(line)
    if is_answered(data) or not can:
        found = rerun(data)
        if not (found.not_again and can):
            return found
    return compare(data, _by_command(line))


def _can_run(line: str) -> bool:
    """Return whether a command line may be run for whoever reads its file: no code of others."""
    try:
        first, *words = shlex.split(line)
    except ValueError:
        return False
    return first == "jaxroof" and bool(words) and words[0] in AGAIN and "--trust" not in words


def _by_command(line: str) -> xr.Dataset:
    """Return what a command line writes now."""
    nowhere = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "again.nc")
        asked = [*shlex.split(line)[1:], "-o", path]  # the last of two outputs is the one
        with (
            contextlib.redirect_stdout(nowhere),
            contextlib.redirect_stderr(nowhere),
            contextlib.suppress(SystemExit),
        ):
            cli.main(args=asked, prog_name="jaxroof", standalone_mode=False, obj=line)
        if not os.path.exists(path):
            raise refusal("question", f"the command that wrote the file has no answer now: {line}")
        return read(path)
