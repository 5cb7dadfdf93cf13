"""A system with its calibrated chip as a file of the user's, in the form of the catalogue."""

import json
import pathlib
import tomllib
from collections.abc import Iterator

import numpy as np

from jaxroof import catalog
from jaxroof.validation.steps.calibration import Calibration
from jaxroof.validation.steps.calibration_problem import SOFTWARE


def chip_lines(found: Calibration, rows: str) -> Iterator[str]:
    """Yield the lines of a TOML file: a system whose chip has some constants changed."""
    yield f"# Constants fitted by jaxroof calibrate to {len(found.rows)} measured steps of {rows},"
    yield f"# on {found.system}. A factor of the software divides all rates that a chip reaches,"
    yield "# and multiplies the time once a step. Fitted, with intervals of 80 %:"
    for one in (found.factor, *found.constants):
        what = "factor" if one.name == SOFTWARE else f"{one.name}, before the factor"
        ends = f"{one.low:.4g} to {one.high:.4g}"
        yield f"# {what}: {one.value:.4g} ({ends}; catalogue {one.catalogue:.4g})."
    after = 100.0 * float(np.median(np.abs(np.expm1(found.after))))
    yield f"# Median error on these rows: {after:.1f} %."
    yield from _system(found.system)
    yield "[chip]"
    yield f'base = "{found.chip}"'
    yield f'title = "{found.chip}, calibrated on {len(found.rows)} measured steps"'
    yield 'source = "jaxroof calibrate"'
    for name, value in found.fields.items():
        yield f"{name} = {value!r}"
    yield "own_runs = 1"


def _system(name: str) -> Iterator[str]:
    """Yield the lines that name a system of the catalogue, or repeat a file's changes of one."""
    base = catalog.base_of("systems", name)
    if base is not None:
        yield f"base = {json.dumps(base)}"
    if catalog.is_file(name):
        own = tomllib.loads(pathlib.Path(name).read_text(encoding="utf-8-sig"))
        for key, value in own.items():
            if key not in ("base", "chip", "peaks"):
                yield f"{key} = {json.dumps(value)}"
