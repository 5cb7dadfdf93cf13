"""Constants of a fabric that were fitted to measured collectives: a table and sentences."""

import json

import numpy as np

from jaxroof.errors import listing
from jaxroof.units import percent, show
from jaxroof.validation.calibration.fabric import FabricFit
from jaxroof.views.text.layout import PlainTable, Shown

RATES, SHARES = ("rate_low", "copy"), ("efficiency", "reduction", "scatter")


def constants_table(found: FabricFit) -> PlainTable:
    """Return one row per constant that the sizes tell: before, fitted, 80 % interval."""

    def column(head: str, name: str) -> Shown:
        return Shown(head, lambda one: _amount(one.name, getattr(one, name)))

    columns = [
        Shown("constant", lambda one: one.name, 0, "left"),
        column("before", "catalogue"),
        column("fitted", "value"),
        *(column(name, name) for name in ("low", "high")),
    ]
    return PlainTable("constants with 80 % intervals").add_rows(columns, found.constants)


def fit_sentence(found: FabricFit) -> str:
    """Return what was fitted, and the median error before and after."""
    tests = listing([f"{count} sizes of {op} over {n:,}" for op, n, count in found.tests])
    before, after = (
        percent(float(np.median(np.abs(np.expm1(errors)))), 1)
        for errors in (found.before, found.after)
    )
    return f"{tests} on {found.system}: median error {before} before the fit, {after} after."


def untold_sentence(found: FabricFit) -> str:
    """Return the constants that the sizes do not tell."""
    if not found.untold:
        return ""
    return f"Not told by these sizes, left as before: {', '.join(found.untold)}."


def fit_json(found: FabricFit) -> str:
    """Return a fit as one JSON object."""
    constants = {
        one.name: {"before": one.catalogue, "fitted": one.value, "interval_80": [one.low, one.high]}
        for one in found.constants
    }
    about = {"system": found.system, "tests": found.tests, "untold": found.untold}
    return json.dumps({**about, "constants": constants}, indent=2)


def _amount(path: str, value: float) -> str:
    name = path.rpartition(".")[2]
    unit = "1" if name in SHARES else "B/s" if name in RATES else "s"
    return show(float(f"{value:.4g}"), unit)
