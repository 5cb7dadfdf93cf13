"""One layer of a training step, operation by operation."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.evaluate import settled
from jaxroof.engine.grid.dataset import dataset, field_metadata, provenance
from jaxroof.engine.grid.placement import place_best
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer_report import LayerReport, layer_reports
from jaxroof.estimators.published.step import published
from jaxroof.missing import naming_all
from jaxroof.records import units

WORDS = {  # of the study's operations, for people
    "fc1": "MLP up",
    "fc1-bias": "MLP up, bias",
    "act1": "MLP activation",
    "dpr1": "MLP dropout",
    "fc2": "MLP down",
    "fc2-bias": "MLP down, bias",
    "dpr2": "dropout after MLP",
    "ln1": "first layer norm",
    "qkv": "queries, keys, values",
    "fusedla": "fused attention",
    "logits": "attention scores",
    "dpr_at": "attention dropout",
    "attend": "attention over values",
    "vproj": "attention output",
    "vproj-bias": "attention output, bias",
    "dpr_v": "dropout after attention",
    "ln2": "second layer norm",
}


def layers(
    inputs: Inputs | Mapping[str, Any],
    recipe: Any = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return one row per operation of one layer and one microbatch, under the plan of the inputs.

    Arguments: ``inputs`` is a record with a plan, or settings that make one, as in ``evaluate``.
    If the plan has no placement, the fastest one for the step is used.
    Returns: a Dataset over ``operation`` of FLOP, bytes, messages and seconds in both directions
    and the bytes of saved activations.
    Raises: InputError for inputs without a plan, or out of range.
    """
    given, recipe = settled(published, inputs, recipe, {**(settings or {}), **more})
    with naming_all(published, given, recipe):
        given = place_best(published, given, recipe)
        reports = layer_reports(given, recipe)
    columns = {
        name: (("operation",), np.array([float(getattr(r, name)) for r in reports.values()]))
        for name in units(LayerReport)
    }
    attrs = provenance(published, given, recipe)
    result = dataset(columns, (), given, field_metadata(LayerReport), attrs)
    about = {"long_name": "Operation of a layer", "words": json.dumps(WORDS)}
    return result.assign_coords(operation=("operation", list(reports), about))
