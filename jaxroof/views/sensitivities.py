"""How much utilisation, thresholds and the latency wall change with what they depend on."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.errors import refusal
from jaxroof.estimators.limits.study import Detail, LimitsInputs, LimitsRecipe, limits
from jaxroof.records import checked, field_at, get_at, replace_at
from jaxroof.views.limits import flop
from jaxroof.views.tables import plain_table

QUANTITIES = {  # results, and what a table calls them
    "relative_utilisation": "utilisation",
    "threshold_80": "80 % up to",
    "threshold_50": "50 % up to",
    "wall": "latency wall",
}
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
    inputs: LimitsInputs, *, parameters: Sequence[str] = PARAMETERS, change: float = 0.01
) -> xr.Dataset:
    """Return elasticities of utilisation, its thresholds and the wall, over results and parameters.

    Elasticity is d ln(result) / d ln(parameter), here twice: ``elasticity``, by derivative, holds
    for the split that is best; ``solved``, from solving again with the parameter lower and higher
    by ``change``, sees what jumps. A threshold jumps where another split takes its place, so that
    the two may differ. ``low`` and ``high`` are the results solved again. An exponent of 0 or a
    latency of 0 has elasticity 0.
    Raises: InputError for an unknown parameter (with the nearest), or a change that is none.
    """
    if not 0.0 < change < 1.0:
        raise refusal("change", f"expected a share between 0 and 1, given {change!r}")
    inputs, paths = checked(inputs), tuple(parameters)
    for path in paths:
        field_at(inputs, path)
    ones = np.ones(len(paths))
    rows = np.concatenate([ones[None], *(_moved(len(paths), s * change) for s in (-1.0, 1.0))])
    values = np.asarray(_solve(paths, inputs, rows)).T
    slopes = np.asarray(_slopes(paths, inputs, ones))
    here, low, high = values[0], values[1 : len(paths) + 1].T, values[len(paths) + 1 :].T
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
    coordinates = {"result": list(QUANTITIES), "parameter": list(paths)}
    return xr.Dataset(found, coordinates, {"estimator": limits.name, "change": change})


def _moved(count: int, change: float) -> np.ndarray:
    """Return factors of each parameter: a row each, where that parameter alone changes."""
    return np.ones((count, count)) + change * np.eye(count)


def _results(paths: Sequence[str], inputs: Any, factors: Any) -> tuple[jax.Array, ...]:
    for path, factor in zip(paths, factors, strict=True):
        inputs = replace_at(inputs, path, get_at(inputs, path) * factor)
    report = limits.evaluate(inputs, RECIPE)
    shape = jnp.shape(factors[0])
    return tuple(jnp.broadcast_to(getattr(report, name), shape) for name in QUANTITIES)


@functools.partial(jax.jit, static_argnums=0)
def _solve(paths: tuple[str, ...], inputs: Any, rows: Any) -> Any:
    return _results(paths, inputs, list(rows.T))


@functools.partial(jax.jit, static_argnums=0)
def _slopes(paths: tuple[str, ...], inputs: Any, ones: Any) -> Any:
    """Return the slope of each result in each factor."""
    return jax.jacfwd(lambda factors: _results(paths, inputs, list(factors)))(ones)


def sensitivity_table(data: xr.Dataset) -> Table:
    """Return the elasticities as a table: by derivative, and in brackets where solving differs."""
    table = plain_table("elasticity by derivative; in brackets solved again, where that differs")
    table.add_column("parameter")
    for name in data.result.values:
        table.add_column(f"{QUANTITIES[str(name)]}\n{_value(data, str(name))}", justify="right")
    for parameter in data.parameter.values:
        row = data.sel(parameter=parameter)
        table.add_row(str(parameter), *(_cell(row.sel(result=name)) for name in data.result.values))
    return table


def _value(data: xr.Dataset, name: str) -> str:
    value = float(data.value.sel(result=name))
    return f"{value:.1%}" if name == "relative_utilisation" else flop(value)


def _cell(one: xr.Dataset) -> str:
    slope, solved = float(one.elasticity), float(one.solved)
    if not np.isfinite(slope):
        return "-"
    said = f"{slope + 0.0:.2f}"
    if not np.isfinite(solved):
        return f"{said} (ends)"
    return said if abs(solved - slope) < 0.02 * max(1.0, abs(slope)) else f"{said} ({solved:.2f})"
