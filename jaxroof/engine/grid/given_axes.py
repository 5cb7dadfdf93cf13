"""Axes as they are given: which paths they vary, and short names as what they stand for.

An axis is given as values of a path, or as a mapping of several paths whose values vary together.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from jaxroof.engine.grid.effective import check_effective
from jaxroof.engine.grid.spacing import Between, Spacing
from jaxroof.settings import is_pair
from jaxroof.shorthand import Named, by_path


def expanded(
    estimator: Any,
    settings: Mapping[str, Any],
    axes: Any,
    inputs: Any = None,
    machine: Any = None,
) -> tuple[dict[str, Any], Any]:
    """Return settings and axes of a question with every short name as what it stands for.

    Arguments: ``inputs`` are what the settings change; without them ``machine`` is the machine, a
    record or a name, where the settings do not give it.
    Raises: InputError for a field that is given twice, by two names.
    """
    found, tables = by_path(estimator.shorthand, settings), tables_of(axes)
    tables = {
        estimator.shorthand.get(key, key): by_path(estimator.shorthand, moved)
        for key, moved in tables.items()
    }
    if estimator.expand is not None:
        machine = found.get(estimator.machine, getattr(inputs, estimator.machine, machine))
        found, tables = estimator.expand(found, tables, machine)
    if not isinstance(axes, Mapping):
        return found, axes
    return found, {k: v[k] if {*v} == {k} else v for k, v in tables.items()}


def resolved(
    estimator: Any, inputs: Any, recipe: Any, settings: Mapping[str, Any], axes: Any = None
) -> tuple[Any, Any, set[str], Any]:
    """Return the inputs and the recipe of a question, the names given explicitly, and its axes.

    Every short name of the settings and the axes is replaced by what it stands for.
    Raises: InputError for an unknown name (with the nearest), a wrong unit or a wrong choice, and
    for a field that no result depends on.
    """
    chosen, axes = expanded(estimator, settings, axes, inputs)
    moved = paths_of(axes)
    inputs, recipe, given = estimator.resolve(inputs, recipe, chosen, moved)
    asked = moved if isinstance(axes, Mapping) else {p for axis in axes or () for p in axis.paths}
    check_effective(estimator, inputs, recipe, [*chosen, *sorted(asked)])
    return inputs, recipe, given, axes


def tables_of(axes: Any) -> dict[str, dict[str, Any]]:
    """Return the paths of each axis with their values; an axis of one path is a table of one.

    >>> tables_of({"gpus": [8, 16], "case": {"system": ["a", "b"]}})
    {'gpus': {'gpus': [8, 16]}, 'case': {'system': ['a', 'b']}}
    """
    given = axes if isinstance(axes, Mapping) else {}
    return {
        key: dict(values)
        if isinstance(values, Mapping) and not are_labels(values)
        else {key: values}
        for key, values in given.items()
    }


def paths_of(axes: Any) -> set[str]:
    """Return every path that the axes vary, and every new name among their keys."""
    if not isinstance(axes, Mapping):
        return {path for axis in axes or () for path in axis.values}
    found = set(axes)
    for values in tables_of(axes).values():
        found |= {*values, *(p for v in values.values() if isinstance(v, Named) for p in v.columns)}
    return found


def values_of(axes: Any) -> dict[str, Any]:
    """Return the values of each path, including paths that vary together."""
    found: dict[str, Any] = {}
    for table in tables_of(axes).values():
        for path, values in table.items():
            found |= values.columns if isinstance(values, Named) else {path: values}
    return found


def are_labels(values: Mapping[str, Any]) -> bool:
    """Return whether a mapping is from labels to records rather than from paths to values."""
    return (
        bool(values)
        and all(dataclasses.is_dataclass(v) or is_pair(v) for v in values.values())
        and not any(isinstance(v, Spacing | Between) for v in values.values())
    )
