"""The question that a table asks: the settings that its columns are, and rows as inputs."""

import contextlib
import dataclasses
import functools
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.rows.columns import (
    Cells,
    Faults,
    Names,
    RowColumn,
    check_complete,
    numbers,
    read_columns,
    shared_of,
)
from jaxroof.engine.grid.question import resolve
from jaxroof.engine.runs.row_stream import RowChunk, RowGroup, joined
from jaxroof.errors import InputError, refusal
from jaxroof.estimator import Estimator
from jaxroof.structure import map_numbers


class RowProblem:
    """A table's question: the meaning of its columns, and the settings that all rows share."""

    def __init__(
        self, estimator: Estimator, columns: Sequence[RowColumn], shared: Mapping[str, Any]
    ) -> None:
        self.estimator, self.columns, self.shared = estimator, columns, shared
        self.names = {
            column.path: Names(estimator, column)
            for column in columns
            if column.path and column.field is None
        }

    def chunk(
        self, cells: Sequence[Cells], size: int, faults: Faults, about: Any = None
    ) -> RowChunk:
        """Return rows as inputs ready to evaluate; rows with errors are recorded in ``faults``."""
        values: dict[str, np.ndarray] = {}
        places = np.zeros((len(self.names), size), np.int64)  # of each name among those known
        for order, (column, texts) in enumerate(zip(self.columns, cells, strict=True)):
            if column.field is not None:
                values[column.path] = numbers(column, texts, order, faults)
            elif column.path:
                number = [*self.names].index(column.path)
                places[number] = self.names[column.path].places(texts, order, faults)
        rows = np.setdiff1d(np.arange(size), list(faults)) if faults else np.arange(size)
        kinds, kind = np.unique(places[:, rows], axis=1, return_inverse=True)
        groups: list[RowGroup] = []
        for number in range(kinds.shape[1] if len(rows) else 0):
            found = zip(self.names.items(), kinds[:, number], strict=True)
            named = {path: names.found[place] for (path, names), place in found}
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
                self.estimator.refuse_contradictions(_at(group.inputs, place))
            except InputError as error:
                faults.note(int(rows[place]), len(self.columns), str(error))
        return RowGroup(rows[~wrong], _at(group.inputs, ~wrong), group.recipe)


def _at(inputs: Any, places: Any) -> Any:
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
    with _led(head):
        columns = read_columns(estimator, headings)
    with _led("--set"):
        given = shared_of(estimator, shared, columns)
    with _led(where):
        check_complete(estimator, columns, given)
    names = {path: functools.cache(beside(read)) for path, read in estimator.names.items()}
    return RowProblem(dataclasses.replace(estimator, names=names), columns, given)


@contextlib.contextmanager
def _led(where: str) -> Iterator[None]:
    """Prefix every error raised in the block with its location."""
    try:
        yield
    except InputError as error:
        raise refusal(where, str(error)) from error
