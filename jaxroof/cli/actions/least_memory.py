"""The fit command without a plan: those that need the least memory."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.arguments import parse_pairs
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.outputs import check_output, is_picture, report_written
from jaxroof.cli.counts import parse_count
from jaxroof.cli.progress import progress_bar
from jaxroof.errors import refusal
from jaxroof.estimators.training.memory_step import stage_memory
from jaxroof.io.formats import write
from jaxroof.shorthand import by_path
from jaxroof.views.text import least_memory as views
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.least_memory_json import least_memory_json
from jaxroof.views.text.plan import glossary, plan_sentence

KINDS = (".csv", ".json", ".nc")
TOP = 5  # plans that are printed
OPTIONS = {
    "model": "--model",
    "system": "--system",
    "global_batch": "--batch",
    "gpus": "--gpus",
}


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
        print_plans(data, searched=gpus is None)
    report_written(output)
    return 0 if bool(data.fits) else 1


def print_plans(data: xr.Dataset, searched: bool) -> None:
    """Print the plans that need least on one number of accelerators."""
    say(Detail.USUAL, views.title(data), style="bold")
    answer = views.answer_sentence(data, searched)
    say(Detail.USUAL, f"{answer} {views.largest_sentence(data)}", plan_sentence(data.isel(plan=0)))
    say(Detail.QUIET, views.plans_table(data))
    say(Detail.USUAL, glossary(data, views.shown_fields(data)))
    say(Detail.VERBOSE, views.counts_sentence(data))
    say(Detail.USUAL, views.own_sentence(data))


def settings_of(sets: Sequence[str]) -> dict[str, Any]:
    """Return settings by their paths; numbers of a record may stand without its name.

    Raises: InputError for a field of the plan, and for one that an option sets.
    """
    found: dict[str, Any] = {}
    for name, value in parse_pairs("--set", sets, "NAME=VALUE").items():
        if name in OPTIONS:
            raise refusal("--set", f"{name}: expected it in {OPTIONS[name]}")
        if name.removeprefix("plan.") in (*stage_memory.plan_fields, *stage_memory.short_names):
            raise refusal("--set", f"{name}: a field of the plan; constrain it with --where")
        found[name] = value
    return by_path(stage_memory.shorthand, found)


def check_kind(output: str | None) -> None:
    """Check, before any work, that a file can be written.

    Raises: InputError with the reason it cannot.
    """
    if is_picture(output):
        raise refusal(str(output), f"expected a name that ends in {', '.join(KINDS)}")
    check_output(output, KINDS)
