"""What the searches for plans of models of today share: several sizes of a cluster, and files."""

import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import NoPlanFits
from jaxroof.analyses.no_legal_plan import NoLegalPlan
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.outputs import write_data
from jaxroof.errors import listing
from jaxroof.io.formats import CSV
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import fields_of_sizes
from jaxroof.views.text.plan import glossary


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
    """Write the plans of all sizes to a file, if one is named; with --json print them.

    A CSV has a column of sizes.
    """
    whole = len(found) == 1 and (output is None or pathlib.Path(output).suffix != CSV)
    each = found[:1] if whole else [_with_size(one) for one in found]
    data = xr.concat(each, "plan", combine_attrs="override") if len(each) > 1 else each[0]
    write_data(output, data)


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
) -> None:
    """Print a table by size, its short names, and the sizes without a plan after what is said."""
    about = found[0].attrs
    say(Detail.USUAL, f"{about['model']} on {about['system']}", style="bold")
    say(Detail.QUIET, table)
    say(Detail.USUAL, glossary(found[0], fields_of_sizes(found)))
    if none:
        say(Detail.USUAL, f"{said} {listing([f'{size:,}' for size in none])} accelerators.")
