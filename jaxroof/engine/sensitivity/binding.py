"""Slopes where a limit binds: a field of the plan gives way, so a result stays at its bound."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.dual import slope_of
from jaxroof.engine.grid.dataset import attributes, field_metadata
from jaxroof.engine.grid.evaluate import place_best
from jaxroof.engine.grid.question import ask
from jaxroof.engine.sensitivity.derivatives import Numbers, slopes_of, with_slopes
from jaxroof.engine.sensitivity.elasticities import known_parameters
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Estimator, Limit
from jaxroof.records import get_at, replace_at

LARGEST = 1e30  # value of a field that is tried


def slopes_at_limit(
    estimator: Estimator,
    inputs: Any,
    recipe: Any = None,
    *,
    limit: str,
    field: str,
    of: str | None = None,
    parameters: Sequence[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the slopes of a result at a plan one of whose limits binds.

    dF/dx = F_x - F_b (r_x - R_x) / r_b,  dF/dR = F_b / r_b,  at the b where r(b) = R

    F is the result, r the limited one, R its bound, x a parameter and b a ``field`` of the plan,
    taken as a real number from the given plan on. Slopes at a fixed field are F_x, and 0 for the
    bound. Source: docs/models/serving.md, section 10.

    Arguments: ``limit`` names the limited result, ``of`` the result (default: the objective);
    ``parameters`` and ``settings`` are those of ``elasticities``. The inputs hold a plan.
    Returns: a Dataset over ``parameter`` with ``slope`` (the field fixed) and ``slope_held`` (the
    limit held), in units of the result by those of the parameter, and as elasticities; the
    ``price`` dF/dR, the result, the bound, and the real value of the field.
    Raises: InputError for an unknown limit, one without a bound, or a bound that is never met.
    """
    chosen = {**(settings or {}), **more}
    _, inputs, recipe, _ = ask(estimator, inputs, recipe, chosen)
    known = {one.result: one for one in estimator.limits}
    if limit not in known:
        raise unknown("limit", limit, "limit", known)
    if field not in estimator.plan_fields:
        raise unknown("field", field, "plan field", estimator.plan_fields)
    name, paths = of or estimator.objective, known_parameters(estimator, inputs, parameters)
    inputs = place_best(estimator, inputs, recipe)
    bound = float(known[limit].of(inputs))
    there = _at_bound(estimator, recipe, inputs, field, limit, bound)
    asked = Numbers(estimator, recipe, (name, limit))
    _, values, found = slopes_of(asked, there, (f"plan.{field}", *paths))
    (first, *own), (second, *result) = found[0]
    price = first / second
    held = own - price * (np.array(result) - _slopes_of_bound(known[limit], there, paths))
    scale = np.array([float(get_at(there, path)) for path in paths])
    about = field_metadata(estimator.evaluate(inputs, recipe), estimator.plan)
    with np.errstate(all="ignore"):
        columns = {
            "slope": (own / scale, "Slope, the field of the plan fixed"),
            "slope_held": (held / scale, "Slope, the limit held"),
            "elasticity": (own / values[0, 0], "Elasticity, the field of the plan fixed"),
            "elasticity_held": (held / values[0, 0], "Elasticity, the limit held"),
        }
    real, said = float(get_at(there, f"plan.{field}")), f"Real, so that {limit} is its bound"
    whole = {
        name: (values[0, 0], attributes(about[name])),
        field: (real, {**attributes(about[field]), "long_name": said}),
        "bound": (bound, attributes(about[limit])),
        "price": (price, {"long_name": f"Slope of {name} with the bound of {limit}"}),
    }
    return xr.Dataset(
        {n: ("parameter", v, {"long_name": said}) for n, (v, said) in columns.items()}
        | {n: ((), *some) for n, some in whole.items()},
        {"parameter": list(paths)},
        {"question": "slopes at a limit", "of": name, "limit": limit, "field": field},
    )


def _at_bound(
    estimator: Estimator, recipe: Any, inputs: Any, field: str, limit: str, bound: float
) -> Any:
    """Return inputs whose plan has a real number in a field, so that a result is its bound."""
    if not np.isfinite(bound):
        raise refusal(limit, "has no bound, so it cannot bind; expected one")
    path = f"plan.{field}"

    def at(value: float) -> float:
        asked = replace_at(inputs, path, np.float64(value))
        return float(getattr(estimator.evaluate(asked, recipe), limit))

    real = met_at(at, float(get_at(inputs, path)), bound)
    if real is None:
        raise refusal(path, f"no value makes {limit} its bound {bound:g}; expected another plan")
    return replace_at(inputs, path, np.float64(real))


def met_at(at: Callable[[float], float], start: float, bound: float) -> float | None:
    """Return where a result that rises, or falls, with a positive number is a bound; None if never.

    By halving, from the first doubling of the start that is beyond it.

    >>> met_at(lambda x: x * x, 1.0, 2.0)
    1.4142135623730951
    """
    sign = 1.0 if at(2.0 * start) > at(start) else -1.0
    low, high = 0.0, start
    while sign * (bound - at(high)) > 0.0:
        low, high = high, 2.0 * high
        if high > LARGEST:
            return None
    while low < (middle := (low + high) / 2.0) < high:
        below = sign * (bound - at(middle)) > 0.0
        low, high = (middle, high) if below else (low, middle)
        if high < 1.0 / LARGEST:
            return None
    return high


def _slopes_of_bound(limit: Limit, inputs: Any, paths: Sequence[str]) -> np.ndarray:
    """Return the slopes of a bound with the logarithms of parameters."""
    bare = dataclasses.replace(inputs, plan=None)
    bound = limit.of(with_slopes(bare, paths, np.eye(len(paths))))
    return np.broadcast_to(np.squeeze(slope_of(bound)), (len(paths),))
