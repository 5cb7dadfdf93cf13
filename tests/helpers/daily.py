"""Cases of which a few run every day, and the others, variations of these, with ``-m slow``."""

from collections.abc import Iterable
from typing import Any

import pytest


def daily(cases: Iterable[Any], *places: int) -> list[Any]:
    """Return the parameters of a test: cases at these places run daily, the others are slow."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=[] if place in places else [pytest.mark.slow],
        )
        for place, case in enumerate(cases)
    ]
