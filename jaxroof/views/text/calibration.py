"""Constants that were fitted to measured steps: a table, sentences, JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import Library, Tier
from jaxroof.estimators.training.inputs import Framework
from jaxroof.estimators.training.interval import REGIMES
from jaxroof.limits import counted
from jaxroof.records import units
from jaxroof.units import seconds, show
from jaxroof.validation.calibration.believed import SHARED
from jaxroof.validation.calibration.fit import MOST_PLANS, Calibration, Constant
from jaxroof.validation.calibration.next_measurement import Measurement
from jaxroof.validation.calibration.problem import (
    DEVIATIONS_OF_80,
    FEWEST,
    FEWEST_OF_ANOTHER_CHIP,
    SOFTWARE,
)
from jaxroof.validation.calibration.told import Fitted, median_error
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.said import Said, quiet, usual

MOST_SHOWN = 12  # rows of a table
LONGEST = 26  # characters of a name
UNITS = {  # of constants of chips, software that serves and fabrics, by their last names
    name: unit
    for kind in (Chip, SharedConstants, ServingSoftware, Tier, Library)
    for name, unit in units(kind).items()
}


def constants_table(title: str, constants: Iterable[Constant], *more: Shown) -> PlainTable:
    """Return one row per constant that the rows tell: before, fitted, 80 % interval."""

    def column(head: str, name: str) -> Shown:
        return Shown(head, lambda one: _amount(one.name, getattr(one, name)))

    columns = [
        Shown("constant", lambda one: one.name, 0, "left"),
        column("before", "catalogue"),
        column("fitted", "value"),
        *(column(name, name) for name in ("low", "high")),
        *more,
    ]
    return PlainTable(title).add_rows(columns, constants)


def _amount(name: str, value: float) -> str:
    return show(float(f"{value:.4g}"), UNITS.get(name.rpartition(".")[2], "1"))


# ---- Software that serves, and fabrics -----------------------------------------------------------


def fitted_said(found: Fitted) -> Iterator[Said]:
    """Yield what was fitted, the errors before and after, and how far to trust it."""
    yield from usual(f"{found.words}: median error {_medians(found)}.")
    if found.constants:
        yield from quiet(constants_table("constants with 80 % intervals", found.constants))
    yield from usual(untold_sentence(found.untold))
    yield from usual(*(_trust(f"Servers of kind {n}", h, "TPOT") for n, h in found.own.items()))
    yield from usual(_not_used(found.left_out, "value"))


def fitted_json(found: Fitted) -> str:
    """Return a fit as one JSON object."""
    errors = {"before": median_error(found.before), "after": median_error(found.after)}
    constants = {
        one.name: {"before": one.catalogue, "fitted": one.value, "interval_80": [one.low, one.high]}
        for one in found.constants
    }
    more = {"untold": found.untold, "own": found.own, "left_out": found.left_out}
    return json.dumps(
        {**found.about, "median_error": errors, **more, "constants": constants}, indent=2
    )


def untold_sentence(untold: Sequence[str]) -> str:
    """Return the constants that what was measured does not tell."""
    return f"Not told by these rows, left as before: {', '.join(untold)}." if untold else ""


def _not_used(left_out: Sequence[tuple[str, str]], what: str) -> str:
    """Return how many rows were not used, and why; empty if all were."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out:
        by_reason.setdefault(reason, []).append(name)
    told = [
        f"{'row' if len(names) == 1 else f'{len(names):,} rows such as'} {names[0]}: {reason}"
        for reason, names in by_reason.items()
    ]
    return f"Not used: {counted(len(left_out), what)}; {'; '.join(told)}." if told else ""


# ---- A chip --------------------------------------------------------------------------------------


def chip_said(found: Calibration, further: Sequence[Measurement]) -> Iterator[Said]:
    """Yield the factor, the constants, the rows furthest from the fit, and how far to trust it."""
    yield from usual(factor_sentence(found))
    if found.constants:
        factor = found.factor._replace(name="factor of the software")
        title = "factor and constants fitted together, with 80 % intervals"
        every = (factor, *found.constants)
        yield from quiet(constants_table(title, every, Shown("in the\nfile", _written, 1)))
    yield from quiet(rows_table(found))
    yield from usual(*sentences(found))
    yield from usual(software_sentence(found), *measurement_lines(further))


def _written(one: Constant) -> str:
    shared = one.name.startswith(SHARED)  # no constant of a chip
    return "--set" if shared else _amount(one.name, one.written)


def factor_sentence(found: Calibration) -> str:
    """Return by what factor the software is slower or faster than predicted."""
    one, machine, n, plans = found.alone, found.machine, len(found.rows), len(found.plans)
    rows = counted(n, "row") + (f" of {counted(plans, 'plan')}" if plans < n else "")
    said = (
        f"Steps of this software on {found.system} take {one.value:.3f} times as long as predicted "
        f"(80 % interval {one.low:.3f} to {one.high:.3f}), from {rows}."
    )
    if machine.constants:
        said += f" Predicted is by {machine.constants}, which has constants of its own."
    elif machine.like:
        said += (
            f" No run of {machine.base} took part in the model's fit: it starts from "
            f"the constants of {machine.like}, with ranges twice as wide."
        )
    return said


def rows_table(found: Calibration) -> PlainTable:
    """Return measured and predicted seconds of the rows that are furthest from the fit."""
    n = len(found.rows)
    few = f"the {MOST_SHOWN} of {n:,} rows furthest from the fit"
    before, after = np.exp(-np.asarray(found.before)), np.exp(-np.asarray(found.after))
    columns = [
        Shown("row", lambda i: _name(found.rows[i].name), 0, "left"),
        Shown("measured", lambda i: seconds(found.rows[i].measured)),
        Shown("predicted", lambda i: seconds(found.rows[i].measured / before[i])),
        Shown("measured /\npredicted", lambda i: f"{before[i]:,.4g}"),
        Shown("the same\nafter the fit", lambda i: f"{after[i]:,.4g}"),
    ]
    places = np.argsort(-np.abs(found.after), kind="stable")[:MOST_SHOWN]
    title = few if n > MOST_SHOWN else "rows, furthest from the fit first"
    return PlainTable(title).add_rows(columns, places)


def _name(name: str) -> str:
    return name if len(name) <= LONGEST else "..." + name[3 - LONGEST :]


def interval_lines(found: Calibration) -> Iterator[str]:
    """Yield the 80 % intervals that plans have with the file, by kind."""
    for kind, half in zip(REGIMES, found.own, strict=False):
        yield _trust(f"Plans of the kind {kind.words}", float(half), "the step time")
    if not any(float(half) for half in found.own):
        fewest = FEWEST_OF_ANOTHER_CHIP if found.machine.like else FEWEST
        yield (
            f"Fewer than {fewest} plans of a kind do not say how far to trust the fit: intervals "
            "stay as they are without it."
        )


def _trust(what: str, half: float, of: str) -> str:
    """Return the 80 % interval of a half width of logarithms; empty where there is none."""
    ends = f"{np.exp(-half):.2f} to {np.exp(half):.2f}"
    return f"{what}: {ends} times {of} in 80 % of runs." if half > 0.0 else ""


def sentences(found: Calibration) -> Iterator[str]:
    """Yield the errors before and after, with rows left out, and what the rows do not tell."""
    yield (
        f"Median error {_medians(found)}. A plan lies {100.0 * found.noise:.1f} % (one standard "
        "deviation) from the fit."
    )
    yield from interval_lines(found)
    if len(found.plans) == 1:
        yield "One plan cannot be left out: no error of rows that the fit has not seen."
    yield untold_sentence(found.untold)
    if len(found.plans) == MOST_PLANS:
        yield f"The fit takes at most {MOST_PLANS:,} plans, evenly from all; others were not read."
    yield _not_used(found.left_out, "row")


def software_sentence(found: Calibration) -> str:
    """Return of which date the software of the rows is, and how a question asks for it."""
    years = np.concatenate([np.ravel(group.inputs.software.year) for group in found.groups])
    said = " to ".join(f"{year:.5g}" for year in dict.fromkeys((years.min(), years.max())))
    said = (
        f"These rows are of software of {said}; a question, and a row, without software.year is "
        f"of {float(Framework().year):.5g}."
    )
    settings = " ".join(f"--set {one}" for one in found.asked)
    return f"{said} To ask as they ran: {settings}." if settings else said


def _medians(found: Fitted | Calibration) -> str:
    """Return the median errors before a fit, after it, and of rows that it had not seen."""
    errors = {"before the fit": found.before, "after": found.after}
    errors |= {"of rows that were left out": found.apart}
    known = {name: some for name, some in errors.items() if np.any(np.isfinite(some))}
    return ", ".join(f"{100.0 * median_error(some):.1f} % {n}" for n, some in known.items())


def measurement_lines(found: Sequence[Measurement]) -> Iterator[str]:
    """Yield the further runs that would teach most."""
    if found:
        yield "What a further measurement would teach:"
    for one in found:
        what = "the factor of the software" if one.constant == SOFTWARE else one.constant
        before, after = (f"{100.0 * DEVIATIONS_OF_80 * d:.1f} %" for d in (one.before, one.after))
        yield f"  row {one.row} with {one.change}: {what} from ± {before} to ± {after} at 80 %"


def chip_json(found: Calibration, further: Sequence[Measurement]) -> str:
    """Return what was fitted as one JSON object; errors in per cent."""
    errors = {"catalogue": found.before, "fit": found.after, "left_out": found.apart}
    plain: dict[str, Any] = {
        "system": found.system,
        "chip": found.machine.chip,
        "starts_from": found.machine.start,
        "plans": len(found.plans),
        "factor_alone": found.alone._asdict(),
        "factor": found.factor._asdict(),
        "constants": [one._asdict() for one in found.constants],
        "not_told": list(found.untold),
        "noise": found.noise,
        "asked_software": list(found.asked),
        "half_widths_80": found.own._asdict(),
        "rows": [one.name for one in found.rows],
        **{f"error_{name}_percent": _errors(values) for name, values in errors.items()},
        "not_used": [{"row_id": name, "reason": reason} for name, reason in found.left_out],
        "next_measurements": [one._asdict() for one in further],
        "chip_fields": found.fields,
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)


def _errors(values: np.ndarray) -> list[float | None]:
    errors = 100.0 * np.expm1(values)
    return [float(value) if np.isfinite(value) else None for value in errors]
