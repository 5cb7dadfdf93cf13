"""Who evaluates: NumPy where a question is small, a program compiled by JAX where it is large."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.errors import refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.structure import structure

NUMPY, JAX = "numpy", "jax"
EXECUTORS = (NUMPY, JAX)
SMALL = 3_000_000  # evaluations that NumPy does before a compiler has begun
ONCE = 8_000_000  # before a program kept from an earlier process has begun, if not used again
THREADED = 8  # pieces that are worth threads

Piece = TypeVar("Piece")
Found = TypeVar("Found")


def executor_of(
    estimator: Estimator,
    recipe: Any,
    inputs: Any,
    evaluations: int,
    executor: str | None = None,
    most: int = SMALL,
) -> str:
    """Return who evaluates: who the caller insists on, or by default NumPy up to ``most``.

    An estimator whose formulas loop, or call JAX themselves, is always evaluated by JAX.
    """
    if executor is not None and executor not in EXECUTORS:
        raise unknown("executor", str(executor), "executor", EXECUTORS)
    if executor == JAX or (executor is None and evaluations > most):
        return JAX
    sized = estimator.sizing is not None
    if not sized and dependencies(estimator, recipe, structure(inputs)).on_numpy:
        return NUMPY
    if executor == NUMPY:
        what = f"the formulas of {estimator.name or 'the estimator'} loop, or call JAX"
        raise refusal("executor", f"{what}; expected {JAX!r}")
    return JAX


def by_threads(
    function: Callable[[Piece], Found], pieces: Iterable[Piece], count: int
) -> Iterator[Found]:
    """Yield what a function returns for each of ``count`` pieces, in order, by a thread a core."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    if count < THREADED or cores == 1:
        yield from map(function, pieces)
        return
    with ThreadPoolExecutor(cores) as pool:
        yield from pool.map(function, pieces)
