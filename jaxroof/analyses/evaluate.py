"""Evaluate an estimator, given by name: settings in, a Dataset out."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from jaxroof.engine.grid.axes import AxisValues
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named


def evaluate(
    estimator: Estimator | str,
    settings: Mapping[str, Any] | None = None,
    *,
    axes: AxisValues | None = None,
    **more: Any,
) -> xr.Dataset:
    """Evaluate an estimator at settings: dotted paths of its inputs, or choices of its recipe.

    Arguments: ``estimator`` itself or its name; ``settings`` and ``more`` are values, texts with
    units, or names from the catalogue; ``axes`` as in ``tabulate``.
    Raises: InputError for settings that are missing, unknown (with the nearest) or out of range.
    """
    asked = named(estimator) if isinstance(estimator, str) else estimator
    return tabulate(asked, None, axes=axes, settings={**(settings or {}), **more})
