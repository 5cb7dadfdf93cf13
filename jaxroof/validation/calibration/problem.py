"""What a calibration fits: measured steps as columns, priors of constants, residuals with slopes.

Source: docs/models/training_step_today.md, section 2 (priors) and section 12 (spread in a source).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import least_squares
from scipy.special import ndtri, stdtrit

from jaxroof import catalog
from jaxroof.catalog import lookup
from jaxroof.catalog.chip import Chip
from jaxroof.catalog.system import System
from jaxroof.dual import Dual, slope_of, value_of
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.errors import refusal
from jaxroof.estimators.training.interval import (
    LEVEL,
    WITHIN_SOURCE,
    OwnRuns,
    half_width_within_source,
    regime,
)
from jaxroof.estimators.training.step import training
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import get_at, replace_at, units, value_or
from jaxroof.validation.calibration.believed import most, ranges, shared_constants, shared_ranges
from jaxroof.validation.rows import on_system, taken

NEEDED = (  # of a system that rows are fitted on
    *("matrix_flops", "hbm_bandwidth", "fast_domain", "fast_bandwidth"),
    *("slow_bandwidth", "nics"),
)


class Machine(NamedTuple):
    """A system, and what its measured rows are predicted with before any fit."""

    system: str
    base: str | None  # system of the catalogue that it is or changes
    chip: str | None  # generation whose constants and ranges are the start; None: that of the rows
    constants: str | None  # file of constants that change them, None if there is none
    like: str  # the nearest calibrated system, or chip, if its own was never calibrated

    @property
    def start(self) -> str:
        """Return in words what a fit starts from."""
        return self.constants or self.like or "the catalogue"

    def has(self, system: str) -> bool:
        """Return whether rows of a system are of this machine's accelerators."""
        if self.base is None or system == self.system:
            return True
        other = catalog.base_of("systems", system)
        return other is not None and same_chip(self.base, other)


def same_chip(one: str, other: str) -> bool:
    """Return whether two systems of the catalogue have the same accelerators, by their names.

    >>> same_chip("h100-nvs8", "h100-sxm"), same_chip("a100-40-sxm", "a100-80-sxm")
    (True, False)
    """
    (first, *more), (second, *others) = one.split("-"), other.split("-")
    sizes = {words[0] for words in (more, others) if words and words[0].isdigit()}
    return first == second and len(sizes) < 2


def on_machine(system: str, chip: str | None) -> System:
    """Return a system by name with its chip, or with another one.

    ``chip`` may be a file of a system, as ``calibrate`` writes it: rows of its accelerators are on
    that system, with its rates and its network.
    """
    if chip is None:
        return on_system(system)
    if isinstance(catalog.inner_table(chip, "chip"), catalog.Table) and machine_of(chip).has(
        system
    ):
        return lookup.training_system(chip)
    return dataclasses.replace(lookup.device(system), chip=lookup.chip_of(system, chip))


def machine_of(system: str) -> Machine:
    """Return the machine of a system of the catalogue, or of a file.

    A chip that was never calibrated starts from the nearest one that was, by the logarithms of
    its matrix rate and memory bandwidth.

    >>> machine_of("h800-nvs8").chip, machine_of("h100-book").like
    ('hopper', 'h100-sxm')
    """
    found = lookup.system(system)
    lacking = [name for name in NEEDED if getattr(found, name) is None]
    if lacking:
        said = f"lacks {', '.join(lacking)}, without which a training step has no time"
        expected = "expected a system with a fast domain, such as h100-nvs8, or a file that adds it"
        raise refusal("--system", f"{system}: {said}; {expected}")
    base = catalog.base_of("systems", system)
    chip, constants = _own_chip(system)
    known = {name: catalog.describe("chips", name)["systems"] for name in catalog.names("chips")}
    generations = {one: name for name, systems in known.items() for one in systems}
    if base is None:
        return Machine(system, None, chip, constants, "")
    if chip is None and base in generations:
        return Machine(system, base, generations[base], constants, "")
    if chip is None:
        like = lookup.nearest_system(system)
        return Machine(system, base, generations[like], constants, like)
    stated = float(lookup.chip(constants or chip).calibrated) > 0.0
    like = "" if stated and base in known.get(chip, [base]) else chip
    return Machine(system, base, chip, constants, like)


def _own_chip(system: str) -> tuple[str | None, str | None]:
    """Return the generation that a system's file names, and the file with constants over it."""
    written = catalog.entry("systems", system, units(System)).get("chip")
    if written is None:
        return None, None
    if not isinstance(written, Mapping):
        base = catalog.base_of("chips", written)
        constants = written if catalog.is_file(written) else None
    else:
        base, constants = written.get("base"), system
    if base is None:
        expected = f"expected one of {', '.join(catalog.names('chips'))}"
        raise refusal(f"{system}: chip", f"base: missing; {expected}")
    return base, constants


Model = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]  # -> residuals [n], slopes [n, k]
PRIOR_ROWS = 4.0  # rows that the stated noise counts as, beside what the residuals say
ROUNDS = 3  # of fitting, then taking the noise anew


class Prior(NamedTuple):
    """What is known of parameters before any row: normal around 0, between bounds."""

    deviation: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Fit(NamedTuple):
    """Fitted parameters, and how far they are to be trusted."""

    values: np.ndarray
    covariance: np.ndarray
    noise: float  # what the rows scatter by, over the noise that was stated


def fit(model: Model, noise: np.ndarray, prior: Prior) -> Fit:
    """Return the parameters x that minimise a robust sum of squares, between bounds.

    S(x) = sum_i rho(r_i(x)^2 / (s noise_i)^2) + sum_k (x_k / deviation_k)^2,
    rho(z) = 2 (sqrt(1 + z) - 1)

    ``model`` returns residuals r and their slopes. The scale s of the noise is that of the rows,
    drawn towards 1 as if ``PRIOR_ROWS`` rows had said so.
    The covariance is that of the normal equations at the solution, rows weighted by rho'.

    >>> rows = np.array([1.0, 2.0, 3.0])
    >>> prior = Prior(np.array([10.0]), np.array([-9.0]), np.array([9.0]))
    >>> found = fit(lambda x: (rows * x[0] - rows, rows[:, None]), np.full(3, 0.1), prior)
    >>> round(float(found.values[0]), 3), found.noise < 1.0
    (1.0, True)
    """
    scale, values = 1.0, np.zeros(len(prior.deviation))
    for _ in range(ROUNDS):
        values = solved(model, scale * noise, prior, values)
        residuals, slopes = model(values)
        squares = np.sum(_rho((residuals / noise) ** 2)[0])
        scale = float(np.sqrt((PRIOR_ROWS + squares) / (PRIOR_ROWS + len(noise))))
    return Fit(values, covariance(residuals, slopes, scale * noise, prior), scale)


def covariance(
    residuals: np.ndarray, slopes: np.ndarray, noise: np.ndarray, prior: Prior
) -> np.ndarray:
    """Return the covariance of parameters, given residuals and slopes at them.

    >>> prior = Prior(np.array([1.0]), np.array([-9.0]), np.array([9.0]))
    >>> covariance(np.zeros(3), np.ones((3, 1)), np.ones(3), prior).tolist()
    [[0.25]]
    """
    weights = _rho((residuals / noise) ** 2)[1] / noise**2
    return np.linalg.inv((slopes.T * weights) @ slopes + np.diag(prior.deviation**-2.0))


def _rho(squares: np.ndarray) -> np.ndarray:
    """Return the loss of squared residuals, and its first two derivatives."""
    root = np.sqrt(1.0 + squares)
    return np.array([2.0 * (root - 1.0), 1.0 / root, -0.5 / root**3])


def solved(model: Model, noise: np.ndarray, prior: Prior, start: np.ndarray) -> np.ndarray:
    """Return the parameters that minimise the sum of squares at a given noise, from a start.

    >>> prior = Prior(np.array([1.0]), np.array([-9.0]), np.array([9.0]))
    >>> model = lambda x: (x - 1.0, np.ones((1, 1)))
    >>> round(float(solved(model, np.ones(1), prior, np.zeros(1))[0]), 2)
    0.47
    """
    rows = len(noise)
    seen: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def both(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key = values.tobytes()
        if key not in seen:
            seen.clear()
            residuals, slopes = model(values)
            seen[key] = (
                np.concatenate([residuals / noise, values / prior.deviation]),
                np.vstack([slopes / noise[:, None], np.diag(1.0 / prior.deviation)]),
            )
        return seen[key]

    def loss(squares: np.ndarray) -> np.ndarray:
        plain = np.array([squares, np.ones_like(squares), np.zeros_like(squares)])
        plain[:, :rows] = _rho(squares[:rows])
        return plain

    found = least_squares(
        lambda values: both(values)[0],
        start,
        jac=lambda values: both(values)[1],
        bounds=(prior.low, prior.high),
        loss=loss,
        method="dogbox",
        xtol=1e-6,
        ftol=1e-8,
    )
    return np.asarray(found.x)


FEWEST = 2  # plans of a kind that say how far rows lie from a fit without them
FEWEST_OF_ANOTHER_CHIP = 5  # where the constants are those of another chip
SHARE = LEVEL / 100.0


def own_half_width(errors: np.ndarray, spread: float) -> float:
    """Return the half width of ln(time) at 80 % that errors of left-out plans support.

    h = max(spread, t_(n-1) / t_inf Q80(|e|)), t the 90 % quantile of Student's distribution

    ``errors`` are ln(predicted / measured) of n plans, each by a fit without it; ``spread`` is that
    of plans of one software at 80 %, below which no few rows can show an interval to lie.
    Assumes: errors are about normal, so that few of them widen as Student's distribution does.
    Source: docs/models/training_step_today.md, section 12; Student 1908.

    >>> round(own_half_width(np.array([0.1, -0.1]), 0.085), 3)
    0.24
    >>> own_half_width(np.full(9, 0.01), 0.085)
    0.085
    """
    end = 0.5 + SHARE / 2.0
    few = float(stdtrit(len(errors) - 1.0, end) / ndtri(end))
    return max(spread, few * float(np.quantile(np.abs(errors), SHARE)))


def own_half_widths(errors: np.ndarray, kinds: np.ndarray, fewest: int) -> OwnRuns:
    """Return the half widths of each kind of run, 0 for those with fewer plans than ``fewest``.

    ``errors`` are as in ``own_half_width``, ``kinds`` the places of the plans' kinds in REGIMES.

    >>> own_half_widths(np.array([0.1, -0.1, 0.2]), np.array([0, 0, 2]), 2)
    OwnRuns(dense_16_bit=0.240..., dense_8_or_4_bit=0.0, experts=0.0)
    """
    found: list[Any] = []
    for place, spread in enumerate(WITHIN_SOURCE[: len(OwnRuns._fields)]):
        some = errors[kinds == place]
        found.append(own_half_width(some, spread) if len(some) >= fewest else 0.0)
    return OwnRuns(*found)


SOFTWARE = "software"  # the factor by which a software's steps take longer than predicted
RATES = ("matmul", "matmul_fp8", "attention", "attention_old", "hbm", "fast", "slow")
TIMES = ("step",)
FACTOR_DEVIATION = 0.15  # of ln(factor), beside constants: the offset of odd sources in the fit
FACTOR_ALONE = 0.5  # the same where the factor is all that is fitted
FACTOR_MOST = 3.0
OF_ANOTHER_CHIP = 2.0  # ranges of constants of another chip are so much wider at either end
DEVIATIONS_OF_80 = 1.2816  # half width of 80 % of a normal distribution, in its deviations


class Problem(NamedTuple):
    """Rows, what they measured, and what is believed of the constants."""

    groups: Sequence[RowGroup]
    chip: Chip  # before the fit
    shared: Mapping[str, float]  # constants of all chips that are fitted, before the fit
    measured: np.ndarray  # [s]
    noise: np.ndarray  # deviation of ln(time)
    names: tuple[str, ...]
    prior: Prior

    def before(self, name: str) -> float:
        """Return a constant before the fit."""
        return self.shared[name] if name in self.shared else float(getattr(self.chip, name))


def start_system(machine: Machine) -> System:
    """Return the system of a machine with the chip that a fit starts from."""
    chip = lookup.chip_of(machine.system, machine.constants or machine.chip)
    return dataclasses.replace(lookup.device(machine.system), chip=chip)


def problem(
    groups: Sequence[RowGroup],
    measured: np.ndarray,
    machine: Machine,
    shared: Sequence[str] | None = None,
) -> Problem:
    """Return what is fitted: rows as columns, and a prior of every constant with a range.

    Constants of a file are where the fit starts; of another chip less is believed. ``shared`` are
    constants of all chips, by default those that some row depends on.
    """
    chip = start_system(machine).chip
    assert machine.chip is not None
    assert chip is not None
    wider = OF_ANOTHER_CHIP if machine.like else 1.0
    of_chip, of_all = ranges(machine.chip), shared_ranges()
    of_chip = {name: (low / wider, high * wider) for name, (low, high) in of_chip.items()}
    named = shared_constants(groups) if shared is None else shared
    starts = {name: float(np.ravel(get_at(groups[0].inputs, name))[0]) for name in named}
    starts = {name: value for name, value in starts.items() if value > 0.0}
    believed = of_chip | {name: of_all[name] for name in starts}
    whole = Problem(
        groups=groups,
        chip=chip,
        shared=starts,
        measured=measured,
        noise=np.asarray(half_width_within_source(kinds(groups, len(measured)))) / DEVIATIONS_OF_80,
        names=(SOFTWARE, *believed),
        prior=Prior(*np.zeros((3, 1))),
    )
    sizes = [(FACTOR_ALONE, -np.log(FACTOR_MOST), np.log(FACTOR_MOST))]
    for name, (low, high) in believed.items():
        centre, high = whole.before(name), min(high, most(name))
        ends = np.log(min(low, centre) / centre), np.log(max(high, centre) / centre)
        sizes.append((np.log(high / low) / 4.0, ends[0] - 1e-6, ends[1] + 1e-6))
    return whole._replace(prior=Prior(*map(np.array, zip(*sizes, strict=True))))


def kinds(groups: Sequence[RowGroup], rows: int) -> Any:
    """Return the place in ``REGIMES`` of the kind of every row, its software taken as known."""
    found = np.zeros(rows)
    for places, inputs, _ in groups:
        few_bits = larger(inputs.software.fp8, inputs.software.fp4)
        found[places] = regime(inputs.model, few_bits, 1.0, value_or(inputs.lora_rank, None))
    return found


def with_odd_factor(whole: Problem, factor: float) -> Problem:
    """Return the same problem with the prior of a factor beside constants.

    ``factor`` is ln(factor) fitted alone: a software that is far off is an odd one.
    """
    deviation = whole.prior.deviation.copy()
    deviation[whole.names.index(SOFTWARE)] = np.hypot(FACTOR_DEVIATION, factor)
    return whole._replace(prior=whole.prior._replace(deviation=deviation))


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
    for name in (*units(Chip), *asked.shared):
        ways = np.array([power(name, parameter) for parameter in asked.names])
        if np.any(ways):
            value = asked.before(name) * np.exp(ways @ values)
            one: Any = Dual(np.array([value]), (ways * value)[:, None])
            path = name if name in asked.shared else f"system.chip.{name}"
            moved[path] = smaller(one, most(name))
    errors = np.zeros(len(asked.measured))
    slopes = np.zeros((len(asked.measured), len(asked.names)))
    for places, inputs, recipe in asked.groups:
        for path, one in moved.items():
            inputs = replace_at(inputs, path, one)
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
