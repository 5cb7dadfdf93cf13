"""What the searches for plans of models of today share: several sizes of a cluster, and files."""

from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import NoPlanFits
from jaxroof.analyses.no_legal_plan import NoLegalPlan
from jaxroof.cli.actions.console import console, print_text
from jaxroof.errors import listing
from jaxroof.io.formats import write
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import fields_of_sizes, legend


def search_sizes(
    sizes: Sequence[int], ask: Callable[[int], xr.Dataset]
) -> tuple[list[xr.Dataset], list[int]]:
    """Return the plans of each number of accelerators, and the numbers that have none.

    Raises: NoLegalPlan if no number has a legal plan.
    """
    found: list[xr.Dataset] = []
    none: list[int] = []
    legal = False
    for size in sizes:
        try:
            found.append(ask(size))
        except NoPlanFits:
            legal = True
            none.append(size)
        except NoLegalPlan:
            if size == sizes[-1] and not found and not legal:
                raise
            none.append(size)
    return found, none


def write_plans(found: Sequence[xr.Dataset], output: str | None) -> None:
    """Write the plans of all sizes to a file, if one is named."""
    if output is not None:
        write(xr.concat(map(_with_size, found), "plan", combine_attrs="override"), output)


def _with_size(data: xr.Dataset) -> xr.Dataset:
    """Return the plans with a column of their number of accelerators, and no single values."""
    columns = [name for name in data.data_vars if data[name].dims == ("plan",)]
    sizes = np.full(data.sizes["plan"], int(data.gpus))
    return data[columns].assign(gpus=xr.Variable("plan", sizes, data.gpus.attrs))


def print_sizes(
    table: PlainTable,
    found: Sequence[xr.Dataset],
    none: Sequence[int],
    said: str,
    own: Callable[[xr.Dataset], str],
) -> None:
    """Print a table by size, its short names, and the sizes without a plan after what is said.

    ``own`` returns the sentence about the user's plan on one number of accelerators, if any.
    """
    page, about = console(), found[0].attrs
    print_text(page, f"{about['model']} on {about['system']}", style="bold")
    page.print(table)
    print_text(page, f"In the table: {legend(found[0], fields_of_sizes(found))}")
    for data in found:
        if sentence := own(data):
            print_text(page, f"On {int(data.gpus):,}: {sentence[0].lower()}{sentence[1:]}")
    if none:
        print_text(page, f"{said} {listing([f'{size:,}' for size in none])} gpus.")
