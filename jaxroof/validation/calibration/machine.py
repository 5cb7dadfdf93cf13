"""The machine of a user's measured rows, and whose constants a fit starts from.

Source: docs/models/training_step_today.md, section 2.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import NamedTuple

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.system import System
from jaxroof.errors import refusal
from jaxroof.records import units
from jaxroof.validation.rows import on_system

LIKENESS = ("matrix_flops", "hbm_bandwidth")  # by which a chip is near another
NEEDED = (*LIKENESS, "fast_domain", "fast_bandwidth", "slow_bandwidth", "nics")


class Machine(NamedTuple):
    """A system, and what its measured rows are predicted with before any fit."""

    system: str
    base: str | None  # system of the catalogue that it is or changes
    chip: str | None  # generation whose constants and ranges are the start; None: that of the rows
    constants: str | None  # file of constants that change them, None if there is none
    like: str  # the nearest calibrated system, or chip, if its own was never calibrated

    @property
    def start(self) -> str:
        """Return in words what a fit starts from."""
        return self.constants or self.like or "the catalogue"

    def has(self, system: str) -> bool:
        """Return whether rows of a system are of this machine's accelerators."""
        if self.base is None or system == self.system:
            return True
        other = catalog.base_of("systems", system)
        return other is not None and same_chip(self.base, other)


def same_chip(one: str, other: str) -> bool:
    """Return whether two systems of the catalogue have the same accelerators, by their names.

    >>> same_chip("h100-nvs8", "h100-sxm"), same_chip("a100-40-sxm", "a100-80-sxm")
    (True, False)
    """
    (first, *more), (second, *others) = one.split("-"), other.split("-")
    sizes = {words[0] for words in (more, others) if words and words[0].isdigit()}
    return first == second and len(sizes) < 2


def on_machine(system: str, chip: str | None) -> System:
    """Return a system by name with its chip, or with another one.

    ``chip`` may be a file of a system, as ``calibrate`` writes it: rows of its accelerators are on
    that system, with its rates and its network.
    """
    if chip is None:
        return on_system(system)
    if isinstance(catalog.inner_table(chip, "chip"), catalog.Table) and machine_of(chip).has(
        system
    ):
        return lookup.training_system(chip)
    return dataclasses.replace(lookup.device(system), chip=lookup.chip_of(system, chip))


def machine_of(system: str) -> Machine:
    """Return the machine of a system of the catalogue, or of a file.

    A chip that was never calibrated starts from the nearest one that was, by the logarithms of
    its matrix rate and memory bandwidth.

    >>> machine_of("h800-nvs8").chip, machine_of("mi300x").like
    ('hopper', 'h200-nvs8')
    """
    found = lookup.system(system)
    lacking = [name for name in NEEDED if getattr(found, name) is None]
    if lacking:
        said = f"lacks {', '.join(lacking)}, without which a training step has no time"
        expected = "expected a system with a fast domain, such as h100-nvs8, or a file that adds it"
        raise refusal("--system", f"{system}: {said}; {expected}")
    base = catalog.base_of("systems", system)
    chip, constants = _own_chip(system)
    known = {name: catalog.describe("chips", name)["systems"] for name in catalog.names("chips")}
    generations = {one: name for name, systems in known.items() for one in systems}
    if base is None:
        return Machine(system, None, chip, constants, "")
    if chip is None and base in generations:
        return Machine(system, base, generations[base], constants, "")
    if chip is None:
        like = min(generations, key=lambda other: _distance(found, other))
        return Machine(system, base, generations[like], constants, like)
    stated = float(lookup.chip(constants or chip).calibrated) > 0.0
    like = "" if stated and base in known.get(chip, [base]) else chip
    return Machine(system, base, chip, constants, like)


def _distance(found: System, other: str) -> tuple[float, float]:
    """Return how far a known system is from another: its chip, then its fast domain."""
    known = lookup.system(other)

    def apart(name: str) -> float:
        return abs(math.log(float(getattr(found, name) / getattr(known, name))))

    return math.hypot(*map(apart, LIKENESS)), apart("fast_domain")


def _own_chip(system: str) -> tuple[str | None, str | None]:
    """Return the generation that a system's file names, and the file with constants over it."""
    written = catalog.entry("systems", system, units(System)).get("chip")
    if written is None:
        return None, None
    if not isinstance(written, Mapping):
        base = catalog.base_of("chips", written)
        constants = written if catalog.is_file(written) else None
    else:
        base, constants = written.get("base"), system
    if base is None:
        expected = f"expected one of {', '.join(catalog.names('chips'))}"
        raise refusal(f"{system}: chip", f"base: missing; {expected}")
    return base, constants
