"""Few constants of a chip, fitted to a user's own measured steps.

Source: docs/models/training_step_today.md, section 2 (priors) and section 12 (spread in a source).
"""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.engine.uncertainty.least_squares import Fit, covariance, fit, solved
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.interval import OwnRuns
from jaxroof.estimators.training.training_recipe import TrainingRecipe
from jaxroof.records import units
from jaxroof.settings import paths_of
from jaxroof.validation.measured_rows import Row, measured_rows
from jaxroof.validation.steps.calibration_problem import (
    DEVIATIONS_OF_80,
    FULL,
    SOFTWARE,
    UNBOUNDED,
    Problem,
    kinds,
    part,
    power,
    problem,
    residuals,
    rows_of,
    with_odd_factor,
)
from jaxroof.validation.steps.machine import Machine, machine_of, rows_of_machine
from jaxroof.validation.steps.own_interval import (
    FEWEST,
    FEWEST_OF_ANOTHER_CHIP,
    own_half_widths,
)
from jaxroof.validation.steps.step_rows import SYSTEMS, StepRow, chip_of, step_rows

TOLD = 0.7  # a constant is told by rows that narrow it to this share of what was believed
MOST_PLANS = 1000  # configurations that a fit takes
ASKED = re.compile(r"software|states|cross_entropy|attention_kernel|selective|system\.slow_bandw")
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

    machine: Machine
    rows: tuple[StepRow, ...]
    plans: tuple[StepRow, ...]  # their configurations, each of which counts once
    left_out: tuple[tuple[str, str], ...]  # name of a row, why it was not used
    alone: Constant  # the factor of the software, all constants as before
    factor: Constant  # the same beside the constants that were fitted
    constants: tuple[Constant, ...]  # those that the rows tell
    untold: tuple[str, ...]  # those that they do not
    before: np.ndarray  # ln(predicted / measured) of every row before the fit
    after: np.ndarray  # by the fit
    apart: np.ndarray  # of each row by a fit without its plan; NaN for a single plan
    own: OwnRuns  # half widths that the plans support, by kind
    noise: float  # deviation of ln(time) of the plans about the fit
    names: tuple[str, ...]  # of the parameters: the factor, then all constants with a range
    values: np.ndarray  # ln(parameter / constant before), 0 where the rows do not tell it
    covariance: np.ndarray  # of ln(parameter)
    fields: dict[str, float]  # of the chip, as the file has them

    @property
    def system(self) -> str:
        """Return the system, as it was named."""
        return self.machine.system


def calibrate(rows: Any, system: str) -> Calibration:
    """Return the constants that measured steps of one system tell.

    Arguments: ``rows`` are a file of measured runs, a table (pandas) of its columns, or rows that
    were read; ``calibrated_chip`` returns the chip that the result has.

    ln t(x) = ln measured + noise, x = (ln factor, ln constants), with the constants before the
    fit as centres of normal priors, whose deviations are a quarter of the believed ranges

    The factor divides the rates that a software reaches (matrix, attention, HBM, links) and
    multiplies the time that is spent once a step; constants that the rows hardly narrow stay.
    Rows of one configuration count once, by their median; of more than ``MOST_PLANS``
    configurations as many are taken, evenly.
    Raises: InputError for an unknown system, or if no row can be used.
    """
    steps, left_out, machine = usable(measured_rows(rows), system)
    steps, of_row, plans = distinct(steps)
    whole = problem(plans, machine)
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
    apart = left_out_errors(kept, found)
    fewest = FEWEST_OF_ANOTHER_CHIP if machine.like else FEWEST
    measured = np.log(np.array([one.measured for one in steps], np.float64))
    shift = np.log(whole.measured)[of_row] - measured  # of a row from the median of its plan
    return Calibration(
        machine=machine,
        rows=tuple(steps),
        plans=tuple(plans),
        left_out=left_out,
        alone=constants_of(single, first)[0],
        factor=factor,
        constants=tuple(constants),
        untold=untold,
        before=before[of_row] + shift,
        after=after[of_row] + shift,
        apart=apart[of_row] + shift,
        own=own_half_widths(apart, kinds(whole.groups, len(plans)), fewest),
        noise=found.noise * float(np.median(whole.noise)),
        names=whole.names,
        values=every,
        covariance=spread,
        fields=written_fields(kept, found),
    )


def asked_software(found: Calibration) -> list[str]:
    """Return what a question about such runs sets, beside their plan and the system of the file.

    That is, as PATH=VALUE, what all plans share of their software and network, where it differs
    from what a question has that names none.
    """
    own = lookup.system(found.system)
    network = float(own.slow_bandwidth * own.nics)
    usual = {path: field.metadata.get("default") for path, field in paths_of(TrainingInputs)}
    usual |= {name: getattr(one, "value", one) for name, one in vars(TrainingRecipe()).items()}
    usual |= {"system.slow_bandwidth": network}
    shared = set.intersection(*({*one.settings.items()} for one in found.plans))
    return [
        f"{name}={value if isinstance(value, str) else repr(float(value)).removesuffix('.0')}"
        for name, value in found.plans[0].settings.items()
        if (name, value) in shared and ASKED.match(name) and value != usual[name]
    ]


def usable(
    rows: Iterable[Row], system: str
) -> tuple[list[StepRow], tuple[tuple[str, str], ...], Machine]:
    """Return the rows of a system with measured times, the others with a reason, and the machine.

    Raises: InputError for an unknown system, rows of several kinds of accelerators where the system
    does not say which it has, or if no row is left.
    """
    rows, machine = list(rows), machine_of(system)
    steps, refused = [], []
    for row, step in zip(rows, step_rows(rows, rows_of_machine(machine)), strict=True):
        wrong = str(step) if isinstance(step, InputError) else _refused(step, machine)
        if wrong or isinstance(step, InputError):
            refused.append((row.cells.get("row_id", f"line {row.line}"), wrong))
        else:
            steps.append(step)
    if not steps:
        name, wrong = refused[0]
        raise InputError(f"no row can be used; the first, {name}: {wrong}")
    kinds_of_rows = {_kind(step, machine) for step in steps}
    named = sorted({SYSTEMS[kind][0] for kind in kinds_of_rows if kind in SYSTEMS})
    if len(named) > 1:
        expected = f"rows of {', '.join(named)}; expected rows of one kind of accelerator"
        raise refusal("--system", f"{system}: {expected}")
    return steps, tuple(refused), machine._replace(chip=machine.chip or steps[0].chip)


def _refused(step: StepRow, machine: Machine) -> str:
    """Return why a row is not one of a machine; empty if it is."""
    kind = _kind(step, machine)
    if machine.names and kind not in machine.names:
        expected = f"expected {' or '.join(machine.names)}, the accelerator of {machine.system}"
        return f"system: {step.row.cells['system']}, which is another chip; {expected}"
    if step.measured is None:
        return "measured_step_time_s: blank; expected seconds of a step"
    return ""


def _kind(step: StepRow, machine: Machine) -> str:
    return chip_of(step.row, (*machine.names, *SYSTEMS))


def distinct(steps: Sequence[StepRow]) -> tuple[list[StepRow], np.ndarray, list[StepRow]]:
    """Return rows, the place of each one's configuration, and one step of each configuration.

    Its seconds are the median of its rows. Of more configurations than ``MOST_PLANS`` as many are
    taken, evenly, with their rows.
    """
    groups: dict[frozenset[Any], list[StepRow]] = {}
    for step in steps:
        groups.setdefault(frozenset(step.settings.items()), []).append(step)
    keys = list(groups)
    chosen = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), MOST_PLANS)).astype(int))
    places = {keys[one]: place for place, one in enumerate(chosen)}
    kept = [step for step in steps if frozenset(step.settings.items()) in places]
    of_row = np.array([places[frozenset(step.settings.items())] for step in kept])
    plans = [
        groups[key][0]._replace(measured=float(np.median([one.measured for one in groups[key]])))
        for key in places
    ]
    return kept, of_row, plans


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
        centre = 1.0 if name == SOFTWARE else float(getattr(asked.chip, name))
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
            value = float(getattr(asked.chip, name)) * float(np.exp(ways @ found.values))
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
        noise = found.noise * rest.noise
        values = solved(functools.partial(residuals, rest), noise, rest.prior, found.values)
        errors[out] = residuals(rows_of(asked, np.flatnonzero(out)), values)[0]
    return errors
