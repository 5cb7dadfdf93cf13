"""The fit command without a plan: those that need the least memory."""

from collections.abc import Sequence
from typing import Any

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.training_search_options import check_kind, settings_of
from jaxroof.cli.counts import parse_count
from jaxroof.cli.progress import progress_bar
from jaxroof.io.formats import write
from jaxroof.views.text.answers.least_memory import answer
from jaxroof.views.text.least_memory_json import least_memory_json

TOP = 5  # plans that are printed


def least_memory_command(
    *,
    model_name: str,
    system_name: str,
    batch: str,
    gpus: str | None,
    where: str,
    sets: Sequence[str],
    as_json: bool,
    output: str | None,
    **_: Any,
) -> int:
    """Print the plans that need least, on the fewest accelerators that hold one if none are given.

    Return 1 if no plan fits.
    """
    check_kind(output)
    settings = settings_of(sets)
    with progress_bar() as progress:
        data = least_memory(
            model=model_name,
            system=system_name,
            global_batch=parse_count("--batch", batch),
            gpus=None if gpus is None else parse_count("--gpus", gpus),
            where=where,
            top=TOP,
            settings=settings,
            progress=progress,
        )
    if output is not None:
        write(data, output)
    if as_json:
        print(least_memory_json(data))
    else:
        say_all(answer(data))
    report_written(output)
    return 0 if bool(data.fits) else 1
