"""Numbers that stand for themselves where they are given, and follow from others where not."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.catalog.system import System
from jaxroof.errors import refusal
from jaxroof.records import Absent, Number


def value_or(value: Any, otherwise: Callable[[], Number]) -> Number:
    """Return a number of the inputs, or what takes its place where the inputs lack it.

    >>> value_or(2.0, lambda: 3.0)
    2.0
    """
    return otherwise() if isinstance(value, Absent) else value


def machine(system: System | None) -> System:
    """Return the machine of inputs that may lack one.

    Raises: InputError where the answer needs it.
    """
    if system is None:
        raise refusal("system", "missing; expected a name of the catalogue, or system.FIELD")
    return system


def both_ways(system: System | None) -> Number:
    """Return the bandwidth of a collective on one torus axis, or else inside the fast domain.

    An axis has two links, one each way.
    """
    held = machine(system)
    if isinstance(held.link_bandwidth, Absent):
        return value_or(held.fast_bandwidth, lambda: held.link_bandwidth * 2.0)
    return 2.0 * held.link_bandwidth


def counted(value: Any) -> Any:
    """Return a whole number as one: it has no slope, what it was rounded from has.

    >>> int(counted(3.0))
    3
    """
    return value.astype(np.int64) if hasattr(value, "astype") else np.int64(value)
