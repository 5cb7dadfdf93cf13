"""Long sweeps: the grid is cut into chunks, stored one by one, and a stopped run can resume."""

import contextlib
import dataclasses
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

import xarray as xr

from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.dataset import dataset
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.engine.runs.job import (
    SHOWN_AS,
    SweepJob,
    check_chunks,
    check_same,
    different_sweep,
    fingerprint,
    searched_points,
)
from jaxroof.engine.search import all_plans as every_plan
from jaxroof.engine.search.problem import SearchProblem, axis_roles, check_searches
from jaxroof.engine.search.search import best_of_each, search_dataset
from jaxroof.errors import InputError, refusal
from jaxroof.io import chunk_manifest as ledger
from jaxroof.io import zarr_store
from jaxroof.io.atomic import Path
from jaxroof.io.layout import Layout, Piece, count_points, cut, gathered
from jaxroof.io.stored_format import separated
from jaxroof.limits import out_of_memory

SEARCHED, TABULATED = 1 << 16, 1 << 18  # points of a piece, at most: about a second of work
FEW = 1 << 10  # chunks beyond which they become larger: each is a file per result
Sums = Mapping[str, Any]  # attributes that add up over the chunks
# (path, layout, numbers of chunks) -> the number of each chunk, once it is written and recorded
Elsewhere = Callable[[Path, Layout, Iterator[int]], Generator[int]]


def sweep(
    asked: SweepJob,
    path: Path,
    *,
    chunk: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    elsewhere: Elsewhere | None = None,
) -> xr.Dataset:
    """Return the results of a sweep, written to a Zarr store chunk by chunk.

    If the store already holds some chunks, only the missing ones are computed; a complete store
    is left unchanged. An interrupted run keeps every finished chunk.
    Arguments: ``chunk`` is the largest number of points in a chunk; ``overwrite`` discards an
    existing store; ``progress`` is called with (done, all) points; ``elsewhere`` has all chunks but
    the first, which lays out the store, evaluated by other processes.
    """
    if chunk is not None and chunk < 1:
        raise InputError(f"chunk: expected a whole number of at least 1, given {chunk}")
    if not os.path.exists(path):
        layout = chunk_layout(asked, chunk)
        check_chunks(asked, layout, path, layout.count)
    with ledger.write_lock(path):
        about = fingerprint(asked)
        known = None if overwrite else ledger.plan(path)
        if known is None:
            ledger.clear(path)
            layout = chunk_layout(asked, chunk)
        else:
            layout = Layout(**known["layout"])
            check_same(path, asked, known["asked"], about)
            if chunk is not None and chunk_layout(asked, chunk).chunk != layout.chunk:
                most = math.prod(layout.chunk.values())
                raise different_sweep(f"chunk: {most:,} points there, {chunk:,} here", path)
            wrong = ledger.first_damaged(path, known["files"], thorough=True)
            if wrong is not None:
                said = f"damaged: {wrong} is not as it was written; {ledger.ANEW}"
                raise refusal(os.fspath(path), said)
        _finish(asked, path, layout, about, progress, elsewhere)
    return separated(zarr_store.read(path))[0]


def _finish(
    asked: SweepJob,
    path: Path,
    layout: Layout,
    about: Any,
    progress: Progress | None,
    elsewhere: Elsewhere | None,
) -> None:
    """Evaluate and write the missing chunks."""
    lines, begun = ledger.verified(path), ledger.plan(path) is not None
    done = layout.finished(lines)
    points = sum(layout.points(number) for number in done)
    check_chunks(asked, layout, path, layout.count - len(done))
    if begun and len(done) < layout.count:
        zarr_store.reopen(path)
    if begun:
        ledger.remove_partials(path)
    missing = (number for number in range(layout.count) if number not in done)
    try:
        for number in missing if elsewhere is None else itertools.islice(missing, not begun):
            shares: list[Sums] = []
            pieces = evaluated_pieces(asked, layout, number, shares, progress, points)
            if not begun:
                first = next(pieces)
                coordinates = dataset({}, asked.axes, asked.inputs, {}, {})
                zarr_store.create(path, first[1], coordinates, layout, about)
                begun, pieces = True, itertools.chain(iter([first]), pieces)  # held no longer
                del first
            files = zarr_store.write_region(path, number, layout, pieces)
            zarr_store.record_chunk(path, number, files, added(shares))
            done.add(number)
            points += layout.points(number)
        if elsewhere is not None and len(done) < layout.count:
            told = progress or (lambda *_: None)
            told(points, asked.points)
            with contextlib.closing(elsewhere(path, layout, missing)) as finished:
                for number in finished:
                    done.add(number)
                    points += layout.points(number)
                    told(points, asked.points)
        whole = added(line["sums"] for line in ledger.record(path).values())
        sums = {name: json.dumps(value) for name, value in whole.items()}
        zarr_store.finalise(path, {**sums, **asked.about}, without=SHOWN_AS)
    except (KeyboardInterrupt, MemoryError, RuntimeError) as error:
        said = f"{len(done)} of {layout.count} chunks are finished; run again to continue"
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt(said) from None
        raise out_of_memory(error, said, os.fspath(path)) from None


def evaluated_pieces(
    asked: SweepJob,
    layout: Layout,
    number: int,
    shares: list[Sums],
    progress: Progress | None = None,
    before: int = 0,
) -> Iterator[tuple[Piece, xr.Dataset]]:
    """Yield the results of each piece of a chunk; append its share of the attributes that add up.

    Arguments: ``shares`` receives them; ``before`` is how many points of the sweep are done.
    """
    for piece in layout.pieces(number):
        points = count_points(piece.part)
        told = _within(progress, before, points, asked.points)
        data, share = _evaluated(asked, piece.part, told)
        shares.append(share)
        before += points
        yield piece, data


def _within(progress: Progress | None, before: int, here: int, total: int) -> Progress | None:
    """Return a callback that reports the progress of one piece in points of the whole sweep."""
    if progress is None:
        return None
    progress(before, total)
    return lambda done, most: progress(before + here * done // max(most, 1), total)


def _evaluated(
    asked: SweepJob, part: Mapping[str, slice], progress: Progress | None
) -> tuple[xr.Dataset, Sums]:
    """Return the results of one chunk, and its share of the attributes that add up over chunks."""
    axes = tuple(axis.part(part[axis.name]) for axis in asked.axes)
    if asked.every is not None:
        plans = part[every_plan.DIMENSION]
        data = every_plan.evaluate_plans(
            asked.estimator, asked.every, asked.recipe, axes[0], plans, progress=progress
        )
        return data.assign_attrs(asked.about), {}
    if not asked.searched:
        data = tabulate(
            asked.estimator,
            asked.inputs,
            asked.recipe,
            axes=axes,
            progress=progress,
            **asked.options,
        )
        return data.assign_attrs(asked.about), {}
    every, questions = searches_of(asked, axes)
    found = best_of_each(questions, progress)
    refused: Counter[str] = Counter()
    for question, best in found:
        kind = axis_roles(question)
        lists = {question.axes[d].name for d in kind.outer + kind.structural}
        # every chunk along the other axes lists the same plans: count the refused ones once
        if all(part[axis.name].start == 0 for axis in question.axes if axis.name not in lists):
            refused.update(best.refused)
    data = search_dataset(every, found).assign_attrs(asked.about)
    return data, {"combinations": sum(one.combinations for _, one in found), "refused": refused}


def searches_of(
    asked: SweepJob, axes: tuple[Axis, ...]
) -> tuple[tuple[Axis, ...], list[SearchProblem]]:
    """Return the axes and the searches of a sweep, or of a part of it."""
    arguments = (asked.estimator, asked.inputs, asked.recipe)
    every, questions = check_searches(*arguments, axes=axes, **asked.options)
    once = len(questions) == 1 and math.prod(map(len, axes)) == asked.points
    return every, [dataclasses.replace(one, once=once) for one in questions]


def added(sums: Iterable[Sums]) -> Sums:
    """Return the shares of several pieces, or chunks, of the attributes that add up."""
    searched = [some for some in sums if some]
    if not searched:
        return {}
    refused: Counter[str] = Counter()
    for some in searched:
        refused.update(some["refused"])
    return {"refused": refused, "combinations": sum(some["combinations"] for some in searched)}


def evaluate_sweep(asked: SweepJob, progress: Progress | None = None) -> xr.Dataset:
    """Return the results of a sweep, all at once; ``progress`` gets (done, all) points."""
    whole = {axis.name: slice(0, len(axis)) for axis in asked.axes}
    return _evaluated(asked, whole, _within(progress, 0, asked.points, asked.points))[0]


def chunk_layout(asked: SweepJob, chunk: int | None = None) -> Layout:
    """Return how a sweep is cut into chunks and pieces; the last axes stay whole where they fit.

    A chunk of a long sweep is about a thousandth of it, so its files stay few, and has many pieces.
    Axes over choices of the recipe are never cut. The results may depend on different axes under
    different choices, so each piece needs every choice.
    """
    usual = max(1, min(SEARCHED, searched_points(asked))) if asked.searched else TABULATED
    most = chunk or max(usual, asked.points // FEW)
    sizes = {axis.name: len(axis) for axis in asked.axes}
    piece = cut(sizes, min(usual, most), [axis.name for axis in asked.axes if axis.choices])
    return Layout(sizes, gathered(sizes, piece, most), piece)
