"""Evaluate an estimator, given by name: settings in, a Dataset out."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from jaxroof.engine.grid.axes import AxisValues, read_axes
from jaxroof.engine.grid.effective import check_effective
from jaxroof.engine.grid.given_axes import expanded, paths_of, values_of
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator as named
from jaxroof.records import checked
from jaxroof.settings import (
    build_inputs,
    choices_of,
    choose,
    group_sizes,
    no_field,
    read_names,
    refuse_other_name,
)
from jaxroof.settings import paths_of as fields_of
from jaxroof.shorthand import by_path


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
    chosen = {**(settings or {}), **more}
    for key, value in chosen.items():
        if getattr(value, "shape", ()):
            shape = "x".join(map(str, value.shape))
            raise refusal(key, f"expected one number, given {shape} of them; several make an axis")
    chosen, axes = expanded(asked, plan_paths(asked, chosen), axes)
    inputs, recipe = resolve_settings(asked, chosen, axes)
    check_effective(asked, inputs, recipe, chosen)
    read = read_axes(inputs, axes, recipe, asked.names, chosen)
    return tabulate(asked, inputs, recipe, axes=read)


def plan_paths(estimator: Estimator, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings in which fields of the plan may stand alone, by their long or short names.

    Raises: InputError for a field that is given twice, by two names.

    >>> plan_paths(named("training"), {"tp": 8, "pipeline": 4, "gpus": 32})
    {'plan.tensor': 8, 'plan.pipeline': 4, 'gpus': 32}
    """
    fields = {name: f"plan.{name}" for name in estimator.plan_fields}
    fields |= {short: f"plan.{name}" for short, name in estimator.short_names.items()}
    others = {*dict(fields_of(estimator.inputs)), *choices_of(estimator.recipe)}
    return by_path({n: path for n, path in fields.items() if n not in others}, settings)


def settled(
    estimator: Estimator,
    inputs: Any,
    recipe: Any,
    settings: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Return checked inputs and the recipe of a record, or of settings, with settings applied.

    Raises: InputError for settings that are missing, unknown (with the nearest) or out of range.
    """
    if isinstance(inputs, Mapping):
        given = vars(recipe) if recipe is not None else {}
        begun, choices = resolve_settings(estimator, {**given, **inputs, **settings})
    else:
        begun, choices, _ = estimator.resolve(inputs, recipe, settings)
    return checked(begun), choices


def resolve_settings(
    estimator: Estimator, settings: Mapping[str, Any], axes: AxisValues | None = None
) -> tuple[Any, Any]:
    """Return the inputs and the recipe that settings describe; values on an axis may be missing.

    A number may be a column of numbers. Recipe choices that come with a named record apply where
    the settings do not set them.

    Raises: InputError for settings that are missing, unknown (with the nearest) or out of range.
    """
    settings = by_path(estimator.shorthand, settings)
    choices = choices_of(estimator.recipe)
    chosen = {key: value for key, value in settings.items() if key in choices}
    recipe = choose(estimator.recipe, chosen)
    rest = {key: value for key, value in settings.items() if key not in choices}
    moving = values_of(axes)
    for key in estimator.names:
        values = moving.get(key)
        there = any(path == key or path.startswith(f"{key}.") for path in rest)
        if isinstance(values, list | tuple) and len(values) > 0 and not there:
            rest[key] = values[0]
    fields = dict(fields_of(estimator.inputs))
    told = [*choices, *sorted(fields, key=lambda path: path.count("."))]
    for key in [*moving, *rest]:
        if (
            key not in fields
            and key not in choices
            and (key in moving or not group_sizes(estimator.inputs, key))
        ):
            refuse_other_name(estimator.recipe, key)
            raise no_field(estimator.inputs, key, told)
    varied = paths_of(axes)
    rest, recipe = read_names(rest, recipe, estimator.names, chosen, varied)
    inputs = build_inputs(estimator.inputs, rest, estimator.names, moved=varied)
    return inputs, recipe
