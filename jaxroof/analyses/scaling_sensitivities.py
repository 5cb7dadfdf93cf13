"""Sensitivities of utilisation, its thresholds and the latency wall to their parameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.grid.question import ask
from jaxroof.engine.sensitivity.derivatives import Numbers, scale_parameters, slopes_of
from jaxroof.errors import refusal, shown
from jaxroof.estimators.scaling_limits.limits import Detail, LimitsInputs, LimitsRecipe, limits
from jaxroof.records import field_at

RESULTS = ("relative_utilisation", "threshold_80", "threshold_50", "wall")
PARAMETERS = (
    "scaling.batch_exponent",
    "scaling.depth_exponent",
    "longest_run",
    "system.network_bandwidth",
    "system.hbm_bandwidth",
    "system.matrix_flops",
    "step_latency",
    "width",
    "pod_size",
)
ASKED = Numbers(limits, LimitsRecipe(detail=Detail.THRESHOLDS), RESULTS)


def sensitivities(
    inputs: LimitsInputs | Mapping[str, Any],
    *,
    parameters: Sequence[str] = PARAMETERS,
    change: float = 0.01,
) -> xr.Dataset:
    """Return elasticities of utilisation, its thresholds and the wall, over results and parameters.

    ``inputs`` are those of ``limits``, or settings that make them, as in ``evaluate``.
    Elasticity is d ln(result) / d ln(parameter), computed in two ways. ``elasticity``, by
    derivative, holds for the split that is best. ``solved``, by solving again with the parameter
    lower and higher by ``change``, includes jumps. A threshold jumps where another split becomes
    best, so the two may differ. ``low`` and ``high`` are the results solved again. A parameter of
    value 0 (an exponent, a latency) has elasticity 0.
    """
    if not 0.0 < change < 1.0:
        raise refusal("change", f"expected a share between 0 and 1, given {shown(change)}")
    inputs, paths = ask(limits, inputs).inputs, tuple(parameters)
    for path in paths:
        field_at(inputs, path)
    each = np.eye(len(paths))
    factors = np.concatenate([np.ones((1, len(paths))), 1.0 - change * each, 1.0 + change * each])
    names, values, along = slopes_of(ASKED, scale_parameters(inputs, paths, factors), paths)
    order = [names.index(name) for name in RESULTS]  # a compiled program sorts them
    values, along = values[:, order], along[:, order]
    here, low, high = values[0], *np.split(values[1:].T, 2, axis=1)
    there, both = here[:, None] > 0.0, (low > 0.0) & (high > 0.0)
    ratio = np.where(both, high, 1.0) / np.where(both, low, 1.0)
    reach = np.log((1.0 + change) / (1.0 - change))
    dims, with_value = ("result", "parameter"), np.where(there, here[:, None], 1.0)
    found = {
        "value": (("result",), here),
        "elasticity": (dims, np.where(there, along[0] / with_value, np.nan)),
        "solved": (dims, np.where(both, np.log(ratio) / reach, np.nan)),
        "low": (dims, low),
        "high": (dims, high),
    }
    coordinates = {"result": list(RESULTS), "parameter": list(paths)}
    return xr.Dataset(found, coordinates, {"estimator": limits.name, "change": change})
