"""The search command for models of today: the plans of each cluster that need the least memory."""

from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.arguments import parse_count, parse_sizes
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.least_memory import check_kind, print_plans, settings_of
from jaxroof.cli.actions.outputs import report_written
from jaxroof.io.formats import write
from jaxroof.views.text import least_memory as views


def search_by_memory_command(
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
) -> int:
    """Print the plans that need least on each of some numbers of accelerators.

    Return 1 if no plan fits on any of them.
    """
    check_kind(output)
    settings, found = settings_of(sets), []
    for size in parse_sizes(gpus):
        found.append(
            least_memory(
                model=model_name,
                system=system_name,
                global_batch=parse_count("--batch", batch),
                gpus=size,
                where=where,
                top=top,
                own=mine,
                settings=settings,
            )
        )
    if output is not None:
        joined = [one.assign(gpus=("plan", [int(one.gpus)] * one.sizes["plan"])) for one in found]
        write(xr.concat(joined, "plan", data_vars="minimal", combine_attrs="override"), output)
    if len(found) == 1:
        print_plans(found[0], searched=False)
    else:
        page = console()
        print_text(page, f"{found[0].attrs['model']} on {found[0].attrs['system']}", style="bold")
        page.print(views.sizes_table(found))
        print_text(page, f"In the table: {views.legend(found[0])}")
    report_written(output)
    return 0 if any(bool(one.fits) for one in found) else 1
