"""Few constants of a chip, fitted to a user's own measured steps.

Source: docs/models/training_step_today.md, section 2 (priors) and section 12 (spread in a source).
"""

import functools
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxroof.analyses.rows.columns import path_of
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.interval import OwnRuns
from jaxroof.estimators.training.step import training
from jaxroof.records import get_at, leaves, units
from jaxroof.settings import choices_of, paths_of
from jaxroof.validation.calibration.believed import FULL, SHARED, UNBOUNDED
from jaxroof.validation.calibration.problem import (
    DEVIATIONS_OF_80,
    FEWEST,
    FEWEST_OF_ANOTHER_CHIP,
    SOFTWARE,
    Fit,
    Machine,
    Problem,
    covariance,
    fit,
    groups_at,
    kinds,
    machine_of,
    own_half_widths,
    part,
    power,
    problem,
    residuals,
    rows_of,
    solved,
    start_system,
    with_odd_factor,
)
from jaxroof.validation.rows import MEASURED_STEP, NOTES, measured, note, table_of
from jaxroof.validation.rows import rows_of as asked_of

TOLD = 0.7  # a constant is told by rows that narrow it to this share of what was believed
MOST_PLANS = 1000  # configurations that a fit takes
ASKED = re.compile(r"software|states|cross_entropy|attention_kernel|selective|system\.slow_bandw")
FOLDS = 10  # most groups of rows that are left out in turn


class MeasuredStep(NamedTuple):
    """A measured row that a fit takes."""

    name: str
    measured: float  # [s]


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
    rows: tuple[MeasuredStep, ...]
    plans: tuple[MeasuredStep, ...]  # their configurations, each of which counts once
    groups: Sequence[RowGroup]  # these as columns of inputs
    asked: tuple[str, ...]  # what a question about such runs sets, as PATH=VALUE
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

    Arguments: ``rows`` are a file of measured runs, or a table (pandas) of its columns;
    ``calibrated_chip`` returns the chip that the result has.

    ln t(x) = ln measured + noise, x = (ln factor, ln constants), with the constants before the
    fit as centres of normal priors, whose deviations are a quarter of the believed ranges

    The factor divides the rates that a software reaches (matrix, attention, HBM, links) and
    multiplies the time that is spent once a step; constants that the rows hardly narrow stay.
    Rows of one configuration count once, by their median; of more than ``MOST_PLANS``
    configurations as many are taken, evenly.
    Raises: InputError for an unknown system, or if no row can be used.
    """
    used = usable(table_of(rows), system)
    taken, of_row = distinct(used)
    steps = [used.steps[place] for place in taken]
    seconds = pd.Series([one.measured for one in steps])
    plans = taken[np.unique(of_row, return_index=True)[1]]  # the first row of each
    plan_groups = groups_at(used.groups, plans)
    medians = seconds.groupby(of_row).median().to_numpy()
    whole = problem(plan_groups, medians, used.machine)
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
    fewest = FEWEST_OF_ANOTHER_CHIP if used.machine.like else FEWEST
    shift = np.log(medians)[of_row] - np.log(seconds.to_numpy())  # of a row from that of its plan
    return Calibration(
        machine=used.machine,
        rows=tuple(steps),
        plans=tuple(used.steps[place] for place in plans),
        groups=plan_groups,
        asked=(
            *_asked(used, taken),
            *(f"{one.name}={one.value:.6g}" for one in constants if one.name.startswith(SHARED)),
        ),
        left_out=used.left_out,
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


# ---- The rows of a fit --------------------------------------------------------------------------


class Used(NamedTuple):
    """Rows of a machine that have a measured time, counted from 0."""

    frame: pd.DataFrame
    steps: list[MeasuredStep]
    groups: list[RowGroup]
    left_out: tuple[tuple[str, str], ...]
    machine: Machine


def usable(frame: pd.DataFrame, system: str) -> Used:
    """Return the rows of a machine with measured times, and the others with a reason."""
    machine = machine_of(system)
    given = note(frame, "system")
    refused = [
        why or _other(machine, one) for why, one in zip(note(frame, "#refused"), given, strict=True)
    ]
    named = sorted({one for one, why in zip(given, refused, strict=True) if one and not why})
    if machine.base is None and len(named) > 1:
        expected = f"rows of {', '.join(named)}; expected rows of one kind of accelerator"
        raise refusal("--system", f"{system}: {expected}")
    if machine.chip is None and named:
        machine = machine._replace(chip=lookup.chip_name(named[0]))
    start = start_system(machine)
    shared: dict[str, Any] = {} if "system" in frame.columns else {"system": system}
    asked = asked_of(frame.assign(**{"#refused": refused}), lambda name: start, **shared)
    reasons, names = dict(asked.reasons), note(frame, "id")
    seconds = measured(frame, MEASURED_STEP, reasons)
    for place in np.flatnonzero(np.isnan(seconds)).tolist():
        reasons.setdefault(place, f"{MEASURED_STEP}: blank; expected {NOTES[MEASURED_STEP]}")
    if len(reasons) == len(names):
        raise InputError(f"no row can be used; the first, {names[0]}: {reasons[0]}")
    places = np.array([place for place in range(len(names)) if place not in reasons])
    steps = [MeasuredStep(names[p], float(seconds[p])) for p in places]
    left_out = tuple((names[place], reasons[place]) for place in sorted(reasons))
    return Used(frame.iloc[places], steps, groups_at(asked.groups, places), left_out, machine)


def _other(machine: Machine, system: str) -> str:
    """Return why rows of a system are none of a machine, empty if they are."""
    try:
        own = not system or machine.has(system)
    except InputError as error:
        return str(error)
    expected = f"expected {machine.base} or another system of its accelerators"
    return "" if own else f"system: {system}, which is another chip; {expected}"


def distinct(used: Used) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are taken, and the place of each one's configuration.

    Of more configurations than ``MOST_PLANS`` as many are taken, evenly, with their rows.
    """
    keys: list[Any] = [None] * len(used.steps)
    for number, (rows, inputs, _) in enumerate(used.groups):
        columns = [np.broadcast_to(value, len(rows)) for _, _, value in leaves(inputs)]
        for row, line in zip(rows.tolist(), np.stack(columns, axis=1), strict=True):
            keys[row] = f"{number} {line.tobytes().hex()}"
    codes, every = pd.factorize(np.array(keys, object))  # in the order of the rows
    chosen = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_PLANS)).astype(int))
    taken = np.flatnonzero(np.isin(codes, chosen))
    return taken, np.searchsorted(chosen, codes[taken])


def _asked(used: Used, rows: np.ndarray) -> Iterator[str]:
    """Yield as PATH=VALUE what rows share of software and network, where it is not the usual."""
    own = lookup.system(used.machine.system)
    usual = {path: field.metadata.get("default") for path, field in paths_of(training.inputs)}
    usual |= {name: getattr(one, "value", one) for name, one in vars(training.recipe).items()}
    usual |= {"system.slow_bandwidth": float(own.slow_bandwidth * own.nics)}
    for heading in used.frame.columns:
        name = "" if heading == "id" or heading.startswith("#") else heading
        path = path_of(training, name.partition("[")[0].strip()) if name else ""
        if not ASKED.match(path) or len({*used.frame[heading].iloc[rows]}) > 1:
            continue
        if path in choices_of(training.recipe):
            value: Any = getattr(used.groups[0].recipe, path).value
        else:
            value = float(np.ravel(get_at(used.groups[0].inputs, path))[0])
        if value != usual[path]:
            yield f"{path}={value if isinstance(value, str) else repr(value).removesuffix('.0')}"


# ---- The fit ------------------------------------------------------------------------------------


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
        centre = 1.0 if name == SOFTWARE else asked.before(name)
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
