"""Convert cells of a table to an estimator's inputs (numbers, records, choices); report errors."""

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.rows.columns import Kind, RowColumn, suffix_of
from jaxroof.engine.runs.row_programs import RowGroup
from jaxroof.engine.runs.row_stream import RowChunk
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.precision import PRECISION
from jaxroof.records import checked_values, leaves, number_of, replace_at
from jaxroof.settings import (
    build_inputs,
    choice,
    choices_brought,
    choices_of,
    choose,
    named_record,
    read_names,
)
from jaxroof.units import parse

Cells = Sequence[str] | np.ndarray  # of one column: texts, or numbers
SHOWN = 60  # characters of a wrong cell that an error shows


class Faults(dict[int, tuple[int, str]]):
    """Errors by row: the first wrong column of the row, and the reason."""

    def note(self, row: int, order: int, why: str) -> None:
        """Record an error, unless an earlier column of the row has one."""
        if row not in self or order < self[row][0]:
            self[row] = (order, why)


class RowProblem:
    """The problem a table states: the meaning of its columns, and the settings all rows share."""

    def __init__(
        self,
        estimator: Estimator,
        columns: Sequence[RowColumn],
        shared: Mapping[str, Any],
        names: Any,
    ) -> None:
        self.estimator, self.columns = estimator, columns
        self.given = {*shared, *(column.path for column in columns)}
        choices = choices_of(estimator.recipe)
        self.precision = shared.get(PRECISION)
        shared = {path: value for path, value in shared.items() if path != PRECISION}
        self.shared = {path: value for path, value in shared.items() if path not in choices}
        chosen = {key: value for key, value in shared.items() if key in choices}
        given = {*chosen, *(column.path for column in columns if column.kind is Kind.CHOICE)}
        self.shared, recipe = read_names(self.shared, estimator.recipe, names, given)
        self.recipe = choose(recipe, chosen)
        self.named = {
            column.path: _Named(column.heading, self._reader(column.path, names, given))
            for column in columns
            if column.kind is Kind.RECORD
        }
        self.chosen = {
            column.path: _Named(column.heading, _chooser(estimator.recipe, column.path))
            for column in columns
            if column.kind is Kind.CHOICE
        }

    def _reader(self, path: str, names: Any, given: Collection[str]) -> Any:
        """Return a function that reads a record by name and the choices it sets."""

        def read(name: str) -> tuple[Any, Mapping[str, Any]]:
            record, chosen = named_record(path, name, names, "")
            return record, choices_brought(path, self.estimator.recipe, chosen, given)

        return read

    def chunk(
        self, cells: Sequence[Cells], size: int, faults: Faults, about: Any = None
    ) -> RowChunk:
        """Return rows as inputs ready to evaluate; rows with errors are recorded in ``faults``."""
        values: dict[str, np.ndarray] = {}  # numbers; for records and choices, their positions
        for order, (column, texts) in enumerate(zip(self.columns, cells, strict=True)):
            if column.kind is Kind.NUMBER:
                values[column.path] = _numbers(column, texts, order, faults)
            elif column.kind in (Kind.RECORD, Kind.CHOICE):
                table = {**self.named, **self.chosen}[column.path]
                values[column.path] = table.places(texts, order, faults)
        values |= self._formats(cells, size, values, faults)
        good = np.ones(size, bool)
        good[list(faults)] = False
        rows = np.flatnonzero(good)
        groups = [self._agreeing(some, values, faults) for some in self._apart(rows, values)]
        return RowChunk(size, [group for group in groups if len(group.rows)], about)

    def _formats(
        self, cells: Sequence[Cells], size: int, values: Mapping[str, np.ndarray], faults: Faults
    ) -> dict[str, np.ndarray]:
        """Return the numbers that the precision of each row stands for on its machine."""
        place = next((n for n, one in enumerate(self.columns) if one.kind is Kind.FORMAT), None)
        expand, path = self.estimator.expand, self.estimator.machine
        if expand is None or (place is None and self.precision is None):
            return {}
        formats = [self.precision] * size if place is None else list(map(str, cells[place]))
        machines = values[path].tolist() if path in values else [None] * size
        found: dict[str, np.ndarray] = {}
        for pair in dict.fromkeys(zip(formats, machines, strict=True)):
            rows = [row for row in range(size) if (formats[row], machines[row]) == pair]
            name, machine = pair
            if machine is not None and machine < 0:  # of no system that there is
                continue
            try:
                on = self.shared.get(path) if machine is None else self.named[path].found[machine]
                numbers, _ = expand({PRECISION: name}, {}, on)
            except InputError as error:
                for row in rows:
                    faults.note(row, -1 if place is None else place, str(error))
                continue
            for field, value in numbers.items():
                found.setdefault(field, np.zeros(size))[rows] = value
        return {field: column for field, column in found.items() if field not in self.given}

    def _agreeing(
        self, rows: np.ndarray, values: Mapping[str, np.ndarray], faults: Faults
    ) -> RowGroup:
        """Return the group of rows whose plan agrees with their other cells; record the others."""
        group = self._group(rows, values)
        wrong = np.broadcast_to(self.estimator.contradictions(group.inputs), len(rows))
        if not wrong.any():
            return group
        for row in rows[wrong].tolist():
            one = self._group(np.array([row]), values)
            try:
                self.estimator.refuse_contradictions(one.inputs)
            except InputError as error:
                faults.note(row, len(self.columns), str(error))
        if wrong.all():
            return RowGroup(rows[:0], group.inputs, group.recipe)
        return self._group(rows[~wrong], values)

    def _apart(self, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
        """Yield groups of rows for one program: same choices, records with the same fields."""
        keys = np.zeros(len(rows), np.int64)
        for path, table in {**self.named, **self.chosen}.items():
            if len(table.kinds) > 1:
                form = np.asarray(table.forms, np.int64)[values[path][rows]]
                keys = np.unique(keys * len(table.kinds) + form, return_inverse=True)[1]
        for key in range(int(keys.max(initial=-1)) + 1):
            some = rows[keys == key]
            if len(some):
                yield some

    def _group(self, rows: np.ndarray, values: Mapping[str, np.ndarray]) -> RowGroup:
        whole = len(rows) == len(next(iter(values.values()), rows))
        recipe, settings = self.recipe, dict(self.shared)
        for path, column in values.items():
            here = column if whole else column[rows]
            if path in self.chosen:
                recipe = choose(recipe, {path: self.chosen[path].found[here[0]]})
            else:
                if path in self.named:
                    recipe = choose(recipe, self.named[path].brought[here[0]])
                settings[path] = self.named[path].stacked(here) if path in self.named else here
        kind, names = self.estimator.inputs, self.estimator.names
        return RowGroup(rows, build_inputs(kind, settings, names, moved=[*values]), recipe)


def _chooser(recipe: Any, key: str) -> Any:
    return lambda text: (choice(recipe, key, text), {})


class _Named:
    """The meaning of each distinct text of a column, read once."""

    def __init__(self, heading: str, read: Any) -> None:
        self.heading, self.read = heading, read
        self.place: dict[str, int] = {}  # text -> its position in `found`, -1 if it is wrong
        self.found: list[Any] = []
        self.brought: list[Mapping[str, Any]] = []  # recipe choices that each record sets
        self.forms: list[int] = []  # of each in `found`: the same number for the same fields
        self.kinds: dict[Any, int] = {}
        self.why: dict[str, str] = {}

    def places(self, texts: Cells, order: int, faults: Faults) -> np.ndarray:
        """Return the position in `found` of each cell's value."""
        texts = texts.astype(str).tolist() if isinstance(texts, np.ndarray) else texts
        for text in dict.fromkeys(texts):
            if text not in self.place:
                self._learn(text)
        places = np.fromiter(map(self.place.__getitem__, texts), np.int64, len(texts))
        for row in np.flatnonzero(places < 0).tolist():
            faults.note(row, order, self.why[texts[row]])
        return places

    def _learn(self, text: str) -> None:
        self.place[text] = -1
        if not text.strip():
            self.why[text] = f"{self.heading}: an empty cell; expected a name"
            return
        try:
            one, brought = self.read(text.strip())
        except InputError as error:
            said = str(error)
            head = f"{self.heading}: "
            self.why[text] = said if said.startswith(head) else head + said
            return
        record = dataclasses.is_dataclass(one)
        fields = tuple(path for path, _, _ in leaves(one)) if record else text.strip()
        form = (fields, *brought.items())
        self.place[text] = len(self.found)
        self.found.append(one)
        self.brought.append(brought)
        self.forms.append(self.kinds.setdefault(form, len(self.kinds)))

    def stacked(self, places: np.ndarray) -> Any:
        """Stack records with the same fields into one record of columns."""
        distinct, place = np.unique(places, return_inverse=True)
        some = [{p: v for p, _, v in leaves(self.found[n])} for n in distinct]
        record = self.found[distinct[0]]
        for path in some[0]:
            values = np.array([float(one[path]) for one in some])
            record = replace_at(record, path, values[place])
        return record


def _numbers(column: RowColumn, cells: Cells, order: int, faults: Faults) -> np.ndarray:
    """Return a column in SI units; ``faults`` records cells that are no number or out of range."""
    wrong: dict[int, str] = {}
    if isinstance(cells, np.ndarray):
        values = cells.astype(np.float64) * column.scale
    else:
        values, wrong = _read(column, cells)
    for row, why in wrong.items():
        faults.note(row, order, why)
    assert column.field is not None
    rows = np.setdiff1d(np.arange(len(values)), list(wrong)) if wrong else np.arange(len(values))
    for row, why in _outside(column, values, rows):
        text = str(cells[row]).strip()
        said, given, _ = why.rpartition(", given ")
        faults.note(row, order, f"{said}{given}{_cut(text)}" if given else why)
    return values


def _read(column: RowColumn, texts: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
    """Parse texts as numbers, all at once if they are plain; also return errors by row."""
    suffix = suffix_of(column.scale)
    count = len(texts)
    try:
        if suffix == "*":
            return np.fromiter(map(float, texts), float, count) * column.scale, {}
        plain = [text + suffix for text in texts] if suffix else texts
        return np.fromiter(map(float, plain), float, count), {}
    except ValueError:
        pass
    known: dict[str, float] = {}
    wrong: dict[str, str] = {}
    scales: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        try:
            known[text] = _one(column, text, suffix, scales)
        except InputError as error:
            known[text], wrong[text] = math.nan, str(error)
    values = np.fromiter(map(known.__getitem__, texts), float, count)
    rows = [row for row, text in enumerate(texts) if text in wrong] if wrong else []
    return values, {row: wrong[texts[row]] for row in rows}


def _one(column: RowColumn, text: str, suffix: str, scales: dict[str, str]) -> float:
    """Parse one cell: a plain number in the column's unit, or a number with its own unit."""
    text = text.strip()
    try:
        plain = float(text)
        return (
            plain * column.scale if suffix == "*" or "e" in text.lower() else float(text + suffix)
        )
    except ValueError:
        pass
    number, _, unit = text.partition(" ")
    try:
        return float(number + scales[unit])
    except (KeyError, ValueError):
        pass
    if not text:
        raise refusal(column.heading, f"an empty cell; expected a value: {_meaning(column)}")
    assert column.field is not None
    value = number_of(text, column.field, column.heading)
    if unit:
        power = suffix_of(parse(f"1 {unit}", column.unit))
        scales |= {} if power == "*" else {unit: power}
    return value


def _meaning(column: RowColumn) -> str:
    assert column.field is not None
    doc = str(column.field.metadata["doc"]).rstrip(".")
    return doc if column.unit == "1" else f"{doc} [{column.unit}]"


def _outside(column: RowColumn, values: np.ndarray, rows: np.ndarray) -> Iterator[tuple[int, str]]:
    """Yield the rows whose number is out of its field's range, with the reason, by bisection."""
    assert column.field is not None
    try:
        checked_values(values[rows], column.field, column.heading)
    except InputError as error:
        if len(rows) == 1:
            yield int(rows[0]), str(error)
            return
        for half in np.array_split(rows, 2):
            yield from _outside(column, values, half)


def _cut(text: str) -> str:
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 3] + "...")
