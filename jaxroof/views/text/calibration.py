"""Constants that were fitted to measured steps: a table, sentences, JSON."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.catalog.system import Library, Tier
from jaxroof.estimators.training.inputs import Framework
from jaxroof.estimators.training.interval import REGIMES, WITHIN_SOURCE
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
    outliers,
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
    errors = {"before the fit": found.before, "after": found.after}
    errors |= {"of rows that were left out": found.apart}
    said = [f"{_median(some)} {n}" for n, some in errors.items() if np.any(np.isfinite(some))]
    yield from usual(f"{found.words}: median error {', '.join(said)}.")
    if found.constants:
        yield from quiet(constants_table("constants with 80 % intervals", found.constants))
    yield from usual(untold_sentence(found.untold))
    for kind, half in found.own.items():
        ends = f"{np.exp(-half):.2f} to {np.exp(half):.2f}"
        trust = f"Servers of kind {kind}: {ends} times TPOT in 80 % of runs."
        yield from usual(trust * (half > 0.0))
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
    yield from usual(*outlier_lines(found), *sentences(found))
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


def outlier_lines(found: Calibration) -> Iterator[str]:
    """Yield the rows that lie so far from the others that they should be checked."""
    usual = float(np.exp(-np.median(found.before)))
    for place in outliers(found.before, WITHIN_SOURCE[0] / DEVIATIONS_OF_80):
        step, ratio = found.rows[place], float(np.exp(-found.before[place]))
        yield (
            f"Check row {_name(step.name)} (line {step.line}): it took {ratio:,.4g} times as long "
            f"as predicted, the others about {usual:.3g} times. It counts in the fit."
        )


def interval_lines(found: Calibration) -> Iterator[str]:
    """Yield the 80 % intervals that plans have with the file, by kind."""
    told = [(kind, float(w)) for kind, w in zip(REGIMES, found.own, strict=False) if float(w) > 0.0]
    for kind, width in told:
        ends = f"{np.exp(-width):.2f} to {np.exp(width):.2f}"
        yield f"Plans of the kind {kind.words}: {ends} times the step time in 80 % of runs."
    if not told:
        fewest = FEWEST_OF_ANOTHER_CHIP if found.machine.like else FEWEST
        yield (
            f"Fewer than {fewest} plans of a kind do not say how far to trust the fit: intervals "
            "stay as they are without it."
        )


def sentences(found: Calibration) -> Iterator[str]:
    """Yield the errors before and after, with rows left out, and what the rows do not tell."""
    errors = [("before the fit", found.before), ("after", found.after)]
    errors.append(("of rows left out", found.apart))
    said = [f"{name} {_median(values)}" for name, values in errors if np.all(np.isfinite(values))]
    yield (
        f"Median error: {', '.join(said)}. A plan lies {100.0 * found.noise:.1f} % (one standard "
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


def _median(values: np.ndarray) -> str:
    return f"{100.0 * median_error(values):.1f} %"


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
        "check": list(outlier_lines(found)),
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
