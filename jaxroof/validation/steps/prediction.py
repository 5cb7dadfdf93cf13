"""What is predicted for measured steps: seconds, parts and intervals, many rows in one call."""

from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.system import System
from jaxroof.errors import InputError
from jaxroof.estimators.training.envelope import inside
from jaxroof.estimators.training.interval import REGIMES, Interval, interval_of_runs, of_own_runs
from jaxroof.estimators.training.software import Software
from jaxroof.estimators.training.step import own_runs
from jaxroof.estimators.training.step_time import StepTime, step_time
from jaxroof.records import units
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.machine import machines_of
from jaxroof.validation.steps.step_rows import SYSTEMS, StepRow, step_rows

OF_A_SYSTEM = ("matrix_flops", "hbm_bandwidth", "fast_domain", "fast_bandwidth")
OF_A_STEP = ("steady", "bubble", "pipeline_comm", "data_comm", "optimizer")  # and the rest
OF_A_LAYER = (
    *("matmul", "attention", "elementwise", "cast", "recompute"),
    *("tensor_comm", "context_comm", "experts", "expert_comm"),
)
OTHER = "other"  # data, logging and synchronisation, once a step
OWN = ", own runs"  # of a regime, where the chip was calibrated on them
OF_A_CHIP = tuple(units(Chip))


class StepInputs(NamedTuple):
    """What the sheet needs of many steps: records whose leaves are columns of one length."""

    model: Any
    sequence: Any
    plan: Any
    system: System
    chip: Chip
    constants: SharedConstants
    software: Software


class StepAnswer(NamedTuple):
    """A measured row with the step predicted for it, or the reason why there is none."""

    row: Row
    step: StepRow | None
    reason: str
    time: float = np.nan  # [s]
    low: float = np.nan
    high: float = np.nan
    regime: str = ""
    parts: Mapping[str, float] = {}  # [s] of a step; they sum to the time
    layer: Mapping[str, float] = {}  # [s] of a layer and microbatch

    @property
    def error(self) -> float | None:
        """Return predicted over measured, less 1."""
        measured = None if self.step is None else self.step.measured
        return None if measured is None else self.time / measured - 1.0

    @property
    def covered(self) -> bool | None:
        """Return whether the measured time lies in the interval."""
        measured = None if self.step is None else self.step.measured
        return None if measured is None else self.low <= measured <= self.high


def step_inputs(rows: Sequence[StepRow], chip: str | None = None) -> StepInputs:
    """Return the inputs of steps as columns; ``chip`` replaces what the catalogue says of chips.

    Raises: InputError for a chip that there is not, or a file that is none.
    """

    def columns(found: Sequence[Mapping[str, float]]) -> dict[str, Any]:
        return {name: np.array([one[name] for one in found]) for name in found[0]}

    defaults = {name: float(value) for name, value in vars(Software()).items()}
    pairs = [(one.system, chip or one.chip) for one in rows]
    known = {pair: _machine(*pair) for pair in set(pairs)}
    machines = [known[pair] for pair in pairs]
    slow: Any = np.array([one.slow_bandwidth for one in rows])
    return StepInputs(
        model=SimpleNamespace(**columns([one.model for one in rows])),
        sequence=np.array([one.sequence for one in rows]),
        plan=SimpleNamespace(**columns([one.plan for one in rows])),
        system=System(slow_bandwidth=slow, nics=1.0, **columns([one[0] for one in machines])),
        chip=Chip(**columns([one[1] for one in machines])),
        constants=SharedConstants(),
        software=Software(**columns([{**defaults, **one.software} for one in rows])),
    )


def _machine(system: str, chip: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the numbers of a system and of its chip; formats that it lacks run as 16 bits do."""
    found, peaks = lookup.system(system), catalog.entry("systems", system, units(System))["peaks"]
    rates = {name: float(getattr(found, name)) for name in OF_A_SYSTEM}
    formats = {f"{n}_flops": peaks.get(n, rates["matrix_flops"]) for n in ("fp8", "fp4")}
    made = lookup.chip(chip, **formats)
    return rates, {name: float(getattr(made, name)) for name in OF_A_CHIP}


def predicted_times(inputs: StepInputs) -> StepTime:
    """Return the seconds of steps and of their parts, each a column."""
    times = step_time(*inputs)
    shape = np.shape(inputs.sequence)
    columns: list[Any] = [np.broadcast_to(value, shape) for value in times]
    return StepTime(*columns)


def _bounds(inputs: StepInputs, time: Any, calibrated: Any) -> tuple[Interval, Any]:
    """Return the intervals of steps and their regimes; of software that is calibrated or not."""
    plan, software, chip = inputs.plan, inputs.software, inputs.chip
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    return interval_of_runs(
        time,
        inputs.model.experts,
        software.fp8 + software.fp4,
        calibrated * chip.calibrated,
        inside(gpus, plan.tensor, inputs.sequence, inputs.system.fast_domain),
        own_runs(chip),
    )


def answers(rows: Iterable[Row], chip: str | None = None) -> list[StepAnswer]:
    """Return every row with its prediction, or the reason why there is none.

    A ``chip`` in a file that was calibrated on runs like these has their intervals.
    Raises: InputError for a chip that there is not, or a file that is none.
    """
    rows = list(rows)
    read = [
        StepAnswer(row, None, str(one)) if isinstance(one, InputError) else StepAnswer(row, one, "")
        for row, one in zip(rows, step_rows(rows, machines_of(chip) or SYSTEMS), strict=True)
    ]
    asked = [one.step for one in read if one.step is not None]
    predicted = iter(_predicted(asked, chip) if asked else ())
    return [one if one.step is None else one._replace(**next(predicted)) for one in read]


def _predicted(rows: Sequence[StepRow], chip: str | None) -> list[dict[str, Any]]:
    inputs = step_inputs(rows, chip)
    times = predicted_times(inputs)
    total: Any = times.step_time
    bounds, found = _bounds(inputs, total, np.array([float(one.calibrated) for one in rows]))
    low, high, places = map(np.asarray, (*bounds, found))
    own = of_own_runs(low, high, places)
    step = {name: getattr(times, name) for name in OF_A_STEP}
    step[OTHER] = total - sum(step.values())
    layer = {name: getattr(times, name) for name in OF_A_LAYER}
    return [
        {
            "time": float(total[i]),
            "low": float(low[i]),
            "high": float(high[i]),
            "regime": REGIMES[int(places[i])].words + OWN * bool(own[i]),
            "parts": {name: float(values[i]) for name, values in step.items()},
            "layer": {name: float(values[i]) for name, values in layer.items()},
        }
        for i in range(len(rows))
    ]
