"""Settings: fields of the inputs by dotted path, and choices of the recipe by name."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof.errors import refusal, unknown
from jaxroof.records import checked_values, field_at, get_at, is_quantity, leaves, replace_at
from jaxroof.units import parse

Names = Mapping[str, Callable[[str], Any]]  # path of a record -> what reads one by name


def settle(
    inputs: Any, recipe: Any, settings: Mapping[str, Any], names: Names | None = None
) -> tuple[Any, Any]:
    """Return inputs and recipe with settings applied: fields of the recipe, or paths of the inputs.

    A text is read with the unit of its field, as the name of a structural choice, or as the name
    of a whole record.

    Raises: InputError for an unknown name (with the nearest), a wrong unit or a wrong choice.
    """
    choices = choices_of(recipe)
    for key, value in settings.items():
        if key in choices:
            recipe = dataclasses.replace(recipe, **{key: choice(recipe, key, value)})
            continue
        known = [f.name for f in dataclasses.fields(inputs)]
        if "." not in key and key not in known:
            inside = [path for path, _, _ in leaves(inputs) if path.rpartition(".")[2] == key]
            what = f"field of {type(inputs).__name__}"
            raise unknown("", key, what, inside or [*known, *choices])
        inputs = replace_at(inputs, key, _value(inputs, key, value, names or {}))
    return inputs, recipe


def choices_of(recipe: Any) -> list[str]:
    """Return the names of a recipe's structural choices."""
    return [f.name for f in dataclasses.fields(recipe)] if recipe is not None else []


def choice(recipe: Any, key: str, value: Any) -> Any:
    """Return a structural choice by name.

    Raises: InputError with the nearest name.
    """
    kind = type(getattr(recipe, key))
    if isinstance(value, kind) or not issubclass(kind, enum.Enum):
        return value
    members = {member.value: member for member in kind}
    if not isinstance(value, str) or value not in members:
        raise unknown(key, str(value), kind.__name__, members)
    return members[value]


def named_record(inputs: Any, path: str, value: Any, names: Names) -> Any:
    """Return a record, read by name where a text stands for it.

    Raises: InputError where there is neither a record nor a name of one.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return value
    if isinstance(value, str) and path in names:
        return names[path](value)
    given = f"a record, not a number, given {value!r}; {fields_of(inputs, path)}"
    raise refusal(path, given)


def fields_of(inputs: Any, path: str) -> str:
    """Return what could stand instead of a record's path."""
    held = get_at(inputs, path)
    names = [f.name for f in dataclasses.fields(held)] if held is not None else []
    return f"expected one of {', '.join(f'{path}.{name}' for name in names)}"


def _value(inputs: Any, path: str, value: Any, names: Names) -> Any:
    field = field_at(inputs, path)
    if not is_quantity(field):
        return named_record(inputs, path, value, names)
    if isinstance(value, str):
        value = parse(value, field.metadata["unit"], path)
    elif isinstance(value, list | tuple | Mapping):
        raise refusal(path, f"expected one number, given {value!r}; several make an axis")
    return checked_values(value, field, path)
