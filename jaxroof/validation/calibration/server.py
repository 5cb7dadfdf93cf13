"""Constants of software that serves, fitted to measured servers of one's own.

Source: docs/models/serving.md, section 2 (what is believed) and section 12 (spread in a source).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxroof import catalog
from jaxroof.catalog.serving_software import (
    KIND,
    START,
    ServingSoftware,
    serving_name,
    serving_software,
)
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.serving.interval import half_width_within_source
from jaxroof.limits import counted
from jaxroof.records import replace_at, units
from jaxroof.validation.calibration.fit import Constant
from jaxroof.validation.calibration.problem import (
    DEVIATIONS_OF_80,
    FEWEST,
    Model,
    Prior,
    covariance,
    own_half_width,
)
from jaxroof.validation.calibration.told import Fitted, Told, fit_told, model_of
from jaxroof.validation.serving import QUANTITIES, groups_of, predicted, server_answers

STEP = 1e-4  # of ln(constant), for slopes
FOLDS = 5  # most groups of rows that are left out in turn
OWN = ("dense", "experts")
TIMES = {"tpot", "pool", "latency", "step", "prompt"}  # that an interval of one's own is of


class Part(NamedTuple):
    """Values of one quantity that a group of rows measured."""

    kind: str
    group: RowGroup
    quantity: str
    here: np.ndarray  # rows of the group
    measured: np.ndarray


def calibrate_servers(frame: pd.DataFrame, system: str, software: str | None) -> Fitted:
    """Return the constants of software that measured servers on one system tell.

    ln t(x) = ln measured + noise, x = ln(constant / constant before), with the deviations that
    were believed of constants before any row; what rows hardly narrow stays.

    Arguments: ``software`` is a name or a file, the usual one of the chip if it is not given.
    Raises: InputError for an unknown name, or if no row can be used.
    """
    frame = frame.reset_index(drop=True)
    for name, value in (("system", system), ("software", str(serving_name(software, system)))):
        given = sorted({*frame.get(name, [value])})
        if given != [value]:
            raise refusal(f"--{name}", f"{value}: rows of {', '.join(given)}; expected these alone")
        frame[name] = value
    answers = server_answers(frame)
    used = answers[answers["reason"] == ""]
    left_out = answers[answers["reason"] != ""]
    if not len(used):
        raise InputError(f"no row can be used; the first: {left_out['reason'].iloc[0]}")
    parts = [*_parts(frame, {*zip(used["id"], used["quantity"], strict=True)})]
    before = serving_software(frame["software"][0], system)
    names, prior = _believed(before)
    start = np.array([float(getattr(before, name)) for name in names])
    routed = np.concatenate([_routed(part) for part in parts])
    each: Any = np.where(routed, 1.0, 0.0)  # the regimes of what was measured
    noise = np.asarray(half_width_within_source(each)) / DEVIATIONS_OF_80

    def errors(points: np.ndarray) -> np.ndarray:
        moved = dict(zip(names, (start * np.exp(points)).T[:, :, None], strict=True))
        return np.concatenate([_errors(part, moved) for part in parts], axis=1)

    told = fit_told(names, start, errors, noise, prior, STEP)
    rows = np.concatenate([part.group.rows[part.here] for part in parts])
    model = model_of(errors, told.places, len(names), STEP)
    apart = _apart(rows, model, told, noise, prior)
    times = np.concatenate([np.full(len(p.here), p.quantity in TIMES) for p in parts])
    own = {}
    for kind, here in zip(OWN, (times & ~routed, times & routed), strict=True):
        spread = float(half_width_within_source(float(kind == "experts")))
        known = apart[here & np.isfinite(apart)]
        own[kind] = own_half_width(known, spread) if len(known) >= FEWEST else 0.0
    software = frame["software"][0]
    values = counted(len(told.before), "measured value")
    return Fitted(
        about={"software": software, "system": system, "values": len(told.before)},
        words=f"{software} on {system}, {values}",
        written=tuple(_software_lines(software, system, values, told.constants, own)),
        constants=told.constants,
        untold=told.untold,
        before=told.before,
        after=told.after,
        apart=apart,
        own=own,
        left_out=tuple(zip(left_out["id"], left_out["reason"], strict=True)),
    )


def _believed(before: ServingSoftware) -> tuple[list[str], Prior]:
    """Return the constants that may be fitted, and what is believed: two deviations either way."""
    every = catalog.describe(KIND, START)["believed"]
    names = [name for name in every if float(getattr(before, name)) > 0.0]
    deviation = np.array([every[name][1] for name in names])
    share = np.array(
        [units(ServingSoftware)[name] == "1" and name != "first_steps" for name in names]
    )
    centre = np.array([float(getattr(before, name)) for name in names])
    most = np.where(share, np.minimum(-np.log(centre), 2.0 * deviation), 2.0 * deviation)
    return names, Prior(deviation, -2.0 * deviation, np.maximum(most, 1e-9))


def _parts(frame: pd.DataFrame, known: set[tuple[str, str]]) -> Iterator[Part]:
    """Yield the values that are compared: those whose row and quantity are known."""
    for kind, group in groups_of(frame)[0]:
        some = frame.iloc[group.rows]
        for quantity, (column, _) in QUANTITIES.items():
            asked = [(name, quantity) in known for name in some["id"]]
            here = np.flatnonzero(asked)
            if len(here):
                measured = some[column].iloc[here].astype(float).to_numpy()
                yield Part(kind, group, quantity, here, measured)


def _routed(part: Part) -> np.ndarray:
    experts = np.broadcast_to(part.group.inputs.model.experts, len(part.group.rows))
    return np.asarray(experts[part.here] > 0.0)


def _errors(part: Part, moved: dict[str, Any]) -> np.ndarray:
    """Return ln(predicted / measured) at several values of constants, a row each."""
    inputs, count = part.group.inputs, len(next(iter(moved.values())))
    for name, value in moved.items():
        inputs = replace_at(inputs, f"software.{name}", value)
    _, found = predicted(part.kind, inputs, part.group.recipe)
    every = np.broadcast_to(found[part.quantity], (count, len(part.group.rows)))
    return np.log(every[:, part.here] / part.measured)


def _apart(rows: np.ndarray, model: Model, told: Told, noise: np.ndarray, prior: Prior) -> Any:
    """Return the errors of values by fits without their rows, in few groups of rows.

    dx = -C J' W r of the rest, C its covariance: one step from the fit, with its robust weights
    """
    folds = np.unique(rows, return_inverse=True)[1] % FOLDS
    found = np.full(len(rows), np.nan)
    if not told.places or folds.max() == 0:
        return found
    some = Prior(*(one[told.places] for one in prior))
    values, noise = told.values[told.places], told.noise * noise
    errors, slopes = model(values)
    weights = 1.0 / (np.sqrt(1.0 + (errors / noise) ** 2) * noise**2)
    for fold in range(folds.max() + 1):
        rest = folds != fold
        spread = covariance(errors[rest], slopes[rest], noise[rest], some)
        pull = slopes[rest].T @ (weights * errors)[rest] + values / some.deviation**2
        moved = np.clip(values - spread @ pull, some.low, some.high) - values
        found[~rest] = (errors + slopes @ moved)[~rest]
    return found


def _software_lines(
    software: str, system: str, values: str, told: Iterable[Constant], own: Mapping[str, float]
) -> Iterator[str]:
    """Yield the lines of a file of software: what an earlier one changed of its base, and the fit.

    They come with the half widths that the rows support.
    """
    base = catalog.base_of(KIND, software) or START
    yield f"base = {json.dumps(base)}"
    yield f'title = "{base}, calibrated on {values}"'
    yield 'source = "jaxroof calibrate"'
    before, usual = serving_software(software, system), serving_software(base, system)
    kept = {*units(ServingSoftware)} - {"calibrated", "experts_measured"}
    kept -= {f"own_{kind}" for kind in OWN}
    both = {
        n: (float(getattr(before, n)), float(getattr(usual, n))) for n in units(ServingSoftware)
    }
    changed = {n: new for n, (new, old) in both.items() if new != old and n in kept}
    for name, value in {**changed, **{one.name: one.value for one in told}}.items():
        yield f"{name} = {value!r}"
    yield "# Half widths of ln(time) at 80 % that these rows support; 0: as of all servers."
    yield from (f"own_{kind} = {half:.4g}" for kind, half in own.items())
