"""Settings of today's training by name: a dispatcher of experts, or a set of constants.

An entry of the catalogue lists the numbers that its name stands for.
Source: docs/models/layers_2026.md, sections 7 and 8.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.settings import Named, known_paths

KINDS = {"constants": "constants", "dispatcher": "dispatchers"}  # of the catalogue; later ones win
PARTS = ("software", "shared")  # of the inputs, of which an entry sets numbers
Tables = dict[str, dict[str, Any]]  # the axes: name -> path -> values


def numbers_named(key: str, name: Any) -> dict[str, float]:
    """Return the numbers that a name stands for, by path.

    Raises: InputError for an unknown name, with the nearest.

    >>> numbers_named("dispatcher", "hybridep")["software.flex"]
    1.0
    """
    kind = KINDS[key]
    name = f"{name:g}" if isinstance(name, int | float) else name  # a year
    if name not in catalog.names(kind):
        raise unknown(key, name, catalog.SINGULAR[kind], catalog.names(kind))
    entry = catalog.describe(kind, name)
    return {f"{part}.{n}": float(v) for part in PARTS for n, v in entry.get(part, {}).items()}


def with_numbers(settings: Mapping[str, Any], tables: Tables) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes with each name as the numbers it stands for.

    A number that is given by its own path stays as given. Where names vary along an axis, a number
    that one of them leaves open is there as without a name.
    Raises: InputError for an unknown name, or one that is given twice.
    """
    rest = {path: value for path, value in settings.items() if path not in KINDS}
    found: dict[str, Any] = {}
    for key in KINDS:
        if settings.get(key) is not None:
            found |= numbers_named(key, settings[key])
    fixed, made = {**found, **rest}, dict(tables)
    for axis, table in tables.items():
        for key in KINDS:
            if key not in table:
                continue
            if settings.get(key) is not None:
                raise refusal(key, "given beside the axes too; expected it once")
            made[axis] = {**made[axis], key: _along(key, table[key], fixed, rest)}
    return fixed, made


def without_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without names that memory does not hang on.

    Raises: InputError for an unknown name.
    """
    for key in KINDS:
        if settings.get(key) is not None:
            numbers_named(key, settings[key])
    return {path: value for path, value in settings.items() if path not in KINDS}


def _along(key: str, names: Any, fixed: Mapping[str, Any], rest: Mapping[str, Any]) -> Named:
    """Return an axis of names, with a column of each number that they stand for."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise refusal(key, f"expected a list of names, given {shown(names)}")
    labels = tuple(map(str, names))
    each, fields = [numbers_named(key, name) for name in labels], known_paths(TrainingInputs)
    paths = [path for path in dict.fromkeys(p for one in each for p in one) if path not in rest]
    without = {path: fixed.get(path, fields[path].default) for path in paths}
    return Named(labels, {path: [one.get(path, without[path]) for one in each] for path in paths})
