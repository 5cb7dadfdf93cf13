"""What an answer says: sentences and tables in their order, each from some detail on."""

import enum
from collections.abc import Iterator
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

Piece = str | Table | Text  # a sentence, a table, a line drawn in characters


class Detail(enum.IntEnum):
    """How much is shown, from least to most."""

    JSON = 0  # one JSON object for programs
    QUIET = 1  # the table, or the one answer
    USUAL = 2  # what a person needs in a minute
    VERBOSE = 3  # proofs, counts, what was assumed


class Page(NamedTuple):
    """Where an answer is shown: how much room there is, and what stands beside it."""

    width: int = 10_000  # characters
    most: int = 20  # points of an axis, or sizes of a sweep
    every: bool = True  # parameters without a share of their own too
    kept: bool = True  # the results are written or drawn already


REPORT = Page()


class Said(NamedTuple):
    """One piece of an answer, and the least detail at which it is shown; "" says nothing."""

    at: Detail
    piece: Piece
    is_title: bool = False


def title(text: str) -> Iterator[Said]:
    """Yield the title of what follows."""
    yield Said(Detail.USUAL, text, is_title=True)


def quiet(*pieces: Piece) -> Iterator[Said]:
    """Yield the table, or the one answer, which is always shown."""
    return (Said(Detail.QUIET, piece) for piece in pieces)


def usual(*pieces: Piece) -> Iterator[Said]:
    """Yield what a person needs in a minute.

    >>> [said.piece for said in usual("Fastest: dp 8.", "Plan: dp 8")]
    ['Fastest: dp 8.', 'Plan: dp 8']
    """
    return (Said(Detail.USUAL, piece) for piece in pieces)


def verbose(*pieces: Piece) -> Iterator[Said]:
    """Yield proofs, counts and what was assumed."""
    return (Said(Detail.VERBOSE, piece) for piece in pieces)
