"""Short settings of today's training: a chip, as what it stands for."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from jaxroof.catalog.chip import Chip
from jaxroof.catalog.lookup import chip_of, device, training_system
from jaxroof.catalog.lookup import system as named_system
from jaxroof.estimator import Estimator


def with_chip(
    settings: Mapping[str, Any], system: Any, chip: Chip | str | os.PathLike[str] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return a system, with another chip if one is asked for, and settings of the chip by path.

    ``chip`` in the settings is a chip of the catalogue or a file, ``chip.FIELD`` one of its fields.
    Raises: InputError for a chip that there is not.

    >>> machine, rest = with_chip({"chip": "blackwell", "chip.step": "1 ms"}, "h100-nvs8")
    >>> float(machine.chip.matmul), rest
    (0.728, {'system.chip.step': '1 ms'})
    """
    rest = {f"system.{k}" if k.startswith("chip.") else k: v for k, v in settings.items()}
    chip = rest.pop("chip", chip)
    if chip is None:
        return system, rest
    if isinstance(chip, Chip):
        machine = training_system(system) if isinstance(system, str | os.PathLike) else system
        return dataclasses.replace(machine, chip=chip), rest
    return dataclasses.replace(device(system), chip=chip_of(system, chip)), rest


def system_of(
    estimator: Estimator, name: str, number_format: str | None = None, chip: Any = None
) -> Any:
    """Return a system as an estimator of a training step has it."""
    if estimator.expand is None:  # the study's: peaks by number format, no chips
        return named_system(name, number_format)
    machine, _ = with_chip({}, name, chip)
    return estimator.names["system"](machine) if isinstance(machine, str) else machine
