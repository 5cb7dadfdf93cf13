"""A system with its calibrated chip as a file of the user's, in the form of the catalogue."""

import json
import pathlib
import tomllib
from collections.abc import Iterator
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.lookup import chip_of
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.limits import counted
from jaxroof.validation.calibration.fit import Calibration
from jaxroof.validation.calibration.told import Fitted, file_lines

NEW = ("base", "title", "source", "calibrated")  # keys of a chip that are written anew


def chip_lines(found: Calibration, rows: str) -> Iterator[str]:
    """Yield the lines of a TOML file: a system whose chip has some constants changed."""
    machine = found.machine
    steps = counted(len(found.rows), "measured step")
    factor = found.factor._replace(name="factor of the software")
    others = [one._replace(name=f"{one.name}, before the factor") for one in found.constants]
    words = f"{steps} on {found.system}, from {machine.start}"
    told = Fitted({}, words, (), (factor, *others), (), found.before, found.after)
    yield from file_lines(rows, told)
    yield "# The factor divides all rates that a chip reaches, and multiplies the time once a step."
    if found.asked:
        yield "# To ask as these rows ran, set:"
        yield from (f"#   --set {one}" for one in found.asked)
    yield from _system(found.system)
    yield "[chip]"
    yield f'base = "{machine.chip}"'
    yield f'title = "{machine.chip}, calibrated on {steps}"'
    yield 'source = "jaxroof calibrate"'
    for name, value in {**_carried(machine.constants), **found.fields}.items():
        yield f"{name} = {value!r}"
    yield from _own(found)


def calibrated_chip(found: Calibration) -> Chip:
    """Return the chip of a calibration as the file of ``jaxroof calibrate`` has it.

    It is the ``chip`` of ``fastest_plans``, ``fit`` and others.
    """
    written = tomllib.loads("\n".join(chip_lines(found, "rows")))
    return chip_of(found.system, written["chip"])


def _own(found: Calibration) -> Iterator[str]:
    """Yield the half widths that the rows support, and that another chip was not calibrated."""
    yield "# Half widths of ln(step time) at 80 % that these rows support, by kind of plan; 0 where"
    yield "# they are too few, so that the interval is that of all measured runs of the kind."
    for (name, value), regime in zip(found.own._asdict().items(), REGIMES, strict=False):
        yield f"own_{name} = {float(value):.4g}  # {regime.words}"
    if found.machine.like:
        yield f"# Constants that the rows do not tell are those of {found.machine.like}."
        yield "calibrated = 0"


def _carried(constants: str | None) -> dict[str, Any]:
    """Return what an earlier file changed of the chip, which this one goes on from."""
    if constants is None:
        return {}
    table = catalog.inner_table(constants, "chip")
    written = table.values if isinstance(table, catalog.Table) else _read(str(table))
    return {k: v for k, v in written.items() if k not in NEW and not k.startswith("own_")}


def _read(path: str) -> dict[str, Any]:
    return tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))


def _system(name: str) -> Iterator[str]:
    """Yield the lines that name a system of the catalogue, or repeat a file's changes of one."""
    base = catalog.base_of("systems", name)
    if base is not None:
        yield f"base = {json.dumps(base)}"
    if catalog.is_file(name):
        own = _read(name)
        for key, value in own.items():
            if key not in ("base", "chip", "peaks"):
                yield f"{key} = {json.dumps(value)}"
