"""What the searches for plans of models of today share: several sizes of a cluster, and files."""

import pathlib
from collections.abc import Callable, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import NoPlanFits
from jaxroof.cli.actions.outputs import write_or_draw
from jaxroof.engine.search.none_legal import NoLegalPlan
from jaxroof.io.formats import CSV


def search_sizes(
    sizes: Sequence[int], ask: Callable[[int], xr.Dataset]
) -> tuple[list[xr.Dataset], dict[int, str]]:
    """Return the plans of each number of accelerators, and why others have none.

    Raises: NoLegalPlan if no number has a legal plan.
    """
    found: list[xr.Dataset] = []
    none: dict[int, str] = {}
    legal = False
    for size in sizes:
        try:
            found.append(ask(size))
        except NoPlanFits as error:
            legal, none[size] = True, str(error)
        except NoLegalPlan as error:
            if size == sizes[-1] and not found and not legal:
                raise
            none[size] = str(error)
    return found, none


def write_plans(found: Sequence[xr.Dataset], output: str | None) -> None:
    """Write the plans of all sizes to a file, if one is named; with --json print them.

    A CSV has a column of sizes.
    """
    whole = len(found) == 1 and (output is None or pathlib.Path(output).suffix != CSV)
    each = found[:1] if whole else [_with_size(one) for one in found]
    data = xr.concat(each, "plan", combine_attrs="override") if len(each) > 1 else each[0]
    write_or_draw(output, data, lambda plots: plots.draw(data))


def _with_size(data: xr.Dataset) -> xr.Dataset:
    """Return the plans with a column of their number of accelerators, and no single values."""
    columns = [name for name in data.data_vars if data[name].dims == ("plan",)]
    sizes = np.full(data.sizes["plan"], int(data.gpus))
    return data[columns].assign(gpus=xr.Variable("plan", sizes, data.gpus.attrs))
