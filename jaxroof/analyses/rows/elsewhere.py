"""Rows of a table that the workers of a cluster evaluate, block by block.

The client reads the file and writes the answers, in their order. A worker gets the cells of a block
and returns columns; a block of a worker that dies is given to another.
"""

import dataclasses
import functools
import pathlib
import uuid
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.rows.cells import Faults
from jaxroof.analyses.rows.evaluate import check_rows, chunk_of_block, places_of, row_problem
from jaxroof.engine.runs.cluster import ALONE, Cluster, connected, result_of
from jaxroof.engine.runs.row_programs import RowPrograms
from jaxroof.engine.runs.row_stream import RowChunk, RowResults, stream_rows
from jaxroof.errors import InputError
from jaxroof.estimators.plugins import estimator_of
from jaxroof.io.csv_blocks import CsvBlock, RowFile

ROWS = 1 << 13  # of a block
AHEAD = 64  # blocks that are with the workers at once


@dataclasses.dataclass(frozen=True)
class RowQuestion:
    """What a worker needs to read cells: the estimator by name, folders, headings, settings."""

    estimator: str
    here: str  # the folder of an estimator of one's own
    folder: str  # that of the table, which may name files beside it
    path: str
    headings: tuple[str, ...]
    settings: tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class BlockResults:
    """The results of a block as a worker returns them: columns, units, rows refused, faults."""

    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    refused: Sequence[tuple[np.ndarray, str]]
    faults: Mapping[int, tuple[int, str]]


def question_of(
    estimator: str, here: pathlib.Path, file: RowFile, settings: Mapping[str, Any]
) -> RowQuestion:
    """Return what a worker needs to read the cells of a file."""
    folder = str(pathlib.Path(file.path).absolute().parent)
    given = tuple(settings.items())
    return RowQuestion(estimator, str(here), folder, file.path, tuple(file.headings), given)


def rows_elsewhere(
    cluster: Cluster,
    estimator: str,
    here: pathlib.Path,
    settings: Mapping[str, Any],
    file: RowFile,
    keep_going: bool,
) -> Generator[RowResults]:
    """Yield the results of every block of a file, in order, evaluated by a cluster.

    Raises: InputError for what a worker refuses, or if the workers or the scheduler are lost.
    """
    question = question_of(estimator, here, file, settings)
    waiting: deque[tuple[CsvBlock, Any]] = deque()
    run, seen = uuid.uuid4().hex, 0
    with connected(cluster) as client:
        more = True
        while more or waiting:
            while more and len(waiting) < AHEAD:
                block = file.take(ROWS)
                more = block is not None
                if block is not None:
                    arguments = (question, block, seen, keep_going)
                    key = f"rows-{run}-{seen}"
                    waiting.append((block, client.submit(rows_of, *arguments, key=key, pure=False)))
                    seen += len(block.typed)
            if waiting:
                block, future = waiting.popleft()
                yield _joined(question, block, result_of(future, file.path))


def _joined(question: RowQuestion, block: CsvBlock, found: BlockResults) -> RowResults:
    """Return what a worker found of a block, beside its rows."""
    about = (places_of(question.path, block), Faults(found.faults), block)
    chunk = RowChunk(len(block.typed), (), about)
    refused = [(rows, InputError(why)) for rows, why in found.refused]
    return RowResults(chunk, found.columns, found.units, refused)


def rows_of(question: RowQuestion, block: CsvBlock, seen: int, keep_going: bool) -> BlockResults:
    """Evaluate a block on a worker.

    Raises: InputError for the first row with an error, unless ``keep_going``.
    """
    with ALONE:
        problem, programs = _problem(question)
        chunk = check_rows(chunk_of_block(problem, question.path, block), keep_going)
        (found,) = stream_rows(problem.estimator, [chunk], programs, seen)
        refused = [(rows, str(why)) for rows, why in found.refused]
        return BlockResults(found.columns, found.units, refused, dict(chunk.about[1]))


@functools.lru_cache(maxsize=1)
def _problem(question: RowQuestion) -> tuple[Any, RowPrograms]:
    """Return the problem of a table as this process understands it, and its programs."""
    asked = estimator_of(question.estimator, pathlib.Path(question.here), trust=True)
    where = question.path, f"{question.path}: line 1"
    settings, headings = dict(question.settings), list(question.headings)
    problem = row_problem(asked, headings, settings, question.folder, *where)
    return problem, RowPrograms(asked)
