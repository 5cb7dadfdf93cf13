"""Short names of settings, and what they stand for."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof.errors import refusal


@dataclasses.dataclass(frozen=True)
class Named:
    """Values of several paths that vary together, and the name of each point."""

    labels: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]


def by_path(shorthand: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their whole paths, some of which may be given by short names.

    Raises: InputError for a field that is given twice, by two names.

    >>> by_path({"sequence": "model.sequence"}, {"sequence": 8, "gpus": 4})
    {'model.sequence': 8, 'gpus': 4}
    """
    for short, path in shorthand.items():
        if short in settings and path in settings:
            raise refusal(short, f"given twice, as {path} too; expected it once")
    return {shorthand.get(name, name): value for name, value in settings.items()}
