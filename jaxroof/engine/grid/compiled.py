"""Evaluation by programs that JAX compiles, in chunks of one shape, so that memory is constant."""

import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.engine.grid.axes import column_length
from jaxroof.engine.grid.chunks import pad_points
from jaxroof.estimator import Estimator, ProgramSizes, first_best
from jaxroof.records import get_at, leaves, replace_at
from jaxroof.structure import results

VARIABLE = "JAXROOF_CACHE"  # a folder; empty: keep nothing
LEAST = 0.1  # seconds of compilation from which on a program is kept


def cache_folder() -> str:
    """Return the folder of compiled programs, empty if none are kept.

    It is that of the environment variable ``JAXROOF_CACHE``, or ``jaxroof`` in the user's cache.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get(VARIABLE, os.path.join(home, "jaxroof"))


def keep_programs() -> None:
    """Keep the programs that JAX compiles in this process, unless it keeps them elsewhere already.

    JAX names each program by its text, its version and the machine, so that one of another version
    or machine is passed over. What it reads is compiled code: the folder must be the user's own.
    """
    folder = cache_folder()
    if not folder or jax.config.jax_compilation_cache_dir:  # type: ignore[attr-defined]
        return
    try:
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # the home is not writable: compile anew each time
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
    # a full disk leaves unreadable entries: those programs are silently compiled again
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")


keep_programs()

CHUNK = 4096  # points per call; shorter lists are padded and share one compiled program


@functools.partial(jax.jit, static_argnums=(0, 1))
def first_best_jit(estimator: Estimator, recipe: Any, inputs: Any) -> Any:
    """Return the index of the best placement at each point, by a compiled program."""
    return first_best(estimator, recipe, inputs)


@functools.partial(jax.jit, static_argnums=(0, 1, 3))
def evaluate_jit(estimator: Estimator, recipe: Any, inputs: Any, name: str | None = None) -> Any:
    """Evaluate with a compiled program; return the report, or only the result ``name``."""
    report = jax.tree.map(jnp.asarray, estimator.evaluate_checked(inputs, recipe))
    return report if name is None else {name: results(report)[name]}


@functools.partial(jax.jit, static_argnums=(0, 1))
def slopes_jit(
    found: Callable[[Any], Mapping[str, Any]], paths: tuple[str, ...], inputs: Any, ways: Any
) -> Any:
    """Return numbers [points] by name, and their slopes [way, points] along ways of parameters.

    Forward mode differentiates through every kind of loop and compiles in half the time of reverse
    mode, which runs a few milliseconds faster per map (``benchmarks/sensitivity_speed.py``).
    """

    def numbers(change: jax.Array) -> dict[str, jax.Array]:
        moved = inputs
        for number, path in enumerate(paths):
            moved = replace_at(moved, path, get_at(moved, path) * (1.0 + change[number]))
        return {name: jnp.asarray(value) for name, value in found(moved).items()}

    still = jnp.zeros(ways.shape[1:])
    return jax.vmap(lambda way: jax.jvp(numbers, (still,), (way,)), out_axes=(None, 0))(ways)


def evaluate_points(
    estimator: Estimator, recipe: Any, inputs: Any, name: str | None = None
) -> dict[str, np.ndarray]:
    """Return the results at every point, by compiled programs.

    Every leaf is passed as a column, so that one compiled program serves any choice of axes. Where
    points need programs of different sizes, they are sorted by that and cut into batches of one
    program each. Batches run in parallel.
    """
    sizing, count = estimator.sizing, column_length(inputs)
    columns = {path: np.asarray(value, np.float64) for path, _, value in leaves(inputs)}
    columns = {path: np.broadcast_to(column, (count,)) for path, column in columns.items()}
    if sizing is None:
        starts = range(0, max(count, 1), CHUNK)
        batches = [(np.arange(s, min(s + CHUNK, count)), recipe) for s in starts]
    else:
        needed = sizing.of(inputs)
        batches = list(_batches(sizing, recipe, np.broadcast_to(needed, (count, needed.shape[1]))))

    def answer(batch: tuple[np.ndarray, Any]) -> dict[str, np.ndarray]:
        rows, fitted = batch
        chunk, room = inputs, CHUNK if sizing is None else sizing.batch(fitted)
        if sizing is not None and len(rows) <= SHORT:
            room = min(SHORT, room)
        for path, column in columns.items():
            chunk = replace_at(chunk, path, pad_points(column[rows], room))
        found = results(evaluate_jit(estimator, fitted, chunk, name))
        return {n: np.broadcast_to(np.asarray(v), (room,)) for n, v in found.items()}

    whole: dict[str, np.ndarray] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as workers:
        for (rows, _), found in zip(batches, workers.map(answer, batches), strict=True):
            for result, values in found.items():
                column = whole.setdefault(result, np.empty(count, values.dtype))
                column[rows] = values[: len(rows)]
    return whole


SHORT = 64  # points per batch; batches up to this size are padded to it, others to a full batch


def _batches(
    sizing: ProgramSizes, recipe: Any, sizes: np.ndarray
) -> Iterator[tuple[np.ndarray, Any]]:
    """Yield the point indices of each batch and the recipe of its program."""
    largest = sizing.fit(recipe, sizes.max(axis=0))
    if len(sizes) <= sizing.batch(largest):
        yield np.arange(len(sizes)), largest
        return
    different, number = np.unique(sizes, axis=0, return_inverse=True)
    fits = [sizing.fit(recipe, size) for size in different]
    programs = list(dict.fromkeys(fits))
    program = np.array([programs.index(fit) for fit in fits])[number.ravel()]
    order = np.lexsort([number.ravel(), program])
    for kind, fitted in enumerate(programs):
        rows, most = order[program[order] == kind], sizing.batch(fitted)
        for start in range(0, len(rows), most):
            yield rows[start : start + most], fitted
