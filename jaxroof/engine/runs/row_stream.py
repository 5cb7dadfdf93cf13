"""Evaluate the rows of a table with an estimator: columns in, columns out, a chunk at a time."""

import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.dependencies import results_without_numbers
from jaxroof.engine.grid.evaluate import evaluate_points, place_rows, with_any_placement
from jaxroof.engine.grid.executor import executor_of
from jaxroof.errors import InputError
from jaxroof.estimator import Estimator
from jaxroof.records import leaves, units
from jaxroof.structure import structure

FIRST, LAST, GROWTH = 1 << 4, 1 << 15, 4  # rows of a chunk: first, largest, growth factor
QUICK = 0.25  # seconds: after a quicker chunk the next one is larger, so an interrupt loses little
Columns = Mapping[str, np.ndarray]


class RowGroup(NamedTuple):
    """Rows of a chunk that are evaluated at once: the same recipe, and the same numbers given."""

    rows: np.ndarray  # their positions in the chunk
    inputs: Any  # a record whose leaves are numbers, or columns with one value per row
    recipe: Any


class RowChunk(NamedTuple):
    """A chunk of rows in groups; rows in no group are invalid; ``about`` is the caller's."""

    size: int
    groups: Sequence[RowGroup]
    about: Any = None


@dataclasses.dataclass(frozen=True, eq=False)
class RowResults:
    """The results of a chunk as columns; NaN or 0 where a row has none."""

    chunk: RowChunk
    columns: Columns
    units: Mapping[str, str]
    refused: Sequence[tuple[np.ndarray, InputError]]  # rows refused, and why


def sizes() -> Iterator[int]:
    """Yield the rows of each chunk: fourfold those before while a chunk takes under 0.25 s."""
    rows, since = FIRST, time.perf_counter()
    while True:
        yield min(rows, LAST)
        now = time.perf_counter()
        rows *= GROWTH if now - since < QUICK and rows < LAST else 1
        since = now


def joined(groups: Sequence[RowGroup]) -> list[RowGroup]:
    """Return groups with the same recipe and the same numbers as one, every input a column."""
    alike: dict[Any, list[RowGroup]] = {}
    for group in groups:
        alike.setdefault((group.recipe, structure(group.inputs)), []).append(group)
    return [_as_one(some) if len(some) > 1 else some[0] for some in alike.values()]


def _as_one(groups: Sequence[RowGroup]) -> RowGroup:
    counts = [len(group.rows) for group in groups]
    columns = zip(*([value for _, _, value in leaves(one.inputs)] for one in groups), strict=True)
    whole = (
        np.concatenate([np.broadcast_to(value, n) for value, n in zip(each, counts, strict=True)])
        for each in columns
    )
    inputs = structure(groups[0].inputs).build(whole)
    return RowGroup(np.concatenate([one.rows for one in groups]), inputs, groups[0].recipe)


def stream_rows(estimator: Estimator, chunks: Iterable[RowChunk]) -> Iterator[RowResults]:
    """Yield the results of every chunk, in order.

    If the estimator refuses a group (for example because a number is missing), its rows go into
    ``refused``; the other groups of the chunk are still evaluated.
    """
    seen = 0
    for chunk in chunks:
        seen += chunk.size
        columns: dict[str, np.ndarray] = {}
        said: dict[str, str] = {}
        refused: list[tuple[np.ndarray, InputError]] = []
        for group in chunk.groups:
            try:
                report, found = _answered(estimator, group, seen)
            except InputError as error:
                refused.append((group.rows, error))
                continue
            if columns and set(columns) != set(found):
                raise InputError("rows with other results than those before; expected them apart")
            said |= units(type(report)) if dataclasses.is_dataclass(report) else {}
            for name, values in found.items():
                nothing = np.nan if values.dtype.kind == "f" else 0
                whole = columns.setdefault(name, np.full(chunk.size, nothing, values.dtype))
                whole[group.rows] = values
        yield RowResults(chunk, columns, said, refused)


def _answered(
    estimator: Estimator, group: RowGroup, seen: int
) -> tuple[Any, dict[str, np.ndarray]]:
    """Return a report without its numbers, and the results with the placements that were chosen."""
    inputs, recipe, count = group.inputs, group.recipe, len(group.rows)
    fields = () if estimator.is_placed(inputs) else estimator.placement
    shapes = structure(with_any_placement(estimator, inputs))
    report = results_without_numbers(estimator, recipe, shapes)
    if estimator.sizing is None:
        inputs = place_rows(estimator, inputs, recipe, count)
    executor = executor_of(estimator, recipe, inputs, seen)
    found = evaluate_points(estimator, recipe, inputs, executor=executor)
    placed = {field: getattr(inputs.plan, field).astype(np.int64) for field in fields}
    return report, {n: np.broadcast_to(v, (count,)) for n, v in {**found, **placed}.items()}
