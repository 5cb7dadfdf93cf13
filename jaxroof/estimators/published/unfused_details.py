"""One layer without fusion, operator by operator."""

from typing import Any

import numpy as np

from jaxroof.estimator import Column, Detail, Rows
from jaxroof.estimators.published.unfused import BLOCK_NAMES, Inputs, Operator, Recipe, blocks
from jaxroof.records import units

FLAGS = ("there_forward", "there_backward", "fast")
DIM = ("operation",)


def layer_rows(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return the operators of both blocks; a message or a group that is not there is missing."""
    found = blocks(inputs, recipe)
    rows = [one for name in BLOCK_NAMES for one in found[name]]
    numbers: dict[str, Any] = {
        name: np.array([float(getattr(one, name)) for one in rows]) for name in units(Operator)
    }
    there = {way: numbers[f"there_{way}"] > 0.0 for way in ("forward", "backward")}
    either, columns = there["forward"] | there["backward"], {}
    for way, sent in there.items():
        numbers[f"message_{way}"] = np.where(sent, numbers[f"message_{way}"], np.nan)
        collectives = [getattr(one, f"collective_{way}") for one in rows]
        columns[f"communication_{way}"] = np.where(sent, collectives, "")
    numbers["group"] = np.where(either, numbers["group"], -1.0).astype(np.int64)
    columns["topology"] = np.where(either, np.where(numbers["fast"] > 0.0, "nvlink", "ib"), "")
    names = [one.name for one in rows]
    block = [name for name in BLOCK_NAMES for _ in found[name]]
    texts = {"operation": names, "block": block, **columns}
    return Rows(
        {
            **{n: Column(values, DIM) for n, values in numbers.items() if n not in FLAGS},
            **{n: Column(values, DIM, {}, label=True) for n, values in texts.items()},
        },
        {"picture": "unfused_bars"},
    )


DETAILS = {"layers": Detail(layer_rows, (Operator,), one_by_one=True)}
