"""Golden rows of networks: their columns as tiers, libraries and groups."""

import types
from typing import Any

from golden_rows import networks as rows

TIER = ("size", "bandwidth", "efficiency", "oversubscription", "health")
TIER += ("hop", "hop_low", "rate_low", "reduction", "mesh")
LIBRARY = ("base", "base_net", "relay_low", "copy", "nvls_latency", "peer", "scatter", "pat_rank")
Row = dict[str, str]
__all__ = ["machine", "preset", "rows", "sizes"]


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
