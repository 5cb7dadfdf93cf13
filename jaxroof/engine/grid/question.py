"""The question: whatever was typed, by any road, becomes checked inputs, a recipe and axes here.

Flags, a sweep file, a row of a table, the state of the page and the attributes of a stored file are
spellings of settings and axes. What is checked here is not checked again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from jaxroof.engine.grid.axes import (
    Axis,
    AxisValues,
    check_orders,
    fill_from_axes,
    paths_of,
    read_axes,
    tables_of,
    values_of,
)
from jaxroof.engine.grid.dependencies import check_effective
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.records import checked
from jaxroof.settings import (
    apply_settings,
    by_path,
    choices_of,
    known_paths,
    no_field,
    refuse_other_name,
)


class Question(NamedTuple):
    """A checked question: every number of the inputs is in its range, every axis has been read."""

    estimator: Estimator
    inputs: Any
    recipe: Any
    axes: Sequence[Axis] = ()


def ask(
    estimator: Estimator,
    inputs: Any = None,
    recipe: Any = None,
    settings: Mapping[str, Any] | None = None,
    axes: AxisValues | None = None,
    whole: bool = False,
) -> Question:
    """Return the checked question that settings and axes ask of an estimator.

    Arguments: ``inputs`` is a record that the settings change, or settings; without it the record
    is made of the settings, and numbers on an axis may be missing. A question comes back as it is.
    ``settings`` are fields of the inputs by path or by short name, records of the catalogue by
    name, and choices of the recipe; those that are None count as not given. Choices that come
    with a record apply where neither settings nor a recipe make them. ``whole`` says that the
    settings are all of the inputs, also those that no result depends on, as a stored file has them.
    """
    if isinstance(inputs, Question):
        if not settings and axes is None:
            return inputs
        inputs, recipe, axes = inputs.inputs, inputs.recipe, inputs.axes if axes is None else axes
    if isinstance(inputs, Mapping):
        settings, inputs = {**inputs, **(settings or {})}, None
    for key, value in (settings or {}).items():
        if getattr(value, "shape", ()):
            shape = "x".join(map(str, value.shape))
            raise refusal(key, f"expected one number, given {shape} of them; several make an axis")
    found, recipe, axes, given = resolve(estimator, inputs, recipe, settings, axes, whole)
    found = checked(found)
    read = read_axes(found, axes, recipe, estimator.names, given)
    filled = fill_from_axes(found, read)
    check_orders(filled, read)
    if estimator.check is not None:
        estimator.check(filled, recipe)
    return Question(estimator, filled, recipe, read)


def check_no_plan(estimator: Estimator, axes: AxisValues | None) -> None:
    """Check that no axis of a search is over the plan."""
    for path in sorted(paths_of(axes)):
        if path.partition(".")[0] == "plan" and path in known_paths(estimator.inputs):
            raise refusal(path, "the search chooses the plan; constrain it with where, or tabulate")


def resolve(
    estimator: Estimator,
    inputs: Any = None,
    recipe: Any = None,
    settings: Mapping[str, Any] | None = None,
    axes: AxisValues | None = None,
    whole: bool = False,
) -> tuple[Any, Any, AxisValues | None, set[str]]:
    """Return inputs, recipe and axes as ``ask`` has them, unread, and the names that were given.

    A number of the settings may be a column of numbers here.
    """
    settings = dict(settings or {})
    if isinstance(inputs, Mapping):
        settings, inputs = {**inputs, **settings}, None
    settings = {key: value for key, value in settings.items() if value is not None}
    chosen, axes = expanded(estimator, settings, axes, inputs)
    moved, given = paths_of(axes), {*chosen, *choices_of(recipe)}
    kind: Any = estimator.inputs
    _check_axes(estimator, axes)
    if inputs is None:
        chosen = _with_first(estimator, chosen, axes)
    elif not all(hasattr(inputs, name) for name in getattr(kind, "__dataclass_fields__", ())):
        said, expected = (f"{k.__module__}.{k.__qualname__}" for k in (type(inputs), kind))
        who = estimator.name or "estimator"
        raise refusal(who, f"inputs: a {said}; expected a {expected}")
    recipe = estimator.recipe_of(inputs, recipe, chosen)
    made = apply_settings(inputs, recipe, chosen, estimator.names, given, moved, kind)
    asked = moved if isinstance(axes, Mapping) else {p for axis in axes or () for p in axis.paths}
    if not whole:
        check_effective(estimator, *made, [*chosen, *sorted(asked)])
    return *made, axes, given


def expanded(
    estimator: Estimator, settings: Mapping[str, Any], axes: Any, inputs: Any = None
) -> tuple[dict[str, Any], Any]:
    """Return settings and axes with every short name as what it stands for."""
    found, tables = long_names(estimator, settings), tables_of(axes)
    tables = {
        estimator.shorthand.get(key, key): by_path(estimator.shorthand, moved)
        for key, moved in tables.items()
    }
    if estimator.expand is not None:
        machine = found.get(estimator.machine, getattr(inputs, estimator.machine, None))
        found, tables = estimator.expand(found, tables, machine)
    if not isinstance(axes, Mapping):
        return found, axes
    return found, {k: v[k] if {*v} == {k} else v for k, v in tables.items()}


def long_names(estimator: Estimator, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their paths; fields of the plan and others may have short names.

    >>> from jaxroof.estimators import estimator
    >>> long_names(estimator("training"), {"tp": 8, "pipeline": 4, "gpus": 32, "sequence": 1024})
    {'plan.tensor': 8, 'plan.pipeline': 4, 'gpus': 32, 'model.sequence': 1024}
    """
    fields = {name: f"plan.{name}" for name in estimator.plan_fields}
    fields |= {short: f"plan.{name}" for short, name in estimator.short_names.items()}
    known = {*known_paths(estimator.inputs), *choices_of(estimator.recipe)}
    short = {name: path for name, path in fields.items() if name not in known}
    return by_path({**short, **estimator.shorthand}, settings)


def _check_axes(estimator: Estimator, axes: Any) -> None:
    """Check that every path that the axes vary is a field of the inputs or a choice."""
    fields, choices = known_paths(estimator.inputs), choices_of(estimator.recipe)
    for key in values_of(axes):
        if key not in fields and key not in choices:
            refuse_other_name(estimator.recipe, key)
            raise no_field(estimator.inputs, key, [*choices, *fields])


def _with_first(estimator: Estimator, settings: Mapping[str, Any], axes: Any) -> dict[str, Any]:
    """Return settings with the first record of each axis of names."""
    moving, found = values_of(axes), dict(settings)
    for key in estimator.names:
        values = moving.get(key)
        there = any(path == key or path.startswith(f"{key}.") for path in settings)
        if isinstance(values, list | tuple) and len(values) > 0 and not there:
            found[key] = values[0]
    return found
