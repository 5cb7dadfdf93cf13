"""The system of a training step, as an estimator has it."""

from typing import Any

from jaxroof.catalog.lookup import system as named_system
from jaxroof.catalog.lookup import with_chip
from jaxroof.estimator import Estimator


def system_of(
    estimator: Estimator, name: str, number_format: str | None = None, chip: Any = None
) -> Any:
    """Return a system as an estimator of a training step has it."""
    if estimator.expand is None:  # the study's: peaks by number format, no chips
        return named_system(name, number_format)
    machine, _ = with_chip({}, name, chip)
    return estimator.names["system"](machine) if isinstance(machine, str) else machine
