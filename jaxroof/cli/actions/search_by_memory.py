"""The search command for models of today: the plans of each cluster that need the least memory."""

from collections.abc import Sequence

import xarray as xr

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.least_memory import check_kind, print_plans, settings_of
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.plans_by_size import print_sizes, search_sizes, write_plans
from jaxroof.cli.counts import parse_count, parse_counts
from jaxroof.views.text import least_memory as views
from jaxroof.views.text.detail import Detail


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
    sizes, settings = parse_counts("--gpus", gpus), settings_of(sets)

    def leanest(size: int) -> xr.Dataset:
        return least_memory(
            model=model_name,
            system=system_name,
            global_batch=parse_count("--batch", batch),
            gpus=size,
            where=where,
            top=top,
            own=mine,
            settings=settings,
        )

    found, none = search_sizes(sizes, leanest)
    write_plans(found, output)
    if len(sizes) == 1:
        print_plans(found[0], searched=False)
    else:
        print_sizes(views.sizes_table(found), found, none, "No plan is legal on")
        say(
            Detail.USUAL,
            *(
                f"On {int(one.gpus):,}, y{views.own_sentence(one)[1:]}"
                for one in found
                if "own" in one
            ),
        )
    report_written(output)
    return 0 if any(bool(one.fits) for one in found) else 1
