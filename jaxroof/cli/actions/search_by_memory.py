"""The search command for models of today: the plans of each cluster that need the least memory."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.least_memory import NoLegalPlan, least_memory
from jaxroof.cli.actions.arguments import parse_count, parse_sizes
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.least_memory import check_kind, print_plans, settings_of
from jaxroof.cli.actions.outputs import report_written
from jaxroof.errors import listing
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
    sizes, settings = parse_sizes(gpus), settings_of(sets)
    found, none = [], []
    for size in sizes:
        try:
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
        except NoLegalPlan:
            if size == sizes[-1] and not found:
                raise
            none.append(size)
    if output is not None:
        write(xr.concat(map(with_size, found), "plan", combine_attrs="override"), output)
    if len(sizes) == 1:
        print_plans(found[0], searched=False)
    else:
        page = console()
        print_text(page, f"{found[0].attrs['model']} on {found[0].attrs['system']}", style="bold")
        page.print(views.sizes_table(found))
        print_text(page, f"In the table: {views.legend(found[0])}")
        if none:
            print_text(page, f"No plan is legal on {listing([f'{size:,}' for size in none])} gpus.")
    report_written(output)
    return 0 if any(bool(one.fits) for one in found) else 1


def with_size(data: xr.Dataset) -> xr.Dataset:
    """Return the plans with a column of their number of accelerators, and no single values."""
    columns = [name for name in data.data_vars if data[name].dims == ("plan",)]
    sizes = np.full(data.sizes["plan"], int(data.gpus))
    return data[columns].assign(gpus=xr.Variable("plan", sizes, data.gpus.attrs))
