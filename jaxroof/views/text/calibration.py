"""Constants that were fitted to measured steps: a table, sentences, JSON."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jaxroof.catalog.chip import Chip
from jaxroof.records import units
from jaxroof.units import seconds
from jaxroof.validation.steps.calibration import Calibration, Constant
from jaxroof.validation.steps.calibration_problem import DEVIATIONS_OF_80, SOFTWARE
from jaxroof.validation.steps.next_measurement import Measurement
from jaxroof.views.text.layout import PlainTable
from jaxroof.views.text.tables import plain_table


def constants_table(found: Calibration) -> PlainTable:
    """Return one row per constant that the rows tell: catalogue, fit, 80 % interval."""
    table = plain_table("factor and constants fitted together, with 80 % intervals")
    table.add_column("constant", no_wrap=True)
    table.add_numbers("catalogue", "fitted", "low", "high")
    table.add_numbers("in the\nfile", optional=1)
    factor = found.factor._replace(name="factor of the software")
    for one in (factor, *found.constants):
        values = (one.catalogue, one.value, one.low, one.high, one.written)
        table.add_row(one.name, *(_shown(one, value) for value in values))
    return table


def _shown(one: Constant, value: float) -> str:
    unit = units(Chip).get(one.name, "1")
    return seconds(value) if unit == "s" else f"{value:.4g}"


def factor_sentence(found: Calibration) -> str:
    """Return by what factor the software is slower or faster than predicted."""
    one = found.alone
    n = len(found.rows)
    rows = "1 row" if n == 1 else f"{n} rows"
    return (
        f"Steps of this software on {found.system} take {one.value:.3f} times as long as predicted "
        f"(80 % interval {one.low:.3f} to {one.high:.3f}), from {rows}."
    )


def sentences(found: Calibration) -> Iterator[str]:
    """Yield the errors before and after, with rows left out, and what the rows do not tell."""
    errors = [("catalogue", found.before), ("fit", found.after), ("left-out rows", found.apart)]
    said = [f"{name} {_median(values)}" for name, values in errors if np.all(np.isfinite(values))]
    yield (
        f"Median error: {', '.join(said)}. A row lies {100.0 * found.noise:.1f} % (one standard "
        "deviation) from the fit."
    )
    if len(found.rows) == 1:
        yield "One row cannot be left out: no error of rows that the fit has not seen."
    if found.untold:
        yield f"Not told by these rows, left at the catalogue: {', '.join(found.untold)}."
    if found.left_out:
        yield f"Not used: {len(found.left_out)} rows; {'; '.join(_reasons(found))}."


def _median(values: np.ndarray) -> str:
    return f"{100.0 * float(np.median(np.abs(np.expm1(values)))):.1f} %"


def _reasons(found: Calibration) -> list[str]:
    """Return each reason with the number of its rows and the first one's name."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in found.left_out:
        by_reason.setdefault(reason, []).append(name)
    return [
        f"{len(names)} ({names[0]}{' ...' if len(names) > 1 else ''}): {reason}"
        for reason, names in by_reason.items()
    ]


def measurement_lines(found: Sequence[Measurement]) -> Iterator[str]:
    """Yield the further runs that would teach most."""
    if found:
        yield "What a further measurement would teach:"
    for one in found:
        what = "the factor of the software" if one.constant == SOFTWARE else one.constant
        yield (
            f"  {one.row} with {one.change}: {what} from ± {_half(one.before)} to "
            f"± {_half(one.after)} at 80 % ({one.information:.2f} bits in all)"
        )


def _half(deviation: float) -> str:
    return f"{100.0 * DEVIATIONS_OF_80 * deviation:.1f} %"


def calibration_json(found: Calibration, further: Sequence[Measurement]) -> str:
    """Return what was fitted as one JSON object; errors in per cent."""

    def percent(values: np.ndarray) -> list[float | None]:
        errors = 100.0 * np.expm1(values)
        return [float(value) if np.isfinite(value) else None for value in errors]

    plain: dict[str, Any] = {
        "system": found.system,
        "chip": found.chip,
        "factor_alone": found.alone._asdict(),
        "factor": found.factor._asdict(),
        "constants": [one._asdict() for one in found.constants],
        "not_told": list(found.untold),
        "noise": found.noise,
        "rows": [one.row.cells["row_id"] for one in found.rows],
        "error_catalogue_percent": percent(found.before),
        "error_fit_percent": percent(found.after),
        "error_left_out_percent": percent(found.apart),
        "not_used": [{"row_id": name, "reason": reason} for name, reason in found.left_out],
        "next_measurements": [one._asdict() for one in further],
        "chip_fields": found.fields,
    }
    return json.dumps(plain, indent=2, allow_nan=False, ensure_ascii=False)
