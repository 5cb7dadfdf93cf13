"""What step times and memory of measured rows have in common: reasons, and rows far off."""

import collections
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd

from jaxroof.validation.rows import FROM, Rows, joined, rows_of
from jaxroof.validation.sources import packaged, sources


class Reason(NamedTuple):
    """Rows that were not answered for the same reason."""

    source: str
    reason: str
    rows: int


def about(rows: Rows) -> pd.DataFrame:
    """Return what names rows: a table to which answers are added."""
    columns = {name: rows.note(f"#{name}") for name in ("model", "machine", "chip", "group")}
    names = {"source": rows.note(FROM), "id": rows.note("id"), **columns}
    return pd.DataFrame(names, index=pd.RangeIndex(len(rows.frame)))


def packaged_rows(of: str, source: str | None = None) -> Rows:
    """Return all packaged rows of ``steps`` or ``memory``, or those of one source.

    Raises: InputError for a source that there is not, with the nearest name.
    """
    names = list(sources(of)) if source is None else [source]
    return joined({name: rows_of(packaged(of, name)) for name in names})


def reasons(found: pd.DataFrame) -> list[Reason]:
    """Return why rows were not answered, or not compared, the commonest reason first."""
    said = found[found["reason"] != ""]
    counted = collections.Counter(zip(said["source"], said["reason"], strict=True))
    every = [Reason(source, reason, rows) for (source, reason), rows in counted.items()]
    return sorted(every, key=lambda one: -one.rows)


def furthest(found: pd.DataFrame, sizes: Iterable[float], most: int) -> pd.DataFrame:
    """Return the rows of the largest sizes, one of each configuration."""
    order = np.argsort(-np.asarray(sizes, float), kind="stable")
    ordered = found.iloc[order]
    group = ordered["group"].where(ordered["group"] != "", ordered["id"])
    once = ~pd.DataFrame({"source": ordered["source"], "group": group}).duplicated()
    return ordered[once][:most]
