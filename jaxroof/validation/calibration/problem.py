"""What a calibration fits: measured steps as columns, priors of constants, residuals with slopes.

Source: docs/models/training_step_today.md, section 2 (priors) and section 12 (spread in a source).
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.system import System
from jaxroof.dual import Dual, slope_of, value_of
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.estimators.training.interval import half_width_within_source, regime
from jaxroof.estimators.training.step import training
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import replace_at, units
from jaxroof.units import parse
from jaxroof.validation.calibration.least_squares import Prior
from jaxroof.validation.calibration.machine import Machine
from jaxroof.validation.rows import taken

SOFTWARE = "software"  # the factor by which a software's steps take longer than predicted
RATES = ("matmul", "matmul_fp8", "attention", "attention_old", "hbm", "fast", "slow")
TIMES = ("step",)
FACTOR_DEVIATION = 0.15  # of ln(factor), beside constants: the offset of odd sources in the fit
FACTOR_ALONE = 0.5  # the same where the factor is all that is fitted
FACTOR_MOST = 3.0
OF_ANOTHER_CHIP = 2.0  # ranges of constants of another chip are so much wider at either end
DEVIATIONS_OF_80 = 1.2816  # half width of 80 % of a normal distribution, in its deviations
FULL = 1.0  # no rate exceeds that of the datasheet
UNBOUNDED = ("depth", "depth_fp8", *TIMES)


class Problem(NamedTuple):
    """Rows, what they measured, and what is believed of the constants."""

    groups: Sequence[RowGroup]
    chip: Chip  # before the fit
    measured: np.ndarray  # [s]
    noise: np.ndarray  # deviation of ln(time)
    names: tuple[str, ...]
    prior: Prior


def start_system(machine: Machine) -> System:
    """Return the system of a machine with the chip that a fit starts from."""
    chip = lookup.chip_of(machine.system, machine.constants or machine.chip)
    return dataclasses.replace(lookup.device(machine.system), chip=chip)


def problem(groups: Sequence[RowGroup], measured: np.ndarray, machine: Machine) -> Problem:
    """Return what is fitted: rows as columns, and a prior of every constant with a range.

    Constants of a file are where the fit starts; of another chip less is believed.
    """
    chip = start_system(machine).chip
    assert machine.chip is not None
    assert chip is not None
    wider = OF_ANOTHER_CHIP if machine.like else 1.0
    believed = ranges(machine.chip)
    sizes = [(FACTOR_ALONE, -np.log(FACTOR_MOST), np.log(FACTOR_MOST))]
    for name, (low, high) in believed.items():
        centre = float(getattr(chip, name))
        full = np.inf if name in UNBOUNDED else FULL
        low, high = low / wider, min(high * wider, full)
        ends = np.log(min(low, centre) / centre), np.log(max(high, centre) / centre)
        sizes.append((np.log(high / low) / 4.0, ends[0] - 1e-6, ends[1] + 1e-6))
    return Problem(
        groups=groups,
        chip=chip,
        measured=measured,
        noise=np.asarray(half_width_within_source(kinds(groups, len(measured)))) / DEVIATIONS_OF_80,
        names=(SOFTWARE, *believed),
        prior=Prior(*map(np.array, zip(*sizes, strict=True))),
    )


def kinds(groups: Sequence[RowGroup], rows: int) -> Any:
    """Return the place in ``REGIMES`` of the kind of every row, its software taken as known."""
    found = np.zeros(rows)
    for places, inputs, _ in groups:
        few_bits = larger(inputs.software.fp8, inputs.software.fp4)
        found[places] = regime(inputs.model.experts, few_bits, 1.0)
    return found


def with_odd_factor(whole: Problem, factor: float) -> Problem:
    """Return the same problem with the prior of a factor beside constants.

    ``factor`` is ln(factor) fitted alone: a software that is far off is an odd one.
    """
    deviation = whole.prior.deviation.copy()
    deviation[whole.names.index(SOFTWARE)] = np.hypot(FACTOR_DEVIATION, factor)
    return whole._replace(prior=whole.prior._replace(deviation=deviation))


def ranges(chip: str) -> dict[str, tuple[float, float]]:
    """Return what is believed of each constant of a chip, in SI.

    >>> ranges("hopper")["matmul"]
    (0.6, 0.9)
    """
    written, unit = catalog.describe("chips", chip)["ranges"], units(Chip)
    return {
        name: (parse(low, unit[name], name), parse(high, unit[name], name))
        for name, (low, high) in written.items()
    }


def part(whole: Problem, names: Sequence[str]) -> Problem:
    """Return the same problem with some of its parameters."""
    places = [whole.names.index(name) for name in names]
    prior = Prior(*(values[places] for values in whole.prior))
    return whole._replace(names=tuple(names), prior=prior)


def groups_at(groups: Sequence[RowGroup], places: np.ndarray) -> list[RowGroup]:
    """Return groups with the rows at some places alone, in their order, counted from 0."""
    found = []
    for one in groups:
        here = np.flatnonzero(np.isin(one.rows, places))
        if len(here):
            inside = np.searchsorted(places, one.rows[here])
            found.append(taken(one, here)._replace(rows=inside))
    return found


def rows_of(whole: Problem, places: np.ndarray) -> Problem:
    """Return the same problem with some of its rows, in their order."""
    return whole._replace(
        groups=groups_at(whole.groups, places),
        measured=whole.measured[places],
        noise=whole.noise[places],
    )


def residuals(asked: Problem, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ln(predicted / measured) of every row, and its slopes with every parameter."""
    moved = {}
    for name in units(Chip):
        ways = np.array([power(name, parameter) for parameter in asked.names])
        if np.any(ways):
            value = getattr(asked.chip, name) * np.exp(ways @ values)
            one: Any = Dual(np.array([value]), (ways * value)[:, None])
            moved[name] = one if name in UNBOUNDED else smaller(one, FULL)
    errors = np.zeros(len(asked.measured))
    slopes = np.zeros((len(asked.measured), len(asked.names)))
    for places, inputs, recipe in asked.groups:
        for name, one in moved.items():
            inputs = replace_at(inputs, f"system.chip.{name}", one)
        parts = training.evaluate_parts(inputs, recipe)
        time = training.result("step_time", inputs, recipe, parts)
        seconds = np.asarray(value_of(time))
        errors[places] = np.log(seconds / asked.measured[places])
        slopes[places] = (slope_of(time) / seconds).T
    return errors, slopes


def power(field: str, parameter: str) -> float:
    """Return the power of a parameter in a constant of the chip."""
    if parameter == SOFTWARE:
        return -1.0 if field in RATES else 1.0 if field in TIMES else 0.0
    return float(field == parameter)
