"""Work in pieces by NumPy, a thread a core: it computes while other threads do."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

THREADED = 8  # pieces that are worth threads

Piece = TypeVar("Piece")
Found = TypeVar("Found")


def by_threads(
    function: Callable[[Piece], Found], pieces: Iterable[Piece], count: int
) -> Iterator[Found]:
    """Yield what a function returns for each of ``count`` pieces, in order.

    >>> list(by_threads(abs, [-1, 2, -3], 3))
    [1, 2, 3]
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if count < THREADED or cores == 1:
        yield from map(function, pieces)
        return
    with ThreadPoolExecutor(cores) as pool:
        yield from pool.map(function, pieces)
