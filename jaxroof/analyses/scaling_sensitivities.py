"""Sensitivities of utilisation, its thresholds and the latency wall to their parameters."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from jaxroof.engine.grid.question import ask
from jaxroof.errors import refusal, shown
from jaxroof.estimators.scaling_limits.limits import Detail, LimitsInputs, LimitsRecipe, limits
from jaxroof.records import field_at, get_at, replace_at

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
RECIPE = LimitsRecipe(detail=Detail.THRESHOLDS)


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
    Raises: InputError for an unknown parameter (with the nearest), or an invalid ``change``.
    """
    if not 0.0 < change < 1.0:
        raise refusal("change", f"expected a share between 0 and 1, given {shown(change)}")
    inputs, paths = ask(limits, inputs).inputs, tuple(parameters)
    for path in paths:
        field_at(inputs, path)
    each, still = np.eye(len(paths)), np.zeros((len(paths), len(paths)))
    rows = np.concatenate([1.0 + move * each for move in (0.0, -change, change)])
    values, along = _solve(paths, inputs, rows, np.concatenate([each, still, still]))
    alone, low, high = np.split(np.asarray(values), 3, axis=1)
    here, slopes = alone[:, 0], np.asarray(along)[:, : len(paths)]
    reach = np.log((1.0 + change) / (1.0 - change))
    there = here[:, None] > 0.0
    safe = np.where(there, here[:, None], 1.0)
    both = (low > 0.0) & (high > 0.0)
    ratio = np.where(both, high, 1.0) / np.where(both, low, 1.0)
    dims = ("result", "parameter")
    found = {
        "value": (("result",), here),
        "elasticity": (dims, np.where(there, slopes / safe, np.nan)),
        "solved": (dims, np.where(both, np.log(ratio) / reach, np.nan)),
        "low": (dims, low),
        "high": (dims, high),
    }
    coordinates = {"result": list(RESULTS), "parameter": list(paths)}
    return xr.Dataset(found, coordinates, {"estimator": limits.name, "change": change})


@functools.partial(jax.jit, static_argnums=0)
def _solve(paths: tuple[str, ...], inputs: Any, rows: Any, ways: Any) -> tuple[Any, Any]:
    """Return all results, one column per row of factors, and their slopes along a direction.

    Rows run one after the other, as does the search behind a result: one program to compile.
    """

    def results(factors: Any) -> jax.Array:
        moved = inputs
        for number, path in enumerate(paths):
            moved = replace_at(moved, path, get_at(moved, path) * factors[number])
        report = limits.evaluate(moved, RECIPE)
        return jnp.stack([jnp.asarray(getattr(report, name)) for name in RESULTS])

    values, slopes = jax.lax.map(lambda row: jax.jvp(results, row[:1], row[1:]), (rows, ways))
    return values.T, slopes.T
