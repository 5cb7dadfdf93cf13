"""A calibrated chip as a file of the user's, in the form of the catalogue."""

from collections.abc import Iterator

import numpy as np

from jaxroof.validation.steps.calibration import Calibration


def chip_lines(found: Calibration, rows: str) -> Iterator[str]:
    """Yield the lines of a TOML file: a chip of the catalogue with some constants changed."""
    factor = found.factor
    yield f"# Constants fitted by jaxroof calibrate to {len(found.rows)} measured steps of {rows},"
    yield f"# on {found.system}. Steps of this software take {factor.value:.4g} times as long as"
    yield f"# the catalogue predicts (80 %: {factor.low:.4g} to {factor.high:.4g}): rates of the chip"
    yield "# are divided by the factor, the time once a step is multiplied by it."
    for one in found.constants:
        yield (
            f"# {one.name}, before the factor: {one.value:.4g} (80 %: {one.low:.4g} to "
            f"{one.high:.4g}; catalogue {one.catalogue:.4g})."
        )
    after = 100.0 * float(np.median(np.abs(np.expm1(found.after))))
    yield f"# Median error on these rows: {after:.1f} %."
    yield f'base = "{found.chip}"'
    yield f'title = "{found.chip}, calibrated on {len(found.rows)} measured steps"'
    yield 'source = "jaxroof calibrate"'
    for name, value in found.fields.items():
        yield f"{name} = {value!r}"
