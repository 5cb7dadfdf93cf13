"""Settings: fields of the inputs by dotted path, and choices of the recipe by name."""

import dataclasses
import enum
import functools
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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


@dataclasses.dataclass(frozen=True)
class Named:
    """Values of several paths that vary together, and the name of each point."""

    labels: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]


def by_path(shorthand: Mapping[str, str], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their whole paths, some of which may be given by short names.

    >>> by_path({"sequence": "model.sequence"}, {"sequence": 8, "gpus": 4})
    {'model.sequence': 8, 'gpus': 4}
    """
    for short, path in shorthand.items():
        if short in settings and path in settings:
            raise refusal(short, f"given twice, as {path} too; expected it once")
    return {shorthand.get(name, name): value for name, value in settings.items()}


# ---- Records ------------------------------------------------------------------------------------


def apply_settings(
    inputs: Any,
    recipe: Any,
    settings: Mapping[str, Any],
    names: Names | None = None,
    given: Collection[str] = (),
    varied: Collection[str] = (),
    kind: type[Any] | None = None,
) -> tuple[Any, Any]:
    """Return inputs and recipe with settings applied; a key is a choice or a path of the inputs.

    Without inputs, a record of ``kind`` is made of the settings. Choices that come with a record
    apply unless they are in ``settings`` or in ``given``, or the record is at one of the paths
    ``varied`` by axes.
    """
    choices = choices_of(recipe)
    chosen = {key: settings[key] for key in choices if key in settings}
    rest = {key: value for key, value in settings.items() if key not in choices}
    recipe = choose(recipe, chosen)
    if names:
        rest, recipe = read_names(rest, recipe, names, {*chosen, *given}, varied)
    if inputs is not None and not rest:
        return inputs, recipe
    made: Any = kind or type(inputs)
    known = known_paths(made)
    for path in rest:
        if path not in known and not group_sizes(made, path):
            refuse_other_name(recipe, path)
            raise no_field(made, path, [*choices, *known])
    return build_inputs(made, rest, names, varied, inputs), recipe


def build_inputs(
    kind: type[Any],
    settings: Mapping[str, Any],
    names: Names | None = None,
    moved: Collection[str] = (),
    start: Any = None,
) -> Any:
    """Build a record from settings: values, or columns of values, by dotted path.

    A nested record is given by name, field by field, or by name with the fields that differ; what
    is not given is that of ``start``. Numbers at the paths ``moved`` may be missing, because an
    axis gives them.
    """
    made = _built(kind, "", settings, names or {}, moved, start)
    _check_needs(made, settings, moved)
    return made


def _built(
    kind: type[Any],
    prefix: str,
    settings: Mapping[str, Any],
    names: Names,
    moved: Collection[str],
    start: Any,
) -> Any:
    """Return a record of a kind, or ``start`` with the settings inside it applied."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        path, optional = prefix + field.name, field.default is not dataclasses.MISSING
        held: Any = getattr(start, field.name, field.default if optional else None)
        if is_quantity(field):
            if path in settings:
                values[field.name] = number_in(settings[path], field, path)
            elif start is None and not optional:
                if path not in moved:
                    raise refusal(path, f"missing; expected a value: {meaning(field)}")
                values[field.name] = 1.0
            continue
        inner = f"{path}."
        inside = {p: value for p, value in settings.items() if p.startswith(inner)}
        if start is None and path in moved and path not in settings:
            values[field.name] = None  # an axis or a column of names gives it
            continue
        if path in settings:
            held = values[field.name] = _record(kind, field.name, path, settings[path], names)
        if held is None and start is not None and inside:
            what = f"no such field: {path} has none, nothing is given there"
            what += field.metadata.get("expected", "")
            raise refusal(next(iter(inside)), what)
        of = record_type(kind, field.name) if held is None else type(held)
        many = members_of(kind, field.name)
        if many and inside:
            values[field.name] = tuple(
                _built(one, f"{inner}{place}.", inside, names, moved, held and held[place])
                for place, one in enumerate(many)
            )
        elif many:
            continue
        elif inside or (start is None and held is None and _is_moved(of, inner, moved)):
            values[field.name] = _built(of, inner, inside, names, moved, held)
        elif held is None and start is None and not optional:
            raise refusal(path, f"missing; {_expected(path, names)}")
    made = kind(**values) if start is None else dataclasses.replace(start, **values)
    for name in getattr(kind, "PER_GROUP", ()):
        if prefix + name in settings:
            made = _divided(made, name, prefix, settings)
    return made


def _record(kind: type[Any], name: str, path: str, value: Any, names: Names) -> Any:
    """Return the record at a path, of the kind that its field has."""
    held, _ = named_record(path, value, names, _expected(path, names))
    kind_of = record_type(kind, name)
    if isinstance(kind_of, type) and not isinstance(held, kind_of):
        raise refusal(path, f"expected a {kind_of.__name__}, given a {type(held).__name__}")
    return held


def _divided(held: Any, name: str, prefix: str, settings: Mapping[str, Any]) -> Any:
    """Return a record with a field that is given by its amount in a group."""
    path, field, groups = prefix + name, of_one(name), type(held).PER_GROUP[name]
    sizes = [size for size in (getattr(held, group) for group in groups) if size is not None]
    if not sizes:
        raise refusal(path, f"of how many accelerators? expected {' or '.join(groups)} beside it")
    each = number_in(settings[path], field_at(held, field), path) / sizes[0]
    beside = of_one(path)
    pairs = np.broadcast(each, getattr(held, field), sizes[0]) if beside in settings else ()
    for own, other, size in pairs:
        if not np.isclose(own, other, rtol=1e-9):
            said = f"{own:.6g} per accelerator, on nodes of {size:.6g}"
            raise refusal(path, f"{said}, and {beside} says {other:.6g}; expected one of them")
    return replace_at(held, field, each)


def _check_needs(inputs: Any, paths: Collection[str], varied: Collection[str]) -> None:
    """Check that no number is set which is without effect while another is 0."""
    fixed = {*paths} - {*varied}
    for path, field, value in leaves(inputs) if fixed else ():
        if path in fixed and field.metadata["needs"] and np.any(value):
            other = ".".join([*path.split(".")[:-1], field.metadata["needs"]])
            if other not in varied and not np.any(get_at(inputs, other)):
                said = f"{float(np.max(value)):.12g}, without effect while {other} is 0"
                what = field_at(inputs, other).metadata["doc"][:-1].lower()
                raise refusal(path, f"{said}; expected also {other}, {what}")


def number_in(value: Any, field: "dataclasses.Field[Any]", path: str) -> Any:
    """Return a checked number or column of numbers; a text is read with the field's unit."""
    if isinstance(value, str):
        value = number_of(value, field, path)
    elif isinstance(value, list | tuple | Mapping):
        raise refusal(path, f"expected one number, given {shown(value)}; several make an axis")
    return checked_values(value, field, path)


def meaning(field: "dataclasses.Field[Any]") -> str:
    """Return what a number is, with its unit, for an error that asks for it."""
    doc, unit = str(field.metadata["doc"]).rstrip("."), field.metadata["unit"]
    return doc if unit == "1" else f"{doc} [{unit}]"


def _is_moved(kind: type[Any], prefix: str, moved: Collection[str]) -> bool:
    """Return whether axes give every number that a record needs, and at least one."""
    there = {path.removeprefix(prefix) for path in moved if path.startswith(prefix)}
    needed = (f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING)
    return bool(there) and there.issuperset(needed)


def _expected(path: str, names: Names) -> str:
    name = "a name of the catalogue or " if path in names else ""
    return f"expected {name}its fields, {path}.FIELD"


def least(kind: type[Any]) -> Any:
    """Return a minimal record: optional numbers keep their defaults, the others are 1."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING and (is_quantity(field) or field.default):
            values[field.name] = field.default
        elif is_quantity(field):
            values[field.name] = 1.0
        elif members_of(kind, field.name):
            values[field.name] = None  # what needs no tuple of records has none
        else:
            values[field.name] = least(record_type(kind, field.name))
    return kind(**values)


# ---- Paths --------------------------------------------------------------------------------------


def paths_of(kind: type[Any], prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Yield (dotted path, field) for every field of a record type, including nested records."""
    for field in dataclasses.fields(kind):
        yield prefix + field.name, field
        inner = record_type(kind, field.name)
        for place, one in enumerate(members_of(kind, field.name)):
            yield from paths_of(one, f"{prefix}{field.name}.{place}.")
        if not is_quantity(field) and dataclasses.is_dataclass(inner):
            yield from paths_of(inner, f"{prefix}{field.name}.")  # type: ignore[arg-type]


def known_paths(kind: type[Any]) -> Mapping[str, "dataclasses.Field[Any]"]:
    """Return the field at every dotted path of a record type, those of the top first."""
    return _known(kind)


def _sorted_paths(kind: type[Any]) -> Mapping[str, "dataclasses.Field[Any]"]:
    found = paths_of(kind) if dataclasses.is_dataclass(kind) else ()
    return dict(sorted(found, key=lambda one: one[0].count(".")))


_known: Callable[[Any], Mapping[str, "dataclasses.Field[Any]"]] = functools.cache(_sorted_paths)


def record_type(kind: type[Any], name: str) -> Any:
    """Return the class of a field of a record class, of a choice without its None."""
    hint = _hints(kind).get(name)
    of = [one for one in typing.get_args(hint) if dataclasses.is_dataclass(one)]
    return of[0] if of else hint


def members_of(kind: type[Any], name: str) -> tuple[type[Any], ...]:
    """Return the classes of a field that holds a tuple of records, none for any other field."""
    hint = _hints(kind).get(name)
    of = [one for one in (hint, *typing.get_args(hint)) if typing.get_origin(one) is tuple]
    return typing.get_args(of[0]) if of else ()


def fields_of(inputs: Any, path: str) -> str:
    """Return a hint for errors that lists the paths of a record's fields."""
    held = get_at(inputs, path)
    names = [f.name for f in dataclasses.fields(held)] if held is not None else []
    return f"expected one of {', '.join(f'{path}.{name}' for name in names)}"


def no_field(kind: type[Any], path: str, known: Collection[str], prefix: str = "") -> InputError:
    """Return the error for a path that a record lacks; it names the record where the path ends."""
    *names, last = path.split(".")
    if group_sizes(kind, path):
        return refusal(path, f"not on an axis; expected {of_one(path)}, of one accelerator each")
    if last in known:  # a field beside the record, taken for one of the record
        return unknown("", prefix + path, f"field of {kind.__name__}", [last])
    inside = ""
    for name in names:
        inner = record_type(kind, name)
        if not dataclasses.is_dataclass(inner):
            break
        kind, inside = typing.cast(type[Any], inner), f"{inside}{name}."
    near = [other for other in known if other.startswith(inside)]
    return unknown("", prefix + path, f"field of {kind.__name__}", near)


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
    inner = record_type(kind, head)
    return group_sizes(inner, rest) if dataclasses.is_dataclass(inner) else ()  # type: ignore[arg-type]


def of_one(path: str) -> str:
    """Return the path of the field of one accelerator whose amount in a group a path gives.

    >>> of_one("system.nics_per_node"), of_one("system.nics")
    ('system.nics', 'system.nics')
    """
    return path.removesuffix("_per_node")


# ---- Choices ------------------------------------------------------------------------------------

JOINED = "+"  # stands before each of several members of a choice


def choices_of(recipe: Any) -> list[str]:
    """Return the names of a recipe's structural choices."""
    return [f.name for f in dataclasses.fields(recipe)] if recipe is not None else []


def choose(recipe: Any, chosen: Mapping[str, Any]) -> Any:
    """Return a recipe with choices set by name."""
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

    Members of a choice of several are joined by ``+``: ``+layernorm+mlp`` are those two alone.
    """
    several = _fields_of(recipe)[key].metadata.get("several")
    if several is not None and isinstance(value, frozenset):
        return value
    if several is not None and isinstance(value, str) and JOINED in value:
        return frozenset(_member(key, name, several) for name in value.split(JOINED) if name)
    kind = kind_of_choice(recipe, key)
    if isinstance(value, kind) or not issubclass(kind, enum.Enum):
        return value
    if value is None and getattr(recipe, key) is None:  # left open
        return value
    return _member(key, value, kind)


def _member(key: str, value: Any, kind: type[enum.Enum]) -> enum.Enum:
    members = {member.value: member for member in kind}
    name = spelled(value, members) if isinstance(value, str) else shown(value)
    if name in members:
        return members[name]
    elsewhere = getattr(kind, "ELSEWHERE", {})
    if name in elsewhere:  # said by another field
        raise refusal(key, f"{name}: {elsewhere[name]}")
    raise unknown(key, value, kind.__name__, members)


def choice_text(value: Any) -> Any:
    """Return a choice as it is written: the name of a member, or those of several."""
    if isinstance(value, frozenset):
        return "".join(f"{JOINED}{name}" for name in sorted(member.value for member in value))
    return getattr(value, "value", value)


def _fields_of(recipe: Any) -> dict[str, "dataclasses.Field[Any]"]:
    return {field.name: field for field in dataclasses.fields(recipe)}


def kind_of_choice(recipe: Any, key: str) -> type[Any]:
    """Return the type of a choice, from its value or, if left open, from its type hint."""
    held = getattr(recipe, key)
    if isinstance(held, frozenset):  # of several members
        held = _fields_of(recipe)[key].default
    if held is not None:
        return type(held)
    hint = _hints(type(recipe))[key]
    return next((k for k in typing.get_args(hint) if k is not type(None)), type(None))


def named_record(
    path: str, value: Any, names: Names, expected: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return a record, read by name if the value is a text, and the choices that come with it."""
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


def refuse_other_name(recipe: Any, name: str) -> None:
    """Refuse a choice by the name that another question has for it."""
    for field in dataclasses.fields(recipe) if recipe is not None else ():
        if field.metadata.get("elsewhere") == name:
            members: Any = type(field.default)
            values = ", ".join(str(member.value) for member in members)
            raise refusal(name, f"only fit takes them; expected {field.name}, one of {values}")


def read_names(
    settings: Mapping[str, Any],
    recipe: Any,
    names: Names,
    given: Collection[str] = (),
    varied: Collection[str] = (),
) -> tuple[dict[str, Any], Any]:
    """Return settings with named records read, and the recipe with the records' choices."""
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
    """Return the choices of a recipe that come with a record, except those in ``given``."""
    known = choices_of(recipe)
    for key in chosen:
        if key not in known:
            raise unknown(path, key, "choice of this estimator", known)
    try:
        members = {key: choice(recipe, key, value) for key, value in chosen.items()}
    except InputError as error:
        raise refusal(path, str(error)) from None
    return {key: member for key, member in members.items() if key not in given}
