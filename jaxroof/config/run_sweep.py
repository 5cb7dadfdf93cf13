"""Run a sweep file: a search, a table, every plan, the parts of one plan, or elasticities."""

import math
import os
import pathlib
from collections.abc import Mapping
from functools import partial

import xarray as xr

from jaxroof.analyses.one_plan import layers
from jaxroof.config.sweep_file import RECORDS, Sweep, read_sweep
from jaxroof.config.toml_reader import errors_in_file
from jaxroof.engine.details import detail
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.spacing import length_of, thinned_values
from jaxroof.engine.runs.chunked_sweep import evaluate_sweep
from jaxroof.engine.runs.chunked_sweep import sweep as long_sweep
from jaxroof.engine.runs.cluster import Cluster, check_cluster, finished_chunks
from jaxroof.engine.runs.dry_run import DryRun, dry_run, estimated, thinned, thinned_lengths
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
    grows = output is not None and pathlib.Path(output).suffix == ZARR
    if cluster is not None:
        check_cluster(cluster)
        if not grows:
            raise InputError("workers and scheduler: of a .zarr file alone; expected one as output")
    sweep = read_sweep(path, trust)
    if chunk is not None or overwrite:
        if not grows:
            what = "of a .zarr file alone; expected one as the output"
            raise InputError(f"chunk and overwrite: {what}")
        if sweep.answer not in JOBS:
            raise InputError("chunk and overwrite: of a search or a table; expected none of them")
    with errors_in_file(path):
        asked = _job(sweep) if sweep.answer in JOBS else None
    if grows and asked is not None and output is not None:
        here = os.path.abspath(path), trust
        others = partial(finished_chunks, cluster, (job_of_file, here)) if cluster else None
        way = partial(long_sweep, elsewhere=others)
        return way(asked, output, chunk=chunk, overwrite=overwrite, progress=progress)
    with errors_in_file(path):
        if asked is not None:
            check_whole(asked, output)
        data = _whole(sweep) if asked is None else evaluate_sweep(asked, progress)
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
    sweep = read_sweep(path, trust)
    with errors_in_file(path):
        if sweep.answer in JOBS:
            return dry_run(_job(sweep), output, chunk)
        lengths = lengths_of(sweep)

        def sampled(count: int, executor: str | None) -> tuple[int, xr.Dataset]:
            return math.prod(thinned_lengths([*lengths.values()], count)), _whole(sweep, count)

        return estimated(lengths, sampled)


def lengths_of(sweep: Sweep) -> dict[str, int]:
    """Return how many values each axis of a sweep has."""
    if sweep.question is None:
        return {key: length_of(values) for key, values in sweep.options["axes"].items()}
    return {axis.name: len(axis) for axis in sweep.question.axes}


def _whole(sweep: Sweep, count: int | None = None) -> xr.Dataset:
    """Return an answer that is computed whole, or at about ``count`` of its points.

    It is the memory by stage, elasticities, or the parts of one plan.
    """
    asked, options = sweep.question, sweep.options
    if asked is None:
        from jaxroof.analyses.fit_stages import fit_stages  # of no other file

        axes = options["axes"]
        if count is not None:
            some = thinned_lengths([*lengths_of(sweep).values()], count)
            pairs = zip(axes.items(), some, strict=True)
            axes = {key: thinned_values(values, length) for (key, values), length in pairs}
        data = fit_stages(**{**options, "axes": axes})
        names = {name: options[name] for name in RECORDS if options[name] is not None}
        return data.assign_attrs({**names, "title": sweep.title})
    if sweep.answer == "elasticities":
        if count is not None:
            asked = asked._replace(axes=thinned(asked.axes, count))
        found = elasticities(asked.estimator, asked, **options)
    elif sweep.answer == "layers":
        found = layers(asked.inputs, asked.recipe, estimator=asked.estimator)
    else:
        found = detail(asked.estimator, sweep.answer, asked.inputs, asked.recipe)
    return found.assign_attrs(_about(sweep))


def job_of_file(path: str, trust: bool) -> SweepJob:
    """Return the checked sweep of a file, as another process builds it.

    Raises: InputError that starts with the file's name, for any problem in the file.
    """
    sweep = read_sweep(path, trust)
    with errors_in_file(path):
        return _job(sweep)


def _job(sweep: Sweep) -> SweepJob:
    """Return the checked sweep of a search, a table or every plan."""
    assert sweep.question is not None
    return sweep_job(
        sweep.question.estimator,
        sweep.question,
        searched=sweep.searched,
        plans=sweep.answer == "plans",
        about=_about(sweep),
        **sweep.options,
    )


def _about(sweep: Sweep) -> Mapping[str, str]:
    about = {"title": sweep.title, **({"picture": sweep.picture} if sweep.picture else {})}
    return about | ({"answer": sweep.answer} if sweep.answer in ("plans", "elasticities") else {})
