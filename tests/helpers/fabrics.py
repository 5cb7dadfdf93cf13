"""Golden rows of networks: their columns as tiers, libraries and groups."""

import csv
import functools
import gzip
import types
from typing import Any

from places import GOLDEN

FOLDER = GOLDEN / "networks"
TIER = ("size", "bandwidth", "efficiency", "oversubscription", "health")
TIER += ("hop", "hop_low", "rate_low", "reduction", "mesh")
LIBRARY = ("base", "base_net", "relay_low", "copy", "nvls_latency", "peer", "scatter", "pat_rank")
Row = dict[str, str]


@functools.cache
def rows(name: str) -> list[Row]:
    """Return the rows of a golden file."""
    with gzip.open(FOLDER / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.DictReader(file))


def machine(row: Row) -> tuple[tuple[Any, ...], Any]:
    """Return the four tiers and the library of a row."""
    tiers = tuple(
        types.SimpleNamespace(**{name: float(row[f"tier{level}_{name}"]) for name in TIER})
        for level in range(4)
    )
    library = types.SimpleNamespace(**{name: float(row[f"library_{name}"]) for name in LIBRARY})
    return tiers, library


def preset(name: str) -> tuple[tuple[Any, ...], Any]:
    """Return the tiers and the library of a preset."""
    return machine(next(row for row in rows("presets") if row["preset"] == name))


def sizes(tiers: tuple[Any, ...]) -> list[float]:
    """Return the sizes of tiers."""
    return [tier.size for tier in tiers]
