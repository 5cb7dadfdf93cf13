"""One question to one estimator, by name: settings in, a Dataset out."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from jaxroof.engine.axes import Asked
from jaxroof.engine.tabulate import tabulate
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.settings import begin, choice, choices_of


def evaluate(
    estimator: Estimator | str,
    settings: Mapping[str, Any] | None = None,
    /,
    axes: Asked | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return what an estimator answers to settings: dotted paths of its inputs, or its choices.

    Arguments: ``estimator`` itself or its name; ``settings`` and ``more`` are values, texts with
    units, or names of the catalogue; ``axes`` as in ``tabulate``.
    Raises: InputError for what is missing, unknown (with the nearest name) or out of range.
    """
    asked = named(estimator) if isinstance(estimator, str) else estimator
    inputs, recipe = asking(asked, {**(settings or {}), **more})
    return tabulate(asked, inputs, recipe, axes=axes)


def asking(estimator: Estimator, settings: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the inputs and the recipe that settings describe."""
    recipe, choices = estimator.recipe, choices_of(estimator.recipe)
    chosen = {key: choice(recipe, key, value) for key, value in settings.items() if key in choices}
    rest = {key: value for key, value in settings.items() if key not in choices}
    inputs = begin(estimator.inputs, rest, estimator.names)
    return inputs, (type(recipe)(**{**vars(recipe), **chosen}) if chosen else recipe)
