"""Records without their numbers, and functions of every number of a record or a report."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from jaxroof.records import is_quantity, members


class Structure(NamedTuple):
    """Which numbers a record gives, without their values."""

    kind: type[Any]
    fields: tuple[tuple[str, "Structure | bool"], ...]  # False where nothing is given

    def build(self, values: Iterable[Any]) -> Any:
        """Return the record that has the values, in the order of ``leaves``."""
        left = iter(values)

        def made(part: "Structure | bool") -> Any:
            if isinstance(part, Structure):
                if part.kind is tuple:
                    return tuple(made(inner) for _, inner in part.fields)
                return part.kind(**{name: made(inner) for name, inner in part.fields})
            return next(left) if part else None

        return made(self)


def structure(tree: Any) -> Structure:
    """Return which numbers a record gives; equal structures have the same paths in ``leaves``."""

    def part(field: "dataclasses.Field[Any]", value: Any) -> Structure | bool:
        return value is not None if is_quantity(field) or value is None else structure(value)

    return Structure(type(tree), tuple((name, part(*own)) for name, *own in members(tree)))


def map_numbers(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a record, tuple, list or mapping with a function applied to each of its numbers.

    >>> map_numbers(lambda value: value + 1.0, {"time": 1.0, "absent": None})
    {'time': 2.0, 'absent': None}
    """
    if tree is None:
        return None
    if isinstance(tree, Mapping):
        return {name: map_numbers(function, value) for name, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(map_numbers(function, value) for value in tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map_numbers(function, value) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree)]
        changed = {name: map_numbers(function, getattr(tree, name)) for name in names}
        return dataclasses.replace(tree, **changed)
    return function(tree)


def results(report: Any) -> dict[str, Any]:
    """Return the results of an estimator's report (a record, a mapping or one array) by name.

    What a record lacks, whose value is None, is no result.
    """
    if dataclasses.is_dataclass(report):
        named = {f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
        return {name: value for name, value in named.items() if value is not None}
    if isinstance(report, Mapping):
        return {name: report[name] for name in sorted(report)}  # as JAX returns a mapping
    return {"value": report}
