"""How a grid is cut: into chunks, which are written whole, and each of those into pieces.

A chunk is one file of a store for each result, and what a stopped run loses at most. A piece is
what is evaluated at once, and what is decoded at once when some of a chunk is read.
"""

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

PIECE = 1 << 20  # values of a piece of an array that is written whole


class Piece(NamedTuple):
    """A piece of a chunk: its index and its part inside the chunk, and its part of the grid."""

    place: Mapping[str, int]
    within: Mapping[str, slice]
    part: Mapping[str, slice]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a grid is cut into chunks, numbered with the last dimension fastest.

    ``piece`` divides ``chunk``; without it a chunk is one piece.
    """

    sizes: Mapping[str, int]
    chunk: Mapping[str, int]
    piece: Mapping[str, int] | None = None

    @property
    def inner(self) -> Mapping[str, int]:
        """Return the shape of a piece."""
        return self.chunk if self.piece is None else self.piece

    @property
    def count(self) -> int:
        """Return the number of chunks."""
        return math.prod(self._counts())

    def _counts(self) -> list[int]:
        return [-(-size // self.chunk[dim]) for dim, size in self.sizes.items()]

    def place(self, number: int) -> dict[str, int]:
        """Return a chunk's index along each dimension."""
        found = {}
        for dim, count in reversed(list(zip(self.sizes, self._counts(), strict=True))):
            number, found[dim] = divmod(number, count)
        return {dim: found[dim] for dim in self.sizes}

    def finished(self, lines: Iterable[int | str]) -> set[int]:
        """Return the numbers of this layout's chunks among the lines of a record."""
        return {n for n in lines if isinstance(n, int) and 0 <= n < self.count}

    def part(self, number: int) -> dict[str, slice]:
        """Return the part of each dimension that a chunk covers."""
        return {
            dim: slice(i * self.chunk[dim], min((i + 1) * self.chunk[dim], self.sizes[dim]))
            for dim, i in self.place(number).items()
        }

    def pieces(self, number: int) -> Iterator[Piece]:
        """Yield the pieces of a chunk, the last dimension fastest.

        >>> layout = Layout({"x": 5}, {"x": 4}, {"x": 2})
        >>> [piece.part["x"] for number in range(2) for piece in layout.pieces(number)]
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
        """
        part, inner = self.part(number), self.inner
        counts = [-(-(part[dim].stop - part[dim].start) // inner[dim]) for dim in part]
        for index in itertools.product(*map(range, counts)):
            place = dict(zip(part, index, strict=True))
            starts = {dim: i * inner[dim] for dim, i in place.items()}
            ends = {dim: min(at + inner[dim], size_of(part[dim])) for dim, at in starts.items()}
            within = {dim: slice(starts[dim], ends[dim]) for dim in part}
            yield Piece(place, within, {d: _moved(s, part[d].start) for d, s in within.items()})

    def points(self, number: int) -> int:
        """Return how many points a chunk has."""
        return count_points(self.part(number))


def size_of(some: slice) -> int:
    """Return how many values a slice has."""
    return some.stop - some.start


def _moved(some: slice, by: int) -> slice:
    return slice(some.start + by, some.stop + by)


def count_points(part: Mapping[str, slice]) -> int:
    """Return how many points a part of a grid has."""
    return math.prod(map(size_of, part.values()))


def cut(sizes: Mapping[str, int], most: int, whole: Collection[str] = ()) -> dict[str, int]:
    """Return the shape of parts of at most ``most`` points; the last dimensions stay whole.

    Arguments: dimensions in ``whole`` are never cut.

    >>> cut({"x": 12, "y": 10}, 30), cut({"x": 12, "y": 10}, 30, whole=["x"])
    ({'x': 3, 'y': 10}, {'x': 12, 'y': 2})
    """
    found = {dim: sizes[dim] for dim in whole}
    left = most // math.prod(found.values())
    for dim in reversed([dim for dim in sizes if dim not in found]):
        found[dim] = even_parts(sizes[dim], left)
        left //= found[dim]
    return {dim: found[dim] for dim in sizes}


def gathered(sizes: Mapping[str, int], piece: Mapping[str, int], most: int) -> dict[str, int]:
    """Return the shape of chunks of whole pieces, of at most ``most`` points or of one piece.

    >>> gathered({"x": 12, "y": 10}, {"x": 1, "y": 5}, 40)
    {'x': 4, 'y': 10}
    """
    counts = {dim: -(-size // piece[dim]) for dim, size in sizes.items()}
    several = cut(counts, most // math.prod(piece.values()))
    return {dim: several[dim] * piece[dim] for dim in sizes}


def even_parts(size: int, most: int) -> int:
    """Return the length of a dimension's parts: at most ``most``, and as equal as possible.

    >>> even_parts(28, 10), even_parts(31, 10), even_parts(31, 40)
    (7, 8, 31)
    """
    most = max(1, min(size, most))
    divisor = next((d for d in range(most, most // 2, -1) if size % d == 0), None)
    return divisor or -(-size // -(-size // most))
