"""The search command for models of today: the fastest plans that fit, or those that need least."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from jaxroof.analyses.fastest_plans import NoPlanFits, fastest_plans
from jaxroof.analyses.least_memory import NoLegalPlan
from jaxroof.catalog.lookup import chip_of, system
from jaxroof.cli.actions.arguments import parse_count, parse_sizes
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.least_memory import check_kind, settings_of
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.search_by_memory import search_by_memory_command, with_size
from jaxroof.errors import InputError, listing, unknown
from jaxroof.io.formats import write
from jaxroof.views.text import fastest_plans as views
from jaxroof.views.text.least_memory import legend, title

TIME, MEMORY = "step_time", "device"


def search_training_command(
    *,
    model_name: str,
    system_name: str,
    gpus: str,
    batch: str,
    where: str,
    top: int,
    mine: str | None,
    sets: Sequence[str],
    output: str | None,
    objective: str | None,
) -> int:
    """Print the fastest plans of each of some numbers of accelerators; return 1 if none fits.

    By memory where that is the objective, or where no run of the chip was measured.
    """
    if objective not in (None, TIME, MEMORY):
        raise unknown("--objective", str(objective), "objective", (TIME, MEMORY))
    asked: dict[str, Any] = {
        "model_name": model_name,
        "system_name": system_name,
        "gpus": gpus,
        "batch": batch,
        "where": where,
        "top": top,
        "mine": mine,
        "sets": sets,
        "output": output,
    }
    if objective == MEMORY:
        return search_by_memory_command(**asked)
    system(system_name)  # an unknown name is refused as such
    try:
        chip_of(system_name)
    except InputError as error:
        if objective == TIME:
            raise
        print_text(console(), f"{error}.", "By memory instead:")
        return search_by_memory_command(**asked)
    check_kind(output)
    found, none = _search(parse_sizes(gpus), model_name, system_name, batch, where, top, mine, sets)
    if not found:
        code = search_by_memory_command(**asked)
        print_text(console(), "No plan without offload fits, so that none has a step time.")
        return code
    if output is not None:
        write(xr.concat(map(with_size, found), "plan", combine_attrs="override"), output)
    page = console()
    if len(found) + len(none) == 1:
        _print_one(found[0])
    else:
        print_text(page, f"{found[0].attrs['model']} on {found[0].attrs['system']}", style="bold")
        page.print(views.sizes_table(found))
        print_text(page, f"In the table: {legend(found[-1])}")
        if none:
            print_text(page, f"No plan fits on {listing([f'{size:,}' for size in none])} gpus.")
    report_written(output)
    return 0


def _search(
    sizes: Sequence[int],
    model: str,
    system_name: str,
    batch: str,
    where: str,
    top: int,
    mine: str | None,
    sets: Sequence[str],
) -> tuple[list[xr.Dataset], list[int]]:
    """Return the fastest plans of each size, and the sizes that hold none."""
    settings = settings_of(sets)
    found: list[xr.Dataset] = []
    none: list[int] = []
    legal = False
    for size in sizes:
        try:
            data = fastest_plans(
                model=model,
                system=system_name,
                global_batch=parse_count("--batch", batch),
                gpus=size,
                where=where,
                top=top,
                own=mine,
                settings=settings,
            )
        except NoPlanFits:
            legal = True
            none.append(size)
        except NoLegalPlan:
            if size == sizes[-1] and not found and not legal:
                raise
            none.append(size)
        else:
            found.append(data)
    return found, none


def _print_one(data: xr.Dataset) -> None:
    page = console()
    print_text(page, title(data), style="bold")
    page.print(views.plans_table(data))
    print_text(page, f"In the table: {legend(data)}", views.answer_sentence(data))
    print_text(page, views.parts_sentence(data), views.counts_sentence(data))
    print_text(page, views.own_sentence(data))
