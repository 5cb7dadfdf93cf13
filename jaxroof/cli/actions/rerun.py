"""The rerun command: answer a stored question again, and compare the results."""

from jaxroof.analyses.rerun import rerun
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.progress import working
from jaxroof.config.toml_reader import errors_in_file
from jaxroof.errors import refusal
from jaxroof.io.formats import CSV, read_stamped
from jaxroof.io.stored_format import QUESTION, RESULTS, checksums
from jaxroof.limits import check_memory
from jaxroof.views.text.rerun import rerun_sentences


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
        found = rerun(data)
    touched = bool(now) and now[RESULTS] != stamps.get(RESULTS)
    print_text(console(), *rerun_sentences(found, touched))
    return 0 if found.identical else 1
