"""What is believed of constants before a fit: ranges of those of a chip and of all chips.

Source: docs/models/training_step_today.md, section 2; docs/models/layers_2026.md, section 8.
"""

import math
from collections.abc import Sequence

import numpy as np

from jaxroof import catalog
from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.records import units
from jaxroof.units import parse

FULL = 1.0  # no rate exceeds that of the datasheet
UNBOUNDED = ("depth", "depth_fp8", "step")
SHARED = "shared."  # of the path of a constant of all chips, which is its name in a fit


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


def most(name: str) -> float:
    """Return the largest value of a constant: of a rate that of the datasheet."""
    if name.startswith(SHARED):
        fields = SharedConstants.__dataclass_fields__
        return float(fields[name.removeprefix(SHARED)].metadata["most"])
    return np.inf if name in UNBOUNDED else FULL


def shared_ranges() -> dict[str, tuple[float, float]]:
    """Return what is believed of constants of all chips: two deviations about what was thought.

    Source: docs/models/layers_2026.md, section 8.

    >>> low, high = shared_ranges()["shared.scatter_rate"]
    >>> round(low, 3), round(high, 3)
    (0.546, 1.484)
    """
    believed = catalog.describe("constants", "2026")["believed"]
    return {
        f"{SHARED}{name}": (centre * math.exp(-2.0 * by), centre * math.exp(2.0 * by))
        for name, (centre, by) in believed.items()
    }


def shared_constants(groups: Sequence[RowGroup]) -> list[str]:
    """Return the constants of all chips that some row depends on."""
    models, software = ([getattr(g.inputs, n) for g in groups] for n in ("model", "software"))
    recurrent = any(np.any(m.mamba_layers + m.delta_layers + m.kda_layers) for m in models)
    told = {
        f"{SHARED}scan": recurrent,
        f"{SHARED}attention_fp8": any(np.any(one.attention8) for one in software),
    }
    routed = any(np.any(one.experts) for one in models)
    return [name for name in shared_ranges() if told.get(name, routed)]
