"""Constants of a fabric that were fitted to measured collectives: a table and sentences."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.errors import listing
from jaxroof.units import percent, show
from jaxroof.validation.calibration.fabric import FabricFit
from jaxroof.validation.calibration.fit import Constant
from jaxroof.views.text.layout import PlainTable, Shown

RATES, SHARES = ("rate_low", "copy"), ("efficiency", "reduction", "scatter")


def constants_table(
    constants: Sequence[Constant], amount: Callable[[str, float], str]
) -> PlainTable:
    """Return one row per constant that is told: before, fitted, 80 % interval."""

    def column(head: str, name: str) -> Shown:
        return Shown(head, lambda one: amount(one.name, getattr(one, name)))

    columns = [
        Shown("constant", lambda one: one.name, 0, "left"),
        column("before", "catalogue"),
        column("fitted", "value"),
        *(column(name, name) for name in ("low", "high")),
    ]
    return PlainTable("constants with 80 % intervals").add_rows(columns, constants)


def fit_sentence(found: FabricFit) -> str:
    """Return what was fitted, and the median error before and after."""
    tests = listing([f"{count} sizes of {op} over {n:,}" for op, n, count in found.tests])
    before, after = (
        percent(float(np.median(np.abs(np.expm1(errors)))), 1)
        for errors in (found.before, found.after)
    )
    return f"{tests} on {found.system}: median error {before} before the fit, {after} after."


def untold_sentence(untold: Sequence[str], what: str = "sizes") -> str:
    """Return the constants that what was measured does not tell."""
    if not untold:
        return ""
    return f"Not told by these {what}, left as before: {', '.join(untold)}."


def fit_json(found: FabricFit) -> str:
    """Return a fit as one JSON object."""
    constants = constants_json(found.constants)
    about = {"system": found.system, "tests": found.tests, "untold": found.untold}
    return json.dumps({**about, "constants": constants}, indent=2)


def constants_json(constants: Sequence[Constant]) -> dict[str, Any]:
    """Return constants by name: before, fitted, the ends of the 80 % interval."""
    return {
        one.name: {"before": one.catalogue, "fitted": one.value, "interval_80": [one.low, one.high]}
        for one in constants
    }


def amount(path: str, value: float) -> str:
    """Return a constant of a fabric as a text."""
    name = path.rpartition(".")[2]
    unit = "1" if name in SHARES else "B/s" if name in RATES else "s"
    return show(float(f"{value:.4g}"), unit)
