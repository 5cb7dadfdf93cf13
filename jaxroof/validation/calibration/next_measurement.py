"""Which further run of a user's would teach most about the constants of a chip."""

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.step import training
from jaxroof.records import get_at, replace_at
from jaxroof.structure import map_numbers
from jaxroof.validation.calibration.believed import SHARED
from jaxroof.validation.calibration.fit import Calibration
from jaxroof.validation.calibration.problem import (
    groups_at,
    problem,
    residuals,
    start_system,
)

FORMAT = "precision"
CHANGES: dict[str, Mapping[str, Any]] = {  # in words: factors of inputs, or another number format
    "twice the tensor ranks": {"plan.tensor": 2.0, "plan.data": 0.5},
    "half the tensor ranks": {"plan.tensor": 0.5, "plan.data": 2.0},
    "twice the pipeline stages": {"plan.pipeline": 2.0, "plan.data": 0.5},
    "half the pipeline stages": {"plan.pipeline": 0.5, "plan.data": 2.0},
    "twice the microbatch": {"plan.microbatch": 2.0},
    "half the microbatch": {"plan.microbatch": 0.5},
    "eight times the accelerators and the batch": {"plan.data": 8.0, "global_batch": 8.0},
    "an eighth of the accelerators and of the batch": {"plan.data": 0.125, "global_batch": 0.125},
    "eight times the batch": {"global_batch": 8.0},
    "an eighth of the batch": {"global_batch": 0.125},
    "sequences four times as long, a quarter of them": {
        "model.sequence": 4.0,
        "global_batch": 0.25,
    },
    "products in FP8": {FORMAT: "fp8"},
    "products in BF16": {FORMAT: "bf16"},
}
WHOLE = ("tensor", "pipeline", "data", "microbatch", "interleave", "expert")


class Measurement(NamedTuple):
    """A run that is not yet measured, and what it would narrow."""

    row: str  # name of the measured row that it is a change of
    change: str  # in words
    information: float  # expected gain about all constants [bit]
    constant: str  # that it narrows most
    before: float  # its deviation, of ln(constant)
    after: float


def most_instructive(found: Calibration, most: int = 3) -> list[Measurement]:
    """Return the changes of measured runs that would teach most, each about another constant.

    gain = 1/2 log2(1 + j C j / s^2), C' = C - C j j C / (s^2 + j C j)

    j are the slopes of ln(step time) with the logarithms of the parameters, C their covariance
    after the rows that there are, s the deviation of the rows about the fit.
    Assumes: the model is right about the change; whether its memory fits is not asked.
    """
    asked, possible = _changed(found)
    places = np.flatnonzero(possible)
    if not len(places):
        return []
    shared = [name for name in found.names if name.startswith(SHARED)]
    whole = problem(groups_at(asked, places), np.ones(len(places)), found.machine, shared)
    _, slopes = residuals(whole, found.values)
    spread = slopes @ found.covariance  # C j of each run
    variance = np.sum(spread * slopes, axis=1)
    gains = 0.5 * np.log2(1.0 + variance / found.noise**2)
    now = np.diag(found.covariance)
    then = now - spread**2 / (found.noise**2 + variance)[:, None]
    kept: dict[str, Measurement] = {}
    for place in np.argsort(-gains, kind="stable"):
        plan, change = divmod(int(places[place]), len(CHANGES))
        best = int(np.argmin(then[place] / now))
        name = found.names[best]
        ends = float(np.sqrt(now[best])), float(np.sqrt(then[place, best]))
        words = list(CHANGES)[change]
        gain = float(gains[place])
        kept.setdefault(name, Measurement(found.plans[plan].name, words, gain, name, *ends))
    return list(kept.values())[:most]


def _changed(found: Calibration) -> tuple[list[RowGroup], np.ndarray]:
    """Return every change of every plan, plan by plan, and whether such a run is possible."""
    many = len(CHANGES)
    possible = np.zeros(len(found.plans) * many, bool)
    groups = []
    for rows, inputs, recipe in found.groups:
        size = len(rows) * many
        places = (rows[:, None] * many + np.arange(many)).ravel()
        wide = map_numbers(functools.partial(_repeated, rows=len(rows)), inputs)
        few_bits = (wide.software.fp8 > 0.0) | (wide.software.fp4 > 0.0)
        for path in {path for change in CHANGES.values() for path in change if path != FORMAT}:
            factors = [change.get(path, 1.0) for change in CHANGES.values()]
            wide = replace_at(wide, path, get_at(wide, path) * np.resize(factors, size))
        wide, able = _with_formats(wide, few_bits, found)
        possible[places] = able & _even(wide)
        groups.append(RowGroup(places, wide, recipe))
    return groups, possible


def _repeated(value: Any, rows: int) -> np.ndarray:
    """Return a number of every row as often as there are changes."""
    return np.repeat(np.broadcast_to(value, rows), len(CHANGES))


def _with_formats(
    wide: TrainingInputs, few_bits: np.ndarray, found: Calibration
) -> tuple[TrainingInputs, np.ndarray]:
    """Return inputs with the number formats of the changes, and whether the change is one."""
    formats = np.resize([change.get(FORMAT, "") for change in CHANGES.values()], len(few_bits))
    able = np.ones(len(few_bits), bool)
    for name in {*formats} - {""}:
        here = formats == name
        able &= ~here | (few_bits if name == "bf16" else ~few_bits)
        if name != "bf16" and found.machine.chip == "ampere":
            able &= ~here
            continue
        assert training.expand is not None
        numbers, _ = training.expand({FORMAT: name}, {}, start_system(found.machine))
        for path, value in numbers.items():
            wide = replace_at(wide, path, np.where(here, value, get_at(wide, path)))
    return wide, able


def _even(wide: TrainingInputs) -> np.ndarray:
    """Return which plans divide what they split."""
    plan, batch = wide.plan, np.asarray(wide.global_batch)
    assert plan is not None
    degrees = [np.asarray(getattr(plan, name)) for name in WHOLE]
    whole = np.logical_and.reduce([(one >= 1.0) & (one % 1.0 == 0.0) for one in degrees])
    tensor, pipeline, data, microbatch, interleave, expert = (np.maximum(n, 1.0) for n in degrees)
    divided: np.ndarray = (
        whole
        & (batch >= data * microbatch)
        & (batch % 1.0 == 0.0)
        & (wide.model.heads % tensor == 0.0)
        & (wide.model.layers % (pipeline * interleave) == 0.0)
        & (wide.model.experts % expert == 0.0)
    )
    return divided
