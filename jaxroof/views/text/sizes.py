"""What is said of plans of today's training on several numbers of accelerators."""

import json
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.legal_plans import BY_SIZE
from jaxroof.analyses.result_metadata import filled_paths, need_of, unit_of, words_of
from jaxroof.errors import listing
from jaxroof.units import size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import field_columns, glossary, shown_fields, used_fields
from jaxroof.views.text.said import Said, quiet, title, usual
from jaxroof.views.text.tables import amount

MOST = 3  # sizes without a plan of which it is said why


def table_of_sizes(
    words: str,
    columns: Sequence[Shown],
    found: Sequence[xr.Dataset],
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
    yield from usual(*none_sentences(found[0]))
    for one in found:
        if "own" in one:
            yield from usual(f"On {int(one.gpus):,}, y{own(one)[1:]}")


def none_sentences(data: xr.Dataset) -> list[str]:
    """Return why numbers of accelerators have no plan."""
    none = {int(size): why for size, why in json.loads(data.attrs.get("none", "{}")).items()}
    said = [f"On {size:,}: {none[size].removeprefix('plan: ')}." for size in [*none][:MOST]]
    if len(none) > MOST:
        others = listing([f"{size:,}" for size in [*none][MOST:]])
        said.append(f"None on {others} accelerators either.")
    return said


def by_size(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the plans of a file by number of accelerators, and what holds for all of one."""
    sizes, each = data["gpus"].values, json.loads(data.attrs.get("each", "{}"))
    found = []
    for gpus in np.unique(sizes):
        some = data.isel(plan=np.flatnonzero(sizes == gpus))
        told = {name: value for name, value in each.get(str(gpus), {}).items() if value is not None}
        if told:  # else of an older file
            some.attrs = {n: value for n, value in some.attrs.items() if n not in BY_SIZE}
        attrs = {name: value for name, value in told.items() if name in BY_SIZE}
        single = {name: value for name, value in told.items() if name not in attrs}
        single = {"capacity": limit_of(data), **single, "gpus": gpus}
        found.append(some.assign(single).assign_attrs(attrs))
    return found


def limit_of(data: xr.Dataset) -> float:
    """Return what a plan may need, from the inputs of a file."""
    numbers = json.loads(data.attrs["inputs"])
    return float(np.prod([numbers[path] for path in filled_paths(data)]))


def missed_words(data: xr.Dataset, limit: float) -> dict[str, str]:
    """Return which limits the user's plan misses and by how much; ``limit`` is that of the need."""
    missed = json.loads(str(data.own_missed.values)) if "own_missed" in data else {}
    said = {}
    for name, over in missed.items():
        said[name] = f"its {words_of(data, name)} is {amount(over, unit_of(data, name))} too much"
        if name == need_of(data):
            need, more, there = (size(v, unit_of(data, name)) for v in (limit + over, over, limit))
            said[name] = f"it needs {need}, {more} more than the {there} there are"
    return said


def fit_words(data: xr.Dataset, limit: str) -> str:
    """Return how many plans fit, and what each of several limits excludes."""
    beyond = json.loads(data.attrs.get("beyond", "{}"))
    if not beyond:
        return f"{int(data.plans_feasible):,} fit in {limit}"
    each = [f"{words_of(data, name)} excludes {count:,}" for name, (count, _) in beyond.items()]
    return f"{int(data.plans_feasible):,} fit every limit: {listing(each)}"
