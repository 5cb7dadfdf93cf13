"""The machine of a user's measured rows: which chip they name, whose constants a fit starts from.

Source: docs/models/training_step_today.md, section 2.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.system import System
from jaxroof.errors import refusal
from jaxroof.records import units
from jaxroof.validation.steps.step_rows import SYSTEMS

LIKENESS = ("matrix_flops", "hbm_bandwidth")  # by which a chip is near another
NEEDED = (*LIKENESS, "fast_domain", "fast_bandwidth", "slow_bandwidth", "nics")


class Machine(NamedTuple):
    """A system, and what its measured rows are predicted with before any fit."""

    system: str
    names: tuple[str, ...]  # of its chip in rows; empty if the system does not say
    chip: str | None  # generation whose constants and ranges are the start; None: that of the rows
    constants: str | None  # file of constants that change them, None if there is none
    like: str  # the nearest calibrated system, or chip, if its own was never calibrated

    @property
    def start(self) -> str:
        """Return in words what a fit starts from."""
        return self.constants or self.like or "the catalogue"


def machine_of(system: str) -> Machine:
    """Return the machine of a system of the catalogue, or of a file.

    A chip that was never calibrated starts from the nearest one that was, by the logarithms of
    its matrix rate and memory bandwidth.

    Raises: InputError for an unknown system, or one that lacks a rate that a step needs.

    >>> machine_of("h800-nvs8").names, machine_of("mi300x").like
    (('H800',), 'h200-nvs8')
    """
    found = lookup.system(system)
    lacking = [name for name in NEEDED if getattr(found, name) is None]
    if lacking:
        said = f"lacks {', '.join(lacking)}, without which a training step has no time"
        expected = "expected a system with a fast domain, such as h100-nvs8, or a file that adds it"
        raise refusal("--system", f"{system}: {said}; {expected}")
    base = catalog.base_of("systems", system)
    names = () if base is None else _names(base)
    chip, constants = _own_chip(system)
    if chip is None and base is not None:
        chip = next((name for name, systems in _calibrated().items() if base in systems), None)
    like = ""
    if chip is not None and base is not None and not _is_calibrated(base, chip, constants):
        like = chip
    elif chip is None and base is not None:
        like = min(_systems(), key=lambda other: _distance(found, other))
        chip = _systems()[like]
    return Machine(system, names, chip, constants, like)


def machines_of(chip: str | None) -> dict[str, tuple[str, str, float]]:
    """Return what rows may call the chip of a system's file, and what they are predicted with."""
    if chip is None or not isinstance(catalog.inner_table(chip, "chip"), catalog.Table):
        return {}
    return rows_of_machine(machine_of(chip))


def rows_of_machine(machine: Machine) -> dict[str, tuple[str, str, float]]:
    """Return the system, generation and network of rows, by what they may call a machine's chip.

    >>> rows_of_machine(machine_of("mi300x"))["MI300X"]
    ('mi300x', 'hopper', 50000000000.0)
    """
    own = lookup.system(machine.system)
    network = float(own.slow_bandwidth * own.nics)
    generations = {kind: generation for kind, (_, generation, _) in SYSTEMS.items()}
    return SYSTEMS | {
        kind: (machine.system, machine.chip or generations[kind], network)
        for kind in machine.names or SYSTEMS
    }


def _calibrated() -> dict[str, list[str]]:
    """Return the systems of every calibrated generation."""
    return {name: catalog.describe("chips", name)["systems"] for name in catalog.names("chips")}


def _systems() -> dict[str, str]:
    """Return the generation of every calibrated system."""
    return {system: name for name, systems in _calibrated().items() for system in systems}


def _is_calibrated(base: str, chip: str, constants: str | None) -> bool:
    """Return whether runs of a system's chip took part in the fit of its constants."""
    stated = float(lookup.chip(constants or chip).calibrated) > 0.0
    return stated and base in _calibrated().get(chip, [base])


def _distance(found: System, other: str) -> tuple[float, float]:
    """Return how far a known system is from another: its chip, then its fast domain."""
    known = lookup.system(other)

    def apart(name: str) -> float:
        return abs(math.log(float(getattr(found, name) / getattr(known, name))))

    return math.hypot(*map(apart, LIKENESS)), apart("fast_domain")


def _own_chip(system: str) -> tuple[str | None, str | None]:
    """Return the generation that a system's file names, and the file with constants over it.

    Raises: InputError for constants without a generation.
    """
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


def _names(base: str) -> tuple[str, ...]:
    """Return what rows of a published system may call its chip."""
    same = tuple(kind for kind, (system, _, _) in SYSTEMS.items() if system == base)
    if same:
        return same
    first, *others = base.upper().split("-")
    name = first if re.search(r"\d", first) else "-".join([first, *others[:1]])
    return tuple(kind for kind in SYSTEMS if kind.split()[0] == name) or (name,)
