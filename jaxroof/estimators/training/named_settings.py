"""Settings of today's training by name: a dispatcher of experts, a set of constants, a fabric.

An entry of the catalogue lists the numbers that its name stands for.
Source: docs/models/layers_2026.md, sections 7 and 8; docs/models/networks.md, section 8.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.fabrics import with_fabric
from jaxroof.catalog.system import System
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.settings import Named, known_paths

KINDS = {"constants": "constants", "dispatcher": "dispatchers"}  # of the catalogue; later ones win
FABRIC = "fabric"
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
    labels = _listed(key, names)
    each, fields = [numbers_named(key, name) for name in labels], known_paths(TrainingInputs)
    paths = [path for path in dict.fromkeys(p for one in each for p in one) if path not in rest]
    without = {path: fixed.get(path, fields[path].default) for path in paths}
    return Named(labels, {path: [one.get(path, without[path]) for one in each] for path in paths})


def _listed(key: str, names: Any) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Iterable) or not [*names]:
        raise refusal(key, f"expected a list of names, given {shown(names)}")
    return tuple(map(str, names))


def with_fabrics(
    settings: Mapping[str, Any], tables: Tables, machine: Any, read: Callable[[Any], System]
) -> tuple[dict[str, Any], Tables]:
    """Return settings and axes with each fabric as the system on it; ``read`` reads a system.

    Raises: InputError for an unknown name, one beside several systems, or given twice.
    """
    settings, tables = _alike(settings, tables, read)
    asked, rest = settings.get(FABRIC), {k: v for k, v in settings.items() if k != FABRIC}
    axis = next((axis for axis, table in tables.items() if FABRIC in table), None)
    if asked is None and axis is None:
        return rest, tables
    if asked is not None and axis is not None:
        raise refusal(FABRIC, "given beside the axes too; expected it once")
    if any("system" in table for table in tables.values()) or machine is None:
        raise refusal(FABRIC, "several systems, or none; expected one system beside it")
    plain = machine if isinstance(machine, System) else read(machine)
    if axis is None:
        return {**rest, "system": with_fabric(plain, asked)}, tables
    names = _listed(FABRIC, tables[axis][FABRIC])
    moved = {key: value for key, value in tables[axis].items() if key != FABRIC}
    moved["system"] = {name: with_fabric(plain, name) for name in names}
    return {**rest, "system": moved["system"][names[0]]}, {**tables, axis: moved}


def _alike(
    settings: Mapping[str, Any], tables: Tables, read: Callable[[Any], System]
) -> tuple[Mapping[str, Any], Tables]:
    """Return settings and axes in which systems beside others on tiers have their two as tiers."""
    for axis, table in tables.items():
        given = table.get("system", ())
        every = dict(given) if isinstance(given, Mapping) else {str(one): one for one in given}
        on_tiers = [_on_tiers(one) for one in every.values()]
        if any(on_tiers) and not all(on_tiers):
            found = {k: one if isinstance(one, System) else read(one) for k, one in every.items()}
            found = {
                k: one if one.tiers is not None else with_fabric(one, None, [{}, {}])
                for k, one in found.items()
            }
            settings = {**settings, "system": next(iter(found.values()))}
            tables = {**tables, axis: {**table, "system": found}}
    return settings, tables


def _on_tiers(system: Any) -> bool:
    """Return whether a system has tiers: a record, or a name of the catalogue or a file."""
    if isinstance(system, str | os.PathLike | catalog.Table):
        return bool({"fabric", "tiers"} & {*catalog.describe("systems", system)})  # type: ignore[arg-type]
    return isinstance(system, System) and system.tiers is not None
