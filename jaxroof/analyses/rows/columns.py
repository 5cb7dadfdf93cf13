"""The meaning of a table's columns to an estimator: numbers, names, choices, or notes."""

import dataclasses
import enum
import math
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.precision import PRECISION
from jaxroof.records import is_quantity
from jaxroof.settings import (
    build_inputs,
    choices_of,
    group_sizes,
    of_one,
    paths_of,
)
from jaxroof.units import parse

NOTES = ("id",)  # columns copied unchanged, like those that start with MARK
MARK = "#"
_HEADING = re.compile(r"(.*?)\s*\[([^\[\]]*)\]")


class Kind(enum.Enum):
    """The kind of a column's cells."""

    NUMBER = "number"
    RECORD = "name"
    CHOICE = "choice"
    FORMAT = "number format"  # that stands for several numbers
    NOTE = "note"


@dataclasses.dataclass(frozen=True, eq=False)
class RowColumn:
    """One column: its heading as typed, and the path or the choice that it sets."""

    heading: str
    kind: Kind
    path: str = ""
    field: "dataclasses.Field[Any] | None" = None
    scale: float = 1.0  # size of the heading's unit in SI

    @property
    def unit(self) -> str:
        """Return the SI unit of the numbers."""
        assert self.field is not None
        return str(self.field.metadata["unit"])


def read_columns(estimator: Estimator, headings: Sequence[str]) -> list[RowColumn]:
    """Return the meaning of each column.

    Raises: InputError for an unknown name (with the nearest), a wrong unit, or a column that has
    no name or is repeated.
    """
    found: list[RowColumn] = []
    for number, heading in enumerate(headings, 1):
        if not heading:
            raise InputError(f"column {number} has no name; expected an input, or {MARK}NAME")
        column = _column(estimator, heading)
        same = [other for other in found if other.path and other.path == column.path]
        same += [other for other in found if other.heading == column.heading]
        if same:
            here = [number for number, one in enumerate(found, 1) if one is same[0]]
            what = f"column {number} gives again what column {here[0]} does; expected it once"
            raise refusal(heading, what)
        found.append(column)
    return found


def _column(estimator: Estimator, heading: str) -> RowColumn:
    if heading in NOTES or heading.startswith(MARK):
        return RowColumn(heading, Kind.NOTE)
    match = _HEADING.fullmatch(heading)
    name, unit = match.groups() if match else (heading, None)
    try:
        path = path_of(estimator, name)
    except InputError as error:
        note = f"a column that is a note is named {NOTES[0]}, or begins with {MARK}"
        raise InputError(f"{error} ({note})") from None
    if path in choices_of(estimator.recipe):
        kind, field = Kind.CHOICE, None
    elif path == PRECISION:
        kind, field = Kind.FORMAT, None
    else:
        field = dict(paths_of(estimator.inputs))[of_one(path)]
        kind = Kind.NUMBER if is_quantity(field) else Kind.RECORD
    if kind is Kind.RECORD and path not in estimator.names:
        raise refusal(heading, f"a record, not a number; expected its fields, {path}.FIELD")
    if unit is None:
        return RowColumn(heading, kind, path, field)
    if kind is not Kind.NUMBER:
        raise refusal(
            heading, f"a name has no unit, given {shown(unit)}; expected the heading {name!r}"
        )
    column = RowColumn(heading, kind, path, field)
    try:
        scale = parse(f"1 {unit}", column.unit)
    except InputError as error:
        raise refusal(heading, str(error)) from None
    return dataclasses.replace(column, scale=scale)


def path_of(estimator: Estimator, name: str) -> str:
    """Return the path or the recipe choice that a name refers to.

    A name is a path, a choice, the precision, a short form such as ``tp``, the letter of exactly
    one number, or the last part of exactly one path. Raises: InputError with the nearest name.
    """
    fields = dict(paths_of(estimator.inputs))
    choices = choices_of(estimator.recipe)
    if name in fields or name in choices or (name == PRECISION and estimator.expand is not None):
        return name
    if group_sizes(estimator.inputs, name):
        return name
    if name in estimator.short_names:
        return f"plan.{estimator.short_names[name]}"
    letters = [path for path, field in fields.items() if field.metadata.get("symbol") == name]
    last = [p for p in fields if p.rpartition(".")[2] == name] if "." not in name else []
    for paths in (letters, last):
        if len(paths) == 1:
            return paths[0]
        if paths and name:
            raise refusal(name, f"several numbers have this name; expected {' or '.join(paths)}")
    symbols = [field.metadata["symbol"] for field in fields.values() if is_quantity(field)]
    options = [
        *fields,
        *choices,
        *estimator.short_names,
        *filter(None, symbols),
        *(p.rpartition(".")[2] for p in fields),
    ]
    raise unknown("", name, f"input of {estimator.name or 'this estimator'}", options)


def shared_of(
    estimator: Estimator, settings: Mapping[str, Any], columns: Iterable[RowColumn]
) -> dict[str, Any]:
    """Return the settings shared by all rows, by path or choice, with records read by name.

    Raises: InputError for a name that is unknown, repeated or also given by a column.
    """
    taken = {column.path: column.heading for column in columns if column.path}
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = path_of(estimator, name)
        if path in found:
            raise refusal(name, f"{path} is given twice; expected it once")
        if path in taken:
            what = f"the column {taken[path]!r} gives it too; expected it once"
            raise refusal(name, what)
        named = path in estimator.names and isinstance(value, str)
        found[path] = estimator.names[path](value) if named else value
    return found


def check_complete(
    estimator: Estimator, columns: Iterable[RowColumn], shared: Mapping[str, Any]
) -> None:
    """Check that columns and shared settings give every input that is required.

    Raises: InputError for the first missing input, or for a setting that cannot be used.
    """
    choices = [*choices_of(estimator.recipe), PRECISION]
    given: dict[str, Any] = {path: v for path, v in shared.items() if path not in choices}
    columns = tuple(columns)
    for column in columns:
        if column.kind is Kind.NUMBER:
            assert column.field is not None
            given[column.path] = min(1.0, column.field.metadata["most"])
        elif column.kind is Kind.RECORD:
            given[column.path] = _any(_kind_at(estimator.inputs, column.path))
    try:
        moved = [column.path for column in columns]
        inputs = build_inputs(estimator.inputs, given, estimator.names, moved=moved)
    except InputError as error:
        if "missing" not in str(error):
            raise
        raise InputError(f"{str(error).rstrip('.')}, in a column or --set") from None
    if estimator.plan is not None and inputs.plan is None:
        needed = [f for f in dataclasses.fields(estimator.plan) if f.default is dataclasses.MISSING]
        short = {f.name: f.metadata["symbol"] for f in needed}
        said = ", ".join(f"plan.{n} ({s})" if s else f"plan.{n}" for n, s in short.items())
        raise InputError(f"plan: missing; expected the columns {said}, or --set")


def _kind_at(kind: type[Any], path: str) -> type[Any]:
    """Return the class of the record at a dotted path of another record class."""
    found: Any = kind
    for name in path.split("."):
        hint = typing.get_type_hints(found)[name]
        found = next(filter(dataclasses.is_dataclass, typing.get_args(hint)), hint)
    return found


def _any(kind: type[Any]) -> Any:
    """Return an arbitrary record of a class, with its inner records; its values do not matter."""
    numbers = {f.name: 1.0 for f in dataclasses.fields(kind) if is_quantity(f)}
    inner = [f.name for f in dataclasses.fields(kind) if not is_quantity(f)]
    records = {
        name: found for name in inner if dataclasses.is_dataclass(found := _kind_at(kind, name))
    }
    return kind(**numbers, **{name: _any(found) for name, found in records.items()})


def suffix_of(scale: float) -> str:
    """Return the suffix that converts the text of a number to SI, if the scale is a power of ten.

    >>> suffix_of(1e9), suffix_of(0.01), suffix_of(1.0), suffix_of(2.0**30)
    ('e9', 'e-2', '', '*')
    """
    power = round(math.log10(scale))
    if float(f"1e{power}") != scale:
        return "*"
    return f"e{power}" if power else ""
