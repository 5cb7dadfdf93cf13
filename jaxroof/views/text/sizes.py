"""What is said of plans of today's training on several numbers of accelerators."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import filled_paths
from jaxroof.errors import listing
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import field_columns, glossary, shown_fields, used_fields
from jaxroof.views.text.said import Said, quiet, title, usual

NOTHING: Mapping[int, str] = MappingProxyType({})
MOST = 3  # sizes without a plan of which it is said why


def table_of_sizes(
    words: str,
    columns: Sequence[Shown],
    found: Sequence[xr.Dataset],
    none: Mapping[int, str],
    own: Callable[[xr.Dataset], str],
) -> Iterator[Said]:
    """Yield the first plan of each size in a table, why others have none, and the user's own."""
    first, about = [one.isel(plan=0) for one in found], found[0].attrs
    fields = [f for f in used_fields(first[0]) if any(f in shown_fields(one) for one in first)]
    size = Shown("gpus", lambda row: f"{int(row.gpus):,}")
    every = [size, *field_columns(first[0], fields), *columns]
    yield from title(f"{about['model']} on {about['system']}")
    yield from quiet(PlainTable(f"{words}, by number of accelerators").add_rows(every, first))
    yield from usual(glossary(found[0], fields))
    for gpus in [*none][:MOST]:
        yield from usual(f"On {gpus:,}: {none[gpus].removeprefix('plan: ')}.")
    if len(none) > MOST:
        others = listing([f"{gpus:,}" for gpus in [*none][MOST:]])
        yield from usual(f"None on {others} accelerators either.")
    for one in found:
        if "own" in one:
            yield from usual(f"On {int(one.gpus):,}, y{own(one)[1:]}")


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
