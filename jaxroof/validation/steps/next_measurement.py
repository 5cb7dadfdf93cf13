"""Which further run of a user's would teach most about the constants of a chip."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from jaxroof.validation.steps.calibration import Calibration
from jaxroof.validation.steps.calibration_problem import problem, residuals
from jaxroof.validation.steps.step_rows import StepRow

Change = Callable[[StepRow], StepRow | None]  # None where the run cannot be changed so


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
    asked = [
        (one.row.cells["row_id"], words, changed)
        for one in found.plans
        for words, change in CHANGES.items()
        if (changed := change(one)) is not None and _even(changed)
    ]
    if not asked:
        return []
    whole = problem([changed for _, _, changed in asked], found.machine)
    _, slopes = residuals(whole, found.values)
    spread = slopes @ found.covariance  # C j of each run
    variance = np.sum(spread * slopes, axis=1)
    gains = 0.5 * np.log2(1.0 + variance / found.noise**2)
    now = np.diag(found.covariance)
    then = now - spread**2 / (found.noise**2 + variance)[:, None]
    kept: dict[str, Measurement] = {}
    for place in np.argsort(-gains, kind="stable"):
        row, words, _ = asked[place]
        best = int(np.argmin(then[place] / now))
        name = found.names[best]
        ends = float(np.sqrt(now[best])), float(np.sqrt(then[place, best]))
        kept.setdefault(name, Measurement(row, words, float(gains[place]), name, *ends))
    return list(kept.values())[:most]


def _even(step: StepRow) -> bool:
    """Return whether a plan divides what it splits."""
    asked = {name: value for name, value in step.settings.items() if not isinstance(value, str)}
    names = ("tensor", "pipeline", "data", "microbatch", "interleave", "expert")
    degrees = {name: asked[f"plan.{name}"] for name in names}
    stages = degrees["pipeline"] * degrees["interleave"]
    return (
        all(degree >= 1.0 and degree == int(degree) for degree in degrees.values())
        and asked["global_batch"] >= degrees["data"] * degrees["microbatch"]
        and asked["global_batch"] == int(asked["global_batch"])
        and asked["model.heads"] % degrees["tensor"] == 0.0
        and asked["model.layers"] % stages == 0.0
        and asked["model.experts"] % degrees["expert"] == 0.0
    )


def _scaled(**factors: float) -> Change:
    """Return the change of numbers of a question by factors, by the last part of their path."""

    def change(step: StepRow) -> StepRow | None:
        return _changed(
            step,
            {
                name: value * factors.get(name.rpartition(".")[2], 1.0)
                for name, value in step.settings.items()
                if not isinstance(value, str)
            },
        )

    return change


def _changed(step: StepRow, settings: Mapping[str, float | str]) -> StepRow:
    return step._replace(settings={**step.settings, **settings})


def _eight_bits(step: StepRow) -> StepRow | None:
    """Return a 16-bit step with 8-bit products, where the chip has them."""
    if step.settings["precision"] != "bf16" or step.chip == "ampere":
        return None
    return _changed(step, {"precision": "fp8"})


def _sixteen_bits(step: StepRow) -> StepRow | None:
    """Return an 8-bit or 4-bit step with 16-bit products."""
    if step.settings["precision"] == "bf16":
        return None
    return _changed(step, {"precision": "bf16"})


CHANGES: dict[str, Change] = {
    "twice the tensor ranks": _scaled(tensor=2.0, data=0.5),
    "half the tensor ranks": _scaled(tensor=0.5, data=2.0),
    "twice the pipeline stages": _scaled(pipeline=2.0, data=0.5),
    "half the pipeline stages": _scaled(pipeline=0.5, data=2.0),
    "twice the microbatch": _scaled(microbatch=2.0),
    "half the microbatch": _scaled(microbatch=0.5),
    "eight times the accelerators and the batch": _scaled(data=8.0, global_batch=8.0),
    "an eighth of the accelerators and of the batch": _scaled(data=0.125, global_batch=0.125),
    "eight times the batch": _scaled(global_batch=8.0),
    "an eighth of the batch": _scaled(global_batch=0.125),
    "sequences four times as long, a quarter of them": _scaled(sequence=4.0, global_batch=0.25),
    "products in FP8": _eight_bits,
    "products in BF16": _sixteen_bits,
}
