"""Software that trains, by name: what it sets, and what it can do."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from jaxroof import catalog

TODAY = "megatron"  # what a question is about that names no software


class Software(NamedTuple):
    """One software of the catalogue, with the terms of memory that it has."""

    name: str
    title: str
    formulas: str  # which function counts its terms
    settings: Mapping[str, Any]  # choices and numbers, unless a question says otherwise
    only: Mapping[str, tuple[Any, ...]]  # values of choices and fields that it can do


def software(name: str) -> Software:
    """Return a software of the catalogue."""
    written = catalog.describe("software", name)
    return Software(
        name=name,
        title=written["title"],
        formulas=written["formulas"],
        settings=written["settings"],
        only={key: tuple(values) for key, values in written.get("only", {}).items()},
    )
