"""Rows evaluated by compiled programs, in padded pieces whose size is a power of two.

So one program serves a file of any length, a short file is not evaluated at thousands of points,
and memory use stays constant.
"""

import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jaxroof.engine.grid.chunks import pad_points
from jaxroof.estimator import Estimator
from jaxroof.records import leaves
from jaxroof.structure import map_numbers, structure

MOST = 4096  # most points of a piece
SHORT = 16  # fewer pieces than this reuse a smaller program
SCRATCH = 1 << 26  # most bytes of temporary memory for the program of one piece
AHEAD = 4  # pieces in flight at once


class RowGroup(NamedTuple):
    """Rows of a chunk that share a program: the same recipe, and the same numbers given."""

    rows: np.ndarray  # their positions in the chunk
    inputs: Any  # a record whose leaves are numbers, or columns with one value per row
    recipe: Any


class RowPrograms:
    """The compiled programs of an estimator, by recipe, structure and size."""

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.known: dict[Any, dict[int, Any]] = {}
        self.most: dict[Any, int] = {}

    def run(self, group: RowGroup) -> tuple[int, Iterator[tuple[int, Any]]]:
        """Return the rows of a piece, and the first row and the report of each piece."""
        size, program = self._fitting(group)
        return size, self._pieces(group, size, program)

    def _pieces(self, group: RowGroup, size: int, program: Any) -> Iterator[tuple[int, Any]]:
        waiting: deque[tuple[int, Any]] = deque()
        for start in range(0, len(group.rows), size):
            piece = map_numbers(functools.partial(_piece, start=start, size=size), group.inputs)
            waiting.append((start, program(piece)))
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        yield from waiting

    def _fitting(self, group: RowGroup) -> tuple[int, Any]:
        """Return the piece size and the program for a group; few sizes are compiled."""
        ranks = tuple(np.ndim(value) for _, _, value in leaves(group.inputs))
        shape = (group.recipe, structure(group.inputs), ranks)
        known, most = self.known.setdefault(shape, {}), self.most.get(shape, MOST)
        rows = len(group.rows)
        size = min(most, 1 << (rows - 1).bit_length())
        enough = [held for held in known if held >= size]
        near = [held for held in known if rows < SHORT * held]
        if enough or near:
            size = min(enough) if enough else max(near)
            return size, known[size]
        program = self._compiled(group, size)
        scratch = getattr(program.memory_analysis(), "temp_size_in_bytes", 0)
        if scratch > SCRATCH and size > 1:
            fits = int(SCRATCH * size / scratch)
            size = self.most[shape] = 1 << max(fits.bit_length() - 1, 0)
            program = self._compiled(group, size)
        known[size] = program
        return size, program

    def _compiled(self, group: RowGroup, size: int) -> Any:
        from jaxroof.engine.grid.compiled import evaluate_jit

        inputs = map_numbers(lambda leaf: _piece(leaf, 0, size), group.inputs)
        return evaluate_jit.lower(self.estimator, group.recipe, inputs).compile()


def _piece(leaf: Any, start: int, size: int) -> Any:
    """Return one piece of a column, padded to full size; a single number stays as it is."""
    if np.ndim(leaf) == 0:
        return np.float64(leaf)
    part = leaf[start : start + size]
    return part if len(part) == size else pad_points(part, size)
