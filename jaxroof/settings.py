"""Settings: fields of the inputs by dotted path, and choices of the recipe by name."""

import dataclasses
import enum
import functools
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from jaxroof.errors import InputError, refusal, shown, spelled, unknown
from jaxroof.records import (
    checked_values,
    field_at,
    get_at,
    is_quantity,
    leaves,
    number_of,
    record,
    replace_at,
)

# path of a record -> function that reads it by name; it returns the record, or (record, choices)
# with choices of the recipe that come with the record, such as {"attention": "unfused"}
Names = Mapping[str, Callable[[str], Any]]
_hints: Callable[[Any], dict[str, Any]] = functools.cache(typing.get_type_hints)


def apply_settings(
    inputs: Any,
    recipe: Any,
    settings: Mapping[str, Any],
    names: Names | None = None,
    given: Collection[str] = (),
    varied: Collection[str] = (),
) -> tuple[Any, Any]:
    """Return inputs and recipe with settings applied; a key is a choice or a path of the inputs.

    A text is read as a number with the unit of its field, as a structural choice, or as the name of
    a whole record. Choices that come with a record apply unless they are in ``settings`` or in
    ``given``, or the record is at one of the paths ``varied`` by axes.

    Raises: InputError for an unknown name (with the nearest), a wrong unit or a wrong choice.
    """
    settings, recipe = read_names(settings, recipe, names or {}, given, varied)
    choices = choices_of(recipe)
    for key, value in _in_order(type(inputs), settings).items():
        if key in choices:
            recipe = choose(recipe, {key: value})
            continue
        known = [f.name for f in dataclasses.fields(inputs)]
        if "." not in key and key not in known and not group_sizes(type(inputs), key):
            inside = [path for path, _, _ in leaves(inputs) if path.rpartition(".")[2] == key]
            what = f"field of {type(inputs).__name__}"
            raise unknown("", key, what, inside or [*known, *choices])
        inputs = _replaced(inputs, key, key, value, settings)
    _check_needs(inputs, settings, varied)
    return inputs, recipe


def _check_needs(inputs: Any, paths: Collection[str], varied: Collection[str]) -> None:
    """Check that no number is set which is without effect while another is 0.

    Raises: InputError that names both.
    """
    fixed = {*paths} - {*varied}
    for path, field, value in leaves(inputs) if dataclasses.is_dataclass(inputs) else ():
        if path in fixed and field.metadata["needs"] and np.any(value):
            other = ".".join([*path.split(".")[:-1], field.metadata["needs"]])
            if other not in varied and not np.any(get_at(inputs, other)):
                said = f"{float(np.max(value)):.12g}, without effect while {other} is 0"
                meaning = field_at(inputs, other).metadata["doc"][:-1].lower()
                raise refusal(path, f"{said}; expected also {other}, {meaning}")


def read_names(
    settings: Mapping[str, Any],
    recipe: Any,
    names: Names,
    given: Collection[str] = (),
    varied: Collection[str] = (),
) -> tuple[dict[str, Any], Any]:
    """Return settings with named records read, and the recipe with the records' choices.

    Raises: InputError for an unknown name (with the nearest), or a choice the recipe lacks.
    """
    found = dict(settings)
    for path in names:
        value = found.get(path)
        if isinstance(value, str) or is_pair(value) or carried(value):
            found[path], chosen = named_record(path, value, names, "")
            if carried(value):  # what other estimators ask of a record is not asked here
                chosen = {key: chosen[key] for key in chosen if key in choices_of(recipe)}
            brought = choices_brought(path, recipe, chosen, {*settings, *given})
            recipe = recipe if path in varied else choose(recipe, brought)
    return found, recipe


def choices_brought(
    path: str, recipe: Any, chosen: Mapping[str, Any], given: Collection[str] = ()
) -> dict[str, Any]:
    """Return the choices of a recipe that come with a record, except those in ``given``.

    Raises: InputError for a choice that the recipe lacks (with the nearest), or a wrong value.
    """
    known = choices_of(recipe)
    for key in chosen:
        if key not in known:
            raise unknown(path, key, "choice of this estimator", known)
    try:
        members = {key: choice(recipe, key, value) for key, value in chosen.items()}
    except InputError as error:
        raise refusal(path, str(error)) from None
    return {key: member for key, member in members.items() if key not in given}


def choices_of(recipe: Any) -> list[str]:
    """Return the names of a recipe's structural choices."""
    return [f.name for f in dataclasses.fields(recipe)] if recipe is not None else []


def choose(recipe: Any, chosen: Mapping[str, Any]) -> Any:
    """Return a recipe with choices set by name.

    Raises: InputError for a value that a choice does not have, with the nearest.
    """
    made = {key: choice(recipe, key, value) for key, value in chosen.items()}
    return dataclasses.replace(recipe, **made) if made else recipe


def variants(recipe: Any) -> Iterator[Any]:
    """Yield a recipe, then every recipe that differs from it in one choice."""
    yield recipe
    for key in choices_of(recipe):
        held = getattr(recipe, key)
        for member in type(held) if isinstance(held, enum.Enum) else ():
            if member is not held:
                yield dataclasses.replace(recipe, **{key: member})


def choice(recipe: Any, key: str, value: Any) -> Any:
    """Return the value of a structural choice from its name.

    Raises: InputError with the nearest name.
    """
    kind = kind_of_choice(recipe, key)
    if isinstance(value, kind) or not issubclass(kind, enum.Enum):
        return value
    if value is None and getattr(recipe, key) is None:  # left open
        return value
    members = {member.value: member for member in kind}
    name = spelled(value, members) if isinstance(value, str) else shown(value)
    if name in members:
        return members[name]
    elsewhere = getattr(kind, "ELSEWHERE", {})
    if name in elsewhere:  # said by another field
        raise refusal(key, f"{name}: {elsewhere[name]}")
    raise unknown(key, value, kind.__name__, members)


def kind_of_choice(recipe: Any, key: str) -> type[Any]:
    """Return the type of a choice, from its value or, if left open, from its type hint."""
    held = getattr(recipe, key)
    if held is not None:
        return type(held)
    hint = _hints(type(recipe))[key]
    return next((k for k in typing.get_args(hint) if k is not type(None)), type(None))


def named_record(
    path: str, value: Any, names: Names, expected: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return a record, read by name if the value is a text, and the choices that come with it.

    Raises: InputError if the value is neither a record nor the name of one.
    """
    if isinstance(value, str) and path in names:
        value = names[path](value)
    held, chosen = value if is_pair(value) else (value, carried(value))
    if dataclasses.is_dataclass(held) and not isinstance(held, type):
        return held, chosen
    raise refusal(path, f"a record, not a number, given {shown(value)}; {expected}")


def carrying(held: Any, choices: Mapping[str, str]) -> Any:
    """Return a record as one that brings choices of a recipe along, whatever is changed in it."""
    return _rebuilt(type(held), tuple(choices.items()), vars(held))


def carried(held: Any) -> Mapping[str, str]:
    """Return the choices of a recipe that a record brings along."""
    found: Mapping[str, str] = getattr(type(held), "_carried", {})
    return found


def _rebuilt(kind: Any, choices: tuple[tuple[str, str], ...], fields: Mapping[str, Any]) -> Any:
    return _carrier(kind, choices)(**fields)


@functools.cache
def _carrier(kind: Any, choices: tuple[tuple[str, str], ...]) -> Any:
    """Return the record of a kind that carries choices; a copy of a record is of the same kind."""

    def reduced(self: Any) -> Any:
        return _rebuilt, (kind, choices, dict(vars(self)))

    own = {name: getattr(kind, name) for name in ("__doc__", "__module__", "__qualname__")}
    return record(
        type(kind.__name__, (kind,), {**own, "_carried": dict(choices), "__reduce__": reduced})
    )


def is_pair(value: Any) -> bool:
    """Return whether a value is a record and the choices that come with it."""
    return isinstance(value, tuple) and len(value) == 2 and dataclasses.is_dataclass(value[0])


def fields_of(inputs: Any, path: str) -> str:
    """Return a hint for errors that lists the paths of a record's fields."""
    held = get_at(inputs, path)
    names = [f.name for f in dataclasses.fields(held)] if held is not None else []
    return f"expected one of {', '.join(f'{path}.{name}' for name in names)}"


def _value(inputs: Any, path: str, value: Any, said: str = "") -> Any:
    field = field_at(inputs, path)
    if is_quantity(field):
        return _number(value, field, said or path)
    return named_record(said or path, value, {}, fields_of(inputs, path))[0]


def _number(value: Any, field: "dataclasses.Field[Any]", path: str) -> Any:
    """Return a checked number or column of numbers; a text is read with the field's unit."""
    if isinstance(value, str):
        value = number_of(value, field, path)
    elif isinstance(value, list | tuple | Mapping):
        raise refusal(path, f"expected one number, given {shown(value)}; several make an axis")
    return checked_values(value, field, path)


def build_inputs(
    kind: type[Any],
    settings: Mapping[str, Any],
    names: Names | None = None,
    prefix: str = "",
    moved: Collection[str] = (),
) -> Any:
    """Build a record from settings: values, or columns of values, by dotted path.

    A nested record is given by name, field by field, or by name with the fields that differ.
    Numbers at the paths ``moved`` may be missing, because an axis gives them.

    Raises: InputError for a missing number, an unknown path (with the nearest), a wrong unit or a
    value out of range.
    """
    if not prefix:
        _known_paths(kind, settings)
    values: dict[str, Any] = {}
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        path = prefix + field.name
        optional = field.default is not dataclasses.MISSING
        if is_quantity(field):
            if path in settings:
                values[field.name] = _number(settings[path], field, path)
            elif path in moved and not optional:
                values[field.name] = 1.0
            elif not optional:
                unit = "" if field.metadata["unit"] == "1" else f" [{field.metadata['unit']}]"
                doc = field.metadata["doc"].rstrip(".")
                raise refusal(path, f"missing; expected a value: {doc}{unit}")
            continue
        inside = {p: value for p, value in settings.items() if p.startswith(f"{path}.")}
        held = field.default if optional else None
        if path in settings:
            known = _expected(path, names or {})
            held, _ = named_record(path, settings[path], names or {}, known)
            kind_of = _record_type(hints[field.name])
            if isinstance(kind_of, type) and not isinstance(held, kind_of):
                made = type(held).__name__
                raise refusal(path, f"expected a {kind_of.__name__}, given a {made}")
        if held is not None:
            for p, value in _in_order(kind, inside, prefix).items():
                held = _replaced(held, p, p.removeprefix(f"{path}."), value, settings)
        elif inside or _is_moved(_record_type(hints[field.name]), f"{path}.", moved):
            held = build_inputs(_record_type(hints[field.name]), inside, names, f"{path}.", moved)
        elif not optional:
            raise refusal(path, f"missing; {_expected(path, names or {})}")
        values[field.name] = held
    made = kind(**values)
    if not prefix:
        _check_needs(made, settings, moved)
    return made


def _is_moved(kind: type[Any], prefix: str, moved: Collection[str]) -> bool:
    """Return whether axes give every number that a record needs, and at least one."""
    needed = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
    there = {path.removeprefix(prefix) for path in moved if path.startswith(prefix)}
    return bool(there) and there >= {*needed}


def paths_of(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Yield (dotted path, field) for every field of a record type, including nested records."""
    hints = _hints(kind)
    for field in dataclasses.fields(kind):
        yield prefix + field.name, field
        if not is_quantity(field):
            yield from paths_of(_record_type(hints[field.name]), f"{prefix}{field.name}.")


def no_field(kind: type[Any], path: str, known: Collection[str], prefix: str = "") -> InputError:
    """Return the error for a path that a record lacks; it names the record where the path ends."""
    *names, last = path.split(".")
    if group_sizes(kind, path):
        field = of_one(path)
        raise refusal(path, f"not on an axis; expected {field}, of one accelerator each")
    if last in known:  # a field beside the record, taken for one of the record
        return unknown("", prefix + path, f"field of {kind.__name__}", [last])
    inside = ""
    for name in names:
        hint = _record_type(_hints(kind).get(name))
        if not dataclasses.is_dataclass(hint):
            break
        kind, inside = typing.cast(type[Any], hint), f"{inside}{name}."
    near = [other for other in known if other.startswith(inside)]
    return unknown("", prefix + path, f"field of {kind.__name__}", near)


def refuse_other_name(recipe: Any, name: str) -> None:
    """Refuse a choice by the name that another question has for it.

    Raises: InputError that names the choice here, and its values.
    """
    for field in dataclasses.fields(recipe) if recipe is not None else ():
        if field.metadata.get("elsewhere") == name:
            members: Any = type(field.default)
            values = ", ".join(str(member.value) for member in members)
            raise refusal(name, f"only fit takes them; expected {field.name}, one of {values}")


def least(kind: type[Any]) -> Any:
    """Return a minimal record: optional numbers keep their defaults, the others are 1."""
    hints = _hints(kind)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING and (is_quantity(field) or field.default):
            values[field.name] = field.default
        elif is_quantity(field):
            values[field.name] = 1.0
        else:
            values[field.name] = least(_record_type(hints[field.name]))
    return kind(**values)


def _expected(path: str, names: Names) -> str:
    name = "a name of the catalogue or " if path in names else ""
    return f"expected {name}its fields, {path}.FIELD"


def _known_paths(kind: type[Any], settings: Mapping[str, Any]) -> None:
    known = dict(paths_of(kind))
    for path in settings:
        if path not in known and not group_sizes(kind, path):
            raise no_field(kind, path, known)


def group_sizes(kind: type[Any], path: str) -> tuple[str, ...]:
    """Return the sizes of the group whose amount a path gives; none for a field itself.

    >>> from jaxroof.catalog.system import System
    >>> group_sizes(System, "nics_per_node"), group_sizes(System, "nics")
    (('host', 'fast_domain'), ())
    """
    head, _, rest = path.partition(".")
    if not rest:
        found: tuple[str, ...] = getattr(kind, "PER_GROUP", {}).get(head, ())
        return found
    inner = _record_type(_hints(kind).get(head))
    return group_sizes(typing.cast(Any, inner), rest) if dataclasses.is_dataclass(inner) else ()


def of_one(path: str) -> str:
    """Return the path of the field of one accelerator whose amount in a group a path gives.

    >>> of_one("system.nics_per_node"), of_one("system.nics")
    ('system.nics', 'system.nics')
    """
    return path.removesuffix("_per_node")


def _in_order(kind: Any, settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings with whole records before their fields, and amounts in groups last.

    What an amount is divided by is set first.
    """

    def place(path: str) -> tuple[bool, int]:
        return bool(group_sizes(kind, path.removeprefix(prefix))), path.count(".")

    return {path: settings[path] for path in sorted(settings, key=place)}


def _record_type(hint: Any) -> Any:
    kinds = [kind for kind in typing.get_args(hint) if dataclasses.is_dataclass(kind)]
    return kinds[0] if kinds else hint


def _replaced(held: Any, path: str, inner: str, value: Any, settings: Mapping[str, Any]) -> Any:
    """Return a record with one field changed, which may be given by its amount in a group.

    Raises: InputError for an amount in a group that contradicts the field among the settings.
    """
    groups = group_sizes(type(held), inner)
    if not groups:
        return replace_at(held, inner, _value(held, inner, value, path))
    field, record = of_one(inner), get_at(held, inner.rpartition(".")[0]) if "." in inner else held
    sizes = [size for size in (getattr(record, group) for group in groups) if size is not None]
    if not sizes:
        raise refusal(path, f"of how many accelerators? expected {' or '.join(groups)} beside it")
    each = _number(value, field_at(held, field), path) / sizes[0]
    beside = of_one(path)
    pairs = np.broadcast(each, get_at(held, field), sizes[0]) if beside in settings else ()
    for own, other, size in pairs:
        if not np.isclose(own, other, rtol=1e-9):
            said = f"{own:.6g} per accelerator, on nodes of {size:.6g}"
            raise refusal(path, f"{said}, and {beside} says {other:.6g}; expected one of them")
    return replace_at(held, field, each)
