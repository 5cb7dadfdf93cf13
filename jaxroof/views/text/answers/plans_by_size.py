"""What is said of plans of today's training on several numbers of accelerators."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import filled_paths
from jaxroof.errors import listing
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.least_memory import fields_of_sizes
from jaxroof.views.text.plan import glossary
from jaxroof.views.text.said import Said, quiet, title, usual

NOTHING: Mapping[int, str] = MappingProxyType({})
MOST = 3  # sizes without a plan of which it is said why


def table_of_sizes(
    table: PlainTable, found: Sequence[xr.Dataset], none: Mapping[int, str]
) -> Iterator[Said]:
    """Yield a table by size, its short names, and why other sizes have no plan."""
    about = found[0].attrs
    yield from title(f"{about['model']} on {about['system']}")
    yield from quiet(table)
    yield from usual(glossary(found[0], fields_of_sizes(found)))
    for size in [*none][:MOST]:
        yield from usual(f"On {size:,}: {none[size].removeprefix('plan: ')}.")
    if len(none) > MOST:
        others = listing([f"{size:,}" for size in [*none][MOST:]])
        yield from usual(f"None on {others} accelerators either.")


def own_plans(found: Sequence[xr.Dataset], sentence: Callable[[xr.Dataset], str]) -> Iterator[Said]:
    """Yield the place of the user's plan on every size where it is ranked."""
    for one in found:
        if "own" in one:
            yield from usual(f"On {int(one.gpus):,}, y{sentence(one)[1:]}")


def by_size(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the plans of a file by number of accelerators, with the memory that they may fill."""
    sizes, limit = data["gpus"].values, limit_of(data)
    return [
        data.isel(plan=np.flatnonzero(sizes == size)).assign(gpus=size, capacity=limit)
        for size in np.unique(sizes)
    ]


def limit_of(data: xr.Dataset) -> float:
    """Return what a plan may need, from the inputs of a file."""
    numbers = json.loads(data.attrs["inputs"])
    return float(np.prod([numbers[path] for path in filled_paths(data)]))
