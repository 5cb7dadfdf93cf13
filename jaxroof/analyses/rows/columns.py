"""The question that a table asks of an estimator: what its columns are, and rows as inputs."""

import contextlib
import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.engine.grid.question import long_names, resolve
from jaxroof.engine.runs.row_stream import RowChunk, RowGroup, joined
from jaxroof.errors import InputError, errors_in, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.records import checked_values, is_quantity, last_name, number_of
from jaxroof.settings import (
    apply_settings,
    choice,
    choices_of,
    group_sizes,
    known_paths,
    meaning,
    of_one,
)
from jaxroof.structure import map_numbers
from jaxroof.units import parse

NOTES = ("id",)  # columns copied unchanged, like those that start with MARK
MARK = "#"
SHOWN = 60  # characters of a wrong cell that an error shows
_HEADING = re.compile(r"(.*?)\s*\[([^\[\]]*)\]")
Cells = Sequence[str] | np.ndarray  # of one column: texts, or numbers


class Faults(dict[int, tuple[int, str]]):
    """Errors by row: the first wrong column of the row, and the reason."""

    def note(self, row: int, order: int, why: str) -> None:
        """Record an error, unless an earlier column of the row has one."""
        if row not in self or order < self[row][0]:
            self[row] = (order, why)


@dataclasses.dataclass(frozen=True, eq=False)
class RowColumn:
    """One column: its heading as typed, and the path or the choice that it sets; a note has none.

    A column of numbers has a field, one of names (of records, choices, formats) none.
    """

    heading: str
    path: str = ""
    field: "dataclasses.Field[Any] | None" = None
    scale: float = 1.0  # size of the heading's unit in SI


def read_columns(estimator: Estimator, headings: Sequence[str]) -> list[RowColumn]:
    """Return the meaning of each column."""
    found: list[RowColumn] = []
    for number, heading in enumerate(headings, 1):
        if not heading:
            raise InputError(f"column {number} has no name; expected an input, or {MARK}NAME")
        column = _column(estimator, heading)
        for place, other in enumerate(found, 1):
            if other.heading == heading or (other.path and other.path == column.path):
                what = f"column {number} gives again what column {place} does; expected it once"
                raise refusal(heading, what)
        found.append(column)
    return found


def _column(estimator: Estimator, heading: str) -> RowColumn:
    if heading in NOTES or heading.startswith(MARK):
        return RowColumn(heading)
    match = _HEADING.fullmatch(heading)
    name, unit = match.groups() if match else (heading, None)
    try:
        path = path_of(estimator, name)
    except InputError as error:
        note = f"a column that is a note is named {NOTES[0]}, or begins with {MARK}"
        raise InputError(f"{error} ({note})") from None
    field = known_paths(estimator.inputs).get(of_one(path))
    if field is not None and is_quantity(field):
        with errors_in(heading):
            scale = 1.0 if unit is None else parse(f"1 {unit}", field.metadata["unit"])
        return RowColumn(heading, path, field, scale)
    if field is not None and path not in (*estimator.names, *estimator.stands):
        raise refusal(heading, f"a record, not a number; expected its fields, {path}.FIELD")
    if unit is not None:
        what = f"a name has no unit, given {shown(unit)}; expected the heading {name!r}"
        raise refusal(heading, what)
    return RowColumn(heading, path)


def path_of(estimator: Estimator, name: str) -> str:
    """Return the path or the recipe choice that a name refers to.

    A name is a path, a choice, a name such as the precision, a short form such as ``tp``, the
    letter of exactly one number, or the last part of exactly one path.

    Raises: InputError with the nearest name.
    """
    fields, choices = known_paths(estimator.inputs), choices_of(estimator.recipe)
    (path,) = long_names(estimator, {name: None})
    if path in fields or path in choices or group_sizes(estimator.inputs, path):
        return path
    if path in estimator.stands:
        return path
    letters = {path: str(field.metadata.get("symbol") or "") for path, field in fields.items()}
    last = {path: last_name(path) for path in fields if not path.startswith("system.library.")}
    for words in (letters, last):
        paths = [path for path, word in words.items() if word == name != ""]
        if len(paths) == 1:
            return paths[0]
        if paths:
            raise refusal(name, f"several numbers have this name; expected {' or '.join(paths)}")
    symbols = filter(None, letters.values())
    options = [*fields, *choices, *estimator.short_names, *symbols, *last.values()]
    raise unknown("", name, f"input of {estimator.name or 'this estimator'}", options)


def shared_of(
    estimator: Estimator, settings: Mapping[str, Any], columns: Iterable[RowColumn]
) -> dict[str, Any]:
    """Return the settings shared by all rows, by path or choice."""
    taken = {column.path: column.heading for column in columns if column.path}
    found: dict[str, Any] = {}
    for name, value in settings.items():
        path = path_of(estimator, name)
        if path in found:
            raise refusal(name, f"{path} is given twice; expected it once")
        if path in taken:
            what = f"the column {taken[path]!r} gives it too; expected it once"
            raise refusal(name, what)
        found[path] = value
    return found


def check_complete(
    estimator: Estimator, columns: Sequence[RowColumn], shared: Mapping[str, Any]
) -> None:
    """Check that columns and shared settings give every input that is required."""
    given = {path: value for path, value in shared.items() if path not in estimator.stands}
    for column in columns:
        if column.field is not None:
            field = column.field.metadata
            given[column.path] = max(field["least"], min(1.0, field["most"]))
    named = {column.path for column in columns if column.field is None}
    kind, names = estimator.inputs, estimator.names
    try:
        inputs, _ = apply_settings(None, estimator.recipe, given, names, named, named, kind)
    except InputError as error:
        if "missing" not in str(error):
            raise
        raise InputError(f"{str(error).rstrip('.')}, in a column or --set") from None
    if estimator.plan is not None and inputs.plan is None:
        needed = [f for f in dataclasses.fields(estimator.plan) if f.default is dataclasses.MISSING]
        short = {f.name: f.metadata["symbol"] for f in needed}
        said = ", ".join(f"plan.{n} ({s})" if s else f"plan.{n}" for n, s in short.items())
        raise InputError(f"plan: missing; expected the columns {said}, or --set")


# ---- Cells --------------------------------------------------------------------------------------


def reader(estimator: Estimator, column: RowColumn) -> Callable[[str], Any]:
    """Return what reads each distinct text of a column of names: a value, or why it has none."""
    read: Callable[[str], Any] = estimator.names.get(column.path, str)
    if column.path in choices_of(estimator.recipe):
        read = functools.partial(choice, estimator.recipe, column.path)

    @functools.cache
    def value(text: str) -> Any:
        try:
            return read(text) if text else InputError("an empty cell; expected a name")
        except InputError as error:
            return InputError(str(error).removeprefix(f"{column.heading}: "))

    return value


def numbers(column: RowColumn, cells: Cells, order: int, faults: Faults) -> np.ndarray:
    """Return a column in SI units; ``faults`` records cells that are no number or out of range."""
    assert column.field is not None
    wrong: dict[int, str] = {}
    if isinstance(cells, np.ndarray):
        values = cells.astype(np.float64) * column.scale
    else:
        values, wrong = _read(column, cells)
    right = np.isin(np.arange(len(values)), list(wrong), invert=True) if wrong else slice(None)
    try:
        checked_values(values[right], column.field, column.heading)
    except InputError:
        for row in np.arange(len(values))[right].tolist():
            if why := _outside(column, values[row], str(cells[row]).strip()):
                wrong[row] = why
    for row, why in wrong.items():
        faults.note(row, order, why)
    return values


def _outside(column: RowColumn, value: np.ndarray, text: str) -> str:
    """Return why a number is out of the range of its field, in the text of its cell."""
    assert column.field is not None
    try:
        checked_values(value, column.field, column.heading)
    except InputError as error:
        cut = repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")
        said, given, _ = str(error).rpartition(", given ")
        return f"{said}{given}{cut}" if given else str(error)
    return ""


def _read(column: RowColumn, texts: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
    """Parse texts as numbers, all at once if they are plain; also return errors by row."""
    suffix, count = suffix_of(column.scale), len(texts)
    with contextlib.suppress(ValueError):
        if suffix == "*":
            return np.fromiter(map(float, texts), float, count) * column.scale, {}
        plain = [text + suffix for text in texts] if suffix else texts
        return np.fromiter(map(float, plain), float, count), {}
    known: dict[str, float] = {}
    wrong: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        try:
            known[text] = _one(column, text.strip(), suffix)
        except InputError as error:
            known[text], wrong[text] = math.nan, str(error)
    values = np.fromiter(map(known.__getitem__, texts), float, count)
    return values, {row: wrong[text] for row, text in enumerate(texts) if text in wrong}


def _one(column: RowColumn, text: str, suffix: str) -> float:
    """Parse one cell: a plain number in the column's unit, or a number with its own unit."""
    assert column.field is not None
    try:
        plain = float(text)
    except ValueError:
        if text:
            return number_of(text, column.field, column.heading)
        what = f"an empty cell; expected a value: {meaning(column.field)}"
        raise refusal(column.heading, what) from None
    scaled = suffix == "*" or "e" in text.lower() or not math.isfinite(plain)
    return plain * column.scale if scaled else float(text + suffix)


def suffix_of(scale: float) -> str:
    """Return the suffix that converts the text of a number to SI, if the scale is a power of ten.

    >>> suffix_of(1e9), suffix_of(0.01), suffix_of(1.0), suffix_of(2.0**30)
    ('e9', 'e-2', '', '*')
    """
    power = round(math.log10(scale))
    if float(f"1e{power}") != scale:
        return "*"
    return f"e{power}" if power else ""


# ---- Rows as inputs -----------------------------------------------------------------------------


class RowProblem:
    """A table's question: the meaning of its columns, and the settings that all rows share."""

    def __init__(
        self, estimator: Estimator, columns: Sequence[RowColumn], shared: Mapping[str, Any]
    ) -> None:
        self.estimator, self.columns, self.shared = estimator, columns, shared
        named = [column for column in columns if column.path and column.field is None]
        self.readers = {column.path: reader(estimator, column) for column in named}

    def chunk(
        self, cells: Sequence[Cells], size: int, faults: Faults, about: Any = None
    ) -> RowChunk:
        """Return rows as inputs ready to evaluate; rows with errors are recorded in ``faults``."""
        values: dict[str, np.ndarray] = {}
        names: dict[str, list[Any]] = {}  # the distinct ones of each column
        places = np.zeros((len(self.readers), size), np.int64)  # of each row's name among those
        for order, (column, texts) in enumerate(zip(self.columns, cells, strict=True)):
            if column.field is not None:
                values[column.path] = numbers(column, texts, order, faults)
            elif column.path:
                texts = texts.astype(str).tolist() if isinstance(texts, np.ndarray) else texts
                known = {text: place for place, text in enumerate(dict.fromkeys(texts))}
                place = np.fromiter(map(known.__getitem__, texts), np.int64, size)
                places[len(names)] = place
                found = [self.readers[column.path](text.strip()) for text in known]
                names[column.path] = found
                wrong = [n for n, value in enumerate(found) if isinstance(value, InputError)]
                for row in np.flatnonzero(np.isin(place, wrong)).tolist() if wrong else ():
                    faults.note(row, order, f"{column.heading}: {found[place[row]]}")
        rows = np.setdiff1d(np.arange(size), list(faults)) if faults else np.arange(size)
        kinds, kind = np.unique(places[:, rows], axis=1, return_inverse=True)
        groups: list[RowGroup] = []
        for number in range(kinds.shape[1] if len(rows) else 0):
            pairs = zip(names.items(), kinds[:, number], strict=True)
            named = {path: some[at] for (path, some), at in pairs}
            groups += self._groups(rows[kind.ravel() == number], named, values, faults)
        agreeing = (self._agreeing(group, faults) for group in joined(groups))
        return RowChunk(size, [group for group in agreeing if len(group.rows)], about)

    def _groups(
        self,
        rows: np.ndarray,
        named: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
        faults: Faults,
    ) -> list[RowGroup]:
        """Return rows of the same names as a group; if some are refused, the others and those."""
        settings = {**self.shared, **named}
        columns = {path: column[rows] for path, column in values.items()}
        try:
            asked = resolve(self.estimator, {**settings, **columns}, whole=True)
            return [RowGroup(rows, *asked[:2])]
        except InputError as error:
            why = str(error)
        with contextlib.suppress(InputError):
            if len(rows) > 1:
                first = {path: column[:1] for path, column in columns.items()}
                resolve(self.estimator, settings, axes=first, whole=True)  # else: the names are bad
                half = np.array_split(rows, 2)
                return [one for some in half for one in self._groups(some, named, values, faults)]
        for row in rows.tolist():
            faults.note(row, len(self.columns), why)
        return []

    def _agreeing(self, group: RowGroup, faults: Faults) -> RowGroup:
        """Return the rows whose plan agrees with their other cells; record the others."""
        rows, wrong = group.rows, self.estimator.contradictions(group.inputs)
        wrong = np.broadcast_to(wrong, len(rows))
        if not wrong.any():
            return group
        for place in np.flatnonzero(wrong).tolist():
            try:
                self.estimator.refuse_contradictions(at_places(group.inputs, place))
            except InputError as error:
                faults.note(int(rows[place]), len(self.columns), str(error))
        return RowGroup(rows[~wrong], at_places(group.inputs, ~wrong), group.recipe)


def at_places(inputs: Any, places: Any) -> Any:
    """Return the numbers of some rows of columns of inputs."""
    return map_numbers(lambda leaf: leaf[places] if np.ndim(leaf) else leaf, inputs)


def row_problem(
    estimator: Estimator,
    headings: Sequence[str],
    shared: Mapping[str, Any],
    folder: pathlib.Path,
    where: str,
    head: str,
) -> RowProblem:
    """Return the problem of a table, checked before rows are read; ``head`` locates headings."""

    def beside(read: Callable[[str], Any]) -> Callable[[str], Any]:
        return lambda text: read(str(folder / text) if text.endswith(".toml") else text)

    if not dataclasses.is_dataclass(estimator.inputs):
        what = "its inputs are no record; expected an estimator of one"
        raise refusal(estimator.name, what)
    with errors_in(head):
        columns = read_columns(estimator, headings)
    with errors_in("--set"):
        given = shared_of(estimator, shared, columns)
    with errors_in(where):
        check_complete(estimator, columns, given)
    names = {path: functools.cache(beside(read)) for path, read in estimator.names.items()}
    return RowProblem(dataclasses.replace(estimator, names=names), columns, given)
