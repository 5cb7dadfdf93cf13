"""Run a sweep file: a search, a table, every plan, the parts of one plan, or elasticities."""

import math
import os
import pathlib
from collections.abc import Mapping, Sequence
from functools import partial

import xarray as xr

from jaxroof.analyses.one_plan import layers
from jaxroof.config.fit_file import asks_for_stages, sampled_stages, stages_of_file
from jaxroof.config.sweep_file import Sweep, _axes, read_sweep
from jaxroof.config.toml_reader import errors_in_file, load
from jaxroof.engine.details import detail
from jaxroof.engine.grid.axes import Axis
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.runs.chunked_sweep import evaluate_sweep
from jaxroof.engine.runs.chunked_sweep import sweep as long_sweep
from jaxroof.engine.runs.cluster import Cluster, check_cluster, finished_chunks
from jaxroof.engine.runs.dry_run import DryRun, dry_run, estimated, thinned
from jaxroof.engine.runs.job import SweepJob, sweep_job
from jaxroof.engine.runs.job_size import check_whole
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.errors import InputError
from jaxroof.io.formats import ZARR, check_writable, write

JOBS = ("step", "plans")  # answers over a grid that may be long


def run(
    path: str | os.PathLike[str],
    progress: Progress | None = None,
    *,
    output: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    overwrite: bool = False,
    trust: bool = False,
    cluster: Cluster | None = None,
) -> xr.Dataset:
    """Return the Dataset of a sweep file: a search, or a table if the file gives a plan.

    Arguments: ``progress`` is called with (done, all) points; ``output`` is a file to write. A
    ``.zarr`` file is written in chunks of at most ``chunk`` points. If a run is stopped, the next
    run computes only the missing chunks, unless ``overwrite`` is set.
    ``trust`` lets the file name an estimator in a module beside it, whose code is then run.
    ``cluster`` evaluates the chunks of a ``.zarr`` file by processes that see the same disk.
    Raises: InputError that starts with the file's name, for any problem in the file.
    """
    if output is not None:
        check_writable(output)
    if cluster is not None:
        check_cluster(cluster)
        if output is None or pathlib.Path(output).suffix != ZARR:
            raise InputError("workers and scheduler: of a .zarr file alone; expected one as output")
    with errors_in_file(path):
        written = load(path)
        if asks_for_stages(written):
            data = stages_of_file(written, pathlib.Path(path).parent)
            return _written(data, output, chunk, overwrite)
    sweep = read_sweep(path, trust)
    grows = output is not None and pathlib.Path(output).suffix == ZARR
    if (chunk is not None or overwrite) and not grows:
        raise InputError("chunk and overwrite: of a .zarr file alone; expected one as the output")
    about = _about(sweep)
    with errors_in_file(path):
        asked = _task(sweep, about) if sweep.answer in JOBS else None
    if grows and asked is not None and output is not None:
        here = os.path.abspath(path), trust
        others = partial(finished_chunks, cluster, (job_of_file, here)) if cluster else None
        way = partial(long_sweep, elsewhere=others)
        return way(asked, output, chunk=chunk, overwrite=overwrite, progress=progress)
    with errors_in_file(path):
        if asked is not None:
            check_whole(asked, output)
        data = evaluate_sweep(asked, progress) if asked else _whole(sweep).assign_attrs(about)
    return _written(data, output)


def _written(
    data: xr.Dataset,
    output: str | os.PathLike[str] | None,
    chunk: int | None = None,
    overwrite: bool = False,
) -> xr.Dataset:
    """Return results that were computed whole, after writing them where that was asked for."""
    if chunk is not None or overwrite:
        raise InputError("chunk and overwrite: of a search or a table; expected none of them")
    if output is not None:
        write(data, output)
    return data


def would_take(
    path: str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    chunk: int | None = None,
    trust: bool = False,
) -> DryRun:
    """Return what a sweep file would take: points, plans, memory, disk, and the time by a sample.

    Arguments are as in ``run``; nothing is written.
    Raises: InputError that starts with the file's name, for any problem in the file.
    """
    if output is not None:
        check_writable(output)
    with errors_in_file(path):
        written = load(path)
        if asks_for_stages(written):
            return estimated(*sampled_stages(written, pathlib.Path(path).parent))
    sweep = read_sweep(path, trust)
    with errors_in_file(path):
        if sweep.answer in JOBS:
            return dry_run(_task(sweep, _about(sweep)), output, chunk)
        axes = _axes(sweep)

        def sampled(count: int, executor: str | None) -> tuple[int, xr.Dataset]:
            some = thinned(axes, count)
            return math.prod(map(len, some)), _whole(sweep, some)

        return estimated({axis.name: len(axis) for axis in axes}, sampled)


def _about(sweep: Sweep) -> dict[str, str]:
    about = {"title": sweep.title, **({"picture": sweep.picture} if sweep.picture else {})}
    return about | ({"answer": sweep.answer} if sweep.answer in ("plans", "elasticities") else {})


def _whole(sweep: Sweep, axes: Sequence[Axis] | None = None) -> xr.Dataset:
    """Return an answer that is computed whole: elasticities, or the parts of one plan."""
    if sweep.answer == "elasticities":
        options = {"axes": _axes(sweep) if axes is None else axes, **sweep.options}
        return elasticities(sweep.estimator, sweep.inputs, sweep.recipe, **options)
    if sweep.answer == "layers":
        return layers(sweep.inputs, sweep.recipe, estimator=sweep.estimator)
    return detail(sweep.estimator, sweep.answer, sweep.inputs, sweep.recipe)


def job_of_file(path: str, trust: bool) -> SweepJob:
    """Return the checked sweep of a file, as another process builds it.

    Raises: InputError that starts with the file's name, for any problem in the file.
    """
    sweep = read_sweep(path, trust)
    with errors_in_file(path):
        return _task(sweep, _about(sweep))


def _task(sweep: Sweep, about: Mapping[str, str]) -> SweepJob:
    """Return the checked sweep of a sweep file."""
    return sweep_job(
        sweep.estimator,
        sweep.inputs,
        sweep.recipe,
        axes=_axes(sweep),
        searched=sweep.searched,
        plans=sweep.answer == "plans",
        about=about,
        **sweep.options,
    )
