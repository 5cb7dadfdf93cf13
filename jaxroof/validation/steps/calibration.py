"""Few constants of a chip, fitted to a user's own measured steps.

Source: docs/models/training_step_today.md, section 2 (priors) and section 12 (spread in a source).
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.engine.uncertainty.least_squares import Fit, covariance, fit, solved
from jaxroof.errors import InputError, refusal
from jaxroof.records import units
from jaxroof.validation.measured_rows import Row
from jaxroof.validation.steps.calibration_problem import (
    DEVIATIONS_OF_80,
    FULL,
    SOFTWARE,
    UNBOUNDED,
    Problem,
    part,
    power,
    problem,
    residuals,
    rows_of,
    with_odd_factor,
)
from jaxroof.validation.steps.step_rows import SYSTEMS, StepRow, step_row

TOLD = 0.7  # a constant is told by rows that narrow it to this share of what was believed
FOLDS = 10  # most groups of rows that are left out in turn


class Constant(NamedTuple):
    """A fitted constant: what was believed, and what the rows say; intervals of 80 %."""

    name: str
    catalogue: float
    value: float
    low: float
    high: float
    written: float  # as the file has it: with the factor of the software


class Calibration(NamedTuple):
    """Constants of a chip that were fitted to measured steps."""

    system: str
    chip: str
    rows: tuple[StepRow, ...]
    left_out: tuple[tuple[str, str], ...]  # name of a row, why it was not used
    alone: Constant  # the factor of the software, all constants as in the catalogue
    factor: Constant  # the same beside the constants that were fitted
    constants: tuple[Constant, ...]  # those that the rows tell
    untold: tuple[str, ...]  # those that they do not
    before: np.ndarray  # ln(predicted / measured) by the catalogue
    after: np.ndarray  # by the fit
    apart: np.ndarray  # of each row by a fit without it; NaN for a single row
    noise: float  # deviation of ln(time) of the rows about the fit
    names: tuple[str, ...]  # of the parameters: the factor, then all constants with a range
    values: np.ndarray  # ln(parameter / catalogue), 0 where the rows do not tell it
    covariance: np.ndarray  # of ln(parameter)
    fields: dict[str, float]  # of the chip, as the file has them


def calibrate(rows: Sequence[Row], system: str) -> Calibration:
    """Return the constants that measured steps of one system tell.

    ln t(x) = ln measured + noise, x = (ln factor, ln constants), with the catalogue's constants
    as centres of normal priors, whose deviations are a quarter of the believed ranges

    The factor divides the rates that a software reaches (matrix, attention, HBM, links) and
    multiplies the time that is spent once a step; constants that the rows hardly narrow stay.
    Raises: InputError for an unknown system, or if no row can be used.
    """
    steps, left_out, chip = usable(rows, system)
    whole = problem(steps, chip)
    single = part(whole, (SOFTWARE,))
    first = _fitted(single)
    whole = with_odd_factor(whole, float(first.values[0]))
    told, untold = told_constants(whole, float(first.values[0]))
    kept = part(whole, (SOFTWARE, *told)) if told else single
    found = _fitted(kept)
    values = dict(zip(kept.names, found.values, strict=True))
    every = np.array([values.get(name, 0.0) for name in whole.names])
    after, slopes = residuals(whole, every)
    spread = covariance(after, slopes, found.noise * whole.noise, whole.prior)
    factor, *constants = constants_of(kept, found)
    before, _ = residuals(whole, np.zeros(len(whole.names)))
    return Calibration(
        system=system,
        chip=chip,
        rows=tuple(steps),
        left_out=left_out,
        alone=constants_of(single, first)[0],
        factor=factor,
        constants=tuple(constants),
        untold=untold,
        before=before,
        after=after,
        apart=left_out_errors(kept, found),
        noise=found.noise * float(np.median(whole.noise)),
        names=whole.names,
        values=every,
        covariance=spread,
        fields=written_fields(kept, found),
    )


def usable(
    rows: Sequence[Row], system: str
) -> tuple[list[StepRow], tuple[tuple[str, str], ...], str]:
    """Return the rows of a system with measured times, the others with a reason, and their chip.

    Raises: InputError for an unknown system, rows of several kinds of accelerators, or if none is
    left.
    """
    lookup.system(system)  # raises for an unknown one
    steps, refused = [], []
    for row in rows:
        name = row.cells.get("row_id", f"line {row.line}")
        try:
            step = step_row(row)
            if step.measured is None:
                raise refusal("derived_step_time_s", "blank; expected seconds of a step")
            steps.append(step)
        except InputError as error:
            refused.append((name, str(error)))
    others = [one for one in steps if not _may_be(one, system)]
    refused += [(one.row.cells["row_id"], _other(one, system)) for one in others]
    steps = [one for one in steps if _may_be(one, system)]
    kinds = sorted({step.system for step in steps})
    if not steps:
        raise InputError(f"no row can be used; the first: {refused[0][1]}")
    if len(kinds) > 1:
        expected = f"rows of {', '.join(kinds)}; expected rows of one kind of accelerator"
        raise refusal("--system", f"{system}: {expected}")
    return [_on(step, system) for step in steps], tuple(refused), steps[0].chip


def _may_be(step: StepRow, system: str) -> bool:
    """Return whether a step may have run on a system: its own, or another with the same chip."""
    if system in {name for name, _, _ in SYSTEMS.values()}:
        return step.system == system
    chips = [n for n in catalog.names("chips") if system in catalog.describe("chips", n)["systems"]]
    return not chips or step.chip in chips


def _other(step: StepRow, system: str) -> str:
    return f"system: {step.row.cells['system']}, which is {step.system}, not {system}"


def _on(step: StepRow, system: str) -> StepRow:
    """Return a step on a system; the network is that of its source, where one is known."""
    usual = {slow for name, _, slow in SYSTEMS.values() if name == step.system}
    if system == step.system or step.slow_bandwidth not in usual:
        return step._replace(system=system)
    own = lookup.system(system)
    return step._replace(system=system, slow_bandwidth=float(own.slow_bandwidth * own.nics))


def _fitted(asked: Problem) -> Fit:
    return fit(functools.partial(residuals, asked), asked.noise, asked.prior)


def told_constants(whole: Problem, factor: float) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the constants that the rows narrow well, and the others."""
    start = np.array([factor, *np.zeros(len(whole.names) - 1)])
    errors, slopes = residuals(whole, start)
    spread = np.sqrt(np.diag(covariance(errors, slopes, whole.noise, whole.prior)))
    told = spread < TOLD * whole.prior.deviation
    names = list(zip(whole.names, told, strict=True))[1:]
    return tuple(n for n, yes in names if yes), tuple(n for n, yes in names if not yes)


def constants_of(asked: Problem, found: Fit) -> list[Constant]:
    """Return the factor and the constants with their intervals, in the order of the problem."""
    half = DEVIATIONS_OF_80 * np.sqrt(np.diag(found.covariance))
    low = np.exp(np.clip(found.values - half, asked.prior.low, asked.prior.high))
    high = np.exp(np.clip(found.values + half, asked.prior.low, asked.prior.high))
    fields, made = written_fields(asked, found), []
    for place, name in enumerate(asked.names):
        centre = 1.0 if name == SOFTWARE else float(np.ravel(getattr(asked.inputs.chip, name))[0])
        ends = centre * float(low[place]), centre * float(high[place])
        value = centre * float(np.exp(found.values[place]))
        made.append(Constant(name, centre, value, *ends, fields.get(name, value)))
    return made


def written_fields(asked: Problem, found: Fit) -> dict[str, float]:
    """Return the constants of the chip that differ from the catalogue's, with the factor."""
    fields = {}
    for name in units(Chip):
        ways = np.array([power(name, parameter) for parameter in asked.names])
        if np.any(ways):
            centre = float(np.ravel(getattr(asked.inputs.chip, name))[0])
            value = centre * float(np.exp(ways @ found.values))
            fields[name] = value if name in UNBOUNDED else min(value, FULL)
    return fields


def left_out_errors(asked: Problem, found: Fit) -> np.ndarray:
    """Return ln(predicted / measured) of every row by a fit without it, or without its group.

    More rows than ``FOLDS`` are left out in as many groups, every so many rows.
    """
    rows = len(asked.measured)
    errors = np.full(rows, np.nan)
    groups = np.arange(rows) % FOLDS
    for group in range(min(rows, FOLDS) if rows > 1 else 0):
        out = groups == group
        rest = rows_of(asked, np.flatnonzero(~out))
        values = solved(functools.partial(residuals, rest), found.noise * rest.noise, rest.prior)
        errors[out] = residuals(rows_of(asked, np.flatnonzero(out)), values)[0]
    return errors
