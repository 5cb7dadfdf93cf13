"""Constants of software that were fitted to measured servers: sentences, JSON."""

import json
from collections.abc import Iterator

import numpy as np

from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.limits import counted
from jaxroof.records import units
from jaxroof.units import percent, seconds
from jaxroof.validation.calibration.server import ServerFit
from jaxroof.views.text.fabric_fit import constants_json


def amount(name: str, value: float) -> str:
    """Return a constant of a software as a text."""
    return seconds(value) if units(ServingSoftware)[name] == "s" else f"{value:.4g}"


def _median(errors: np.ndarray) -> str:
    return percent(float(np.median(np.abs(np.expm1(errors[np.isfinite(errors)])))), 1)


def fit_sentence(found: ServerFit) -> str:
    """Return what was fitted, and the median error before and after."""
    said = f"{_median(found.before)} before the fit, {_median(found.after)} after"
    if np.any(np.isfinite(found.apart)):
        said += f", {_median(found.apart)} of rows that were left out"
    values = counted(found.rows, "measured value")
    return f"{found.software} on {found.system}, {values}: median error {said}."


def sentences(found: ServerFit) -> Iterator[str]:
    """Yield how far servers of each kind are to be trusted, and which rows were not used."""
    for kind, half in found.own.items():
        if half > 0.0:
            ends = f"{np.exp(-half):.2f} to {np.exp(half):.2f}"
            yield f"Servers of models that are {WORDS[kind]}: {ends} times TPOT in 80 % of runs."
    reasons = dict.fromkeys(why for _, why in found.left_out)
    if reasons:
        yield f"Not used: {counted(len(found.left_out), 'value')}; {'; '.join(reasons)}."


WORDS = {"dense": "dense", "experts": "of experts"}


def fit_json(found: ServerFit) -> str:
    """Return a fit as one JSON object."""
    errors = {"before": found.before, "after": found.after}
    medians = {name: float(np.median(np.abs(np.expm1(one)))) for name, one in errors.items()}
    about = {"software": found.software, "system": found.system, "values": found.rows}
    more = {"untold": found.untold, "own": found.own, "left_out": found.left_out}
    constants = {"constants": constants_json(found.constants)}
    return json.dumps({**about, "median_error": medians, **more, **constants}, indent=2)
