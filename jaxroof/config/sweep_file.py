"""Sweep files: a question in TOML, read and checked once, then answered."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import xarray as xr

from jaxroof.analyses.one_plan import layers
from jaxroof.catalog.lookup import system
from jaxroof.config.toml_reader import axes, beside, flat, load, once, typed
from jaxroof.engine.details import detail
from jaxroof.engine.grid.axes import paths_of
from jaxroof.engine.grid.chunks import Progress
from jaxroof.engine.grid.question import Question, ask, check_no_plan, long_names
from jaxroof.engine.runs.chunked_sweep import evaluate_sweep
from jaxroof.engine.runs.chunked_sweep import sweep as long_sweep
from jaxroof.engine.runs.cluster import Cluster, check_cluster, finished_chunks
from jaxroof.engine.runs.dry_run import DryRun, dry_run, estimated, thinned, thinned_lengths
from jaxroof.engine.runs.job import SweepJob, check_whole, sweep_job
from jaxroof.engine.sensitivity.elasticities import elasticities
from jaxroof.errors import InputError, errors_in, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import on_system
from jaxroof.estimators.plugins import estimator_of
from jaxroof.estimators.training.named_settings import KINDS
from jaxroof.estimators.training.step import training
from jaxroof.io.formats import ZARR, check_writable, write
from jaxroof.settings import known_paths, no_field

STAGE_KEYS = {
    "title": str, "picture": str, "answer": str, "estimator": str, "model": str, "system": str,
    "plan": dict, "set": dict, "axes": dict,
}  # fmt: skip
KEYS = STAGE_KEYS | {
    "format": str, "precision": str, "inputs": dict, "search": dict, "elasticities": dict
}  # fmt: skip
RECORDS = ("model", "system")  # records that a file may give by name
OF_THE_BATCH = ("gpus", "global_batch", "sequence")  # no fields of a plan, that stand in [plan]
JOBS = ("step", "plans")  # the best plans or a table, every plan: over a grid that may be long
SEARCH_KEYS: dict[str, dict[str, Any]] = {
    "step": {"top": int, "where": str, "objective": str, "placements": bool},
    "plans": {"where": str},
    "elasticities": {"where": str, "objective": str},
}
ELASTICITY_KEYS = {"parameters": list, "of": str}


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep file, read and checked."""

    title: str
    answer: str
    options: dict[str, Any]  # of the question; of the memory by stage names of records
    question: Question
    searched: bool = False
    picture: str = ""  # the default picture of `plot`


def read_sweep(path: str | os.PathLike[str], trust: bool = False) -> Sweep:
    """Return the checked contents of a sweep file.

    ``trust`` lets it name an estimator in a module beside it, whose code is then run.
    """
    with errors_in(path):
        written, where = load(path), pathlib.Path(path)
        if written.get("estimator") == training.name and written.get("answer") == "stages":
            return _stages(written, where.parent)
        return _sweep(written, where, trust)


def _sweep(written: dict[str, Any], path: pathlib.Path, trust: bool) -> Sweep:
    fields = {*KINDS, *(path.rpartition(".")[2] for path in known_paths(training.inputs))}
    for key in written:
        if key not in KEYS and key in {*fields, *training.short_names}:
            said = "a setting; expected it in [plan] or [set], or its values in [axes]"
            raise refusal(key, said)
    typed("", written, KEYS)
    with errors_in("estimator"):
        estimator = estimator_of(written.get("estimator", training.name), path.parent, trust)
        machine = written.get("system")
        estimator = on_system(estimator, machine and beside(path.parent, machine))
    varied = axes(written.get("axes", {}), folder=path.parent)
    settings = plan_and_set(written, estimator)
    placed = {key: settings.pop(key) for key in ("placement",) if settings.get(key) is not None}
    typed("plan", placed, {"placement": str})
    moved = placed and any(path.startswith("plan.") for path in paths_of(varied))
    degrees = any(path.startswith("plan.") for path in settings)
    own = estimator.plan is not None and bool(degrees or moved)
    searched = estimator.candidates is not None and not own
    if own:  # other degrees are 1, a missing placement stays open
        every = dataclasses.fields(estimator.plan)  # type: ignore[arg-type]
        needed = (f.name for f in every if f.default is dataclasses.MISSING)
        settings = dict.fromkeys((f"plan.{name}" for name in needed), 1.0) | settings
    answer = _answer(written, estimator, own or estimator.plan is None)
    if searched:
        check_no_plan(estimator, varied)
    question = read_question(written, path.parent, estimator, settings, varied)
    options = _options(written, answer, searched, own) | written.get("elasticities", {}) | placed
    if searched and placed:
        what = "the search chooses it; expected degrees of your own beside"
        raise refusal("plan.placement", what)
    title, picture = written.get("title", path.stem), written.get("picture", "")
    return Sweep(title, answer, options, question, searched, picture)


def _options(written: Mapping[str, Any], answer: str, searched: bool, own: bool) -> dict[str, Any]:
    """Return the options of [search], after checking that they and those of slopes apply."""
    options = written.get("search", {})
    if options and not searched:
        why = "a plan of your own is given" if own else "this estimator has no plans to choose"
        raise refusal("search", f"nothing to search: {why}; expected no [search]")
    typed("search", options, SEARCH_KEYS.get(answer, {}) if searched else {})
    slopes = written.get("elasticities", {})
    if slopes and answer != "elasticities":
        raise refusal("elasticities", 'not asked for; expected answer = "elasticities" beside')
    typed("elasticities", slopes, ELASTICITY_KEYS)
    if answer == "plans" and not searched:
        raise refusal("answer", "plans are listed; expected an estimator with plans, and no plan")
    return options


def _answer(written: Mapping[str, Any], estimator: Estimator, planned: bool) -> str:
    """Return the answer that the file requests, one of ANSWERS, after checking that it applies."""
    answer, details = written.get("answer", JOBS[0]), estimator.details()
    known = (*JOBS, "elasticities", *details)
    if answer not in known:
        raise unknown("answer", answer, f"answer of {estimator.name or 'the estimator'}", known)
    if answer in details and (not planned or written.get("axes")):
        what = f"{answer} are of one plan; expected its degrees in plan and no axes"
        raise refusal("answer", what)
    return str(answer)


def plan_and_set(written: Mapping[str, Any], estimator: Estimator) -> dict[str, Any]:
    """Return the settings of [plan] and [set] by their paths, each field once."""
    changes = dict(flat(written.get("set", {})))
    if "precision" in written:
        once(changes, "at the top", written, "precision")
        changes["precision"] = written.get("precision", "")
    plan, fields = written.get("plan", {}), known_paths(estimator.inputs)
    plan = {f"plan.{key}" if f"plan.{key}" in fields else key: plan[key] for key in plan}
    once(changes, "in plan", plan, *plan)
    given = dict(flat(written.get("inputs", {})))
    once(changes, "in inputs", given, *given)
    return long_names(estimator, {**plan, **changes})


def read_question(
    written: Mapping[str, Any],
    folder: pathlib.Path,
    estimator: Estimator,
    settings: Mapping[str, Any],
    varied: Mapping[str, Any],
) -> Question:
    """Return a file's question: records are given by name, fields by path in [inputs]."""
    if {*RECORDS} <= {*estimator.names} and "inputs" in written:
        raise refusal("inputs", f"not of {estimator.name}; use [set] for fields")
    given = dict(flat(written.get("inputs", {})))
    fields = known_paths(estimator.inputs)
    for path in given:
        if path not in fields:
            raise no_field(estimator.inputs, path, fields, "inputs.")
    given |= _records(written, folder, estimator, {*given, *paths_of(varied)})
    try:
        return ask(estimator, settings={**given, **settings}, axes=varied)
    except InputError as error:
        path = str(error).partition(":")[0]
        inside = path in fields and path not in (*RECORDS, *settings, *paths_of(varied))
        raise InputError(f"inputs.{error}" if inside else str(error)) from error


def _records(
    written: Mapping[str, Any], folder: pathlib.Path, estimator: Estimator, given: Collection[str]
) -> dict[str, Any]:
    """Return the records that a file gives by name, the system at its number format."""
    found: dict[str, Any] = {}
    for key in RECORDS:
        if key not in estimator.names:
            if key in written:
                raise refusal(key, "not of this estimator; expected its fields in [inputs]")
            continue
        if key in written:
            found[key] = beside(folder, written[key])
        elif key not in given and not any(path.startswith(f"{key}.") for path in given):
            raise refusal(key, "missing; expected a name of the catalogue or a TOML file")
    if "format" not in written:
        return found
    if estimator.expand is not None:  # it knows number formats by name
        raise refusal("format", f'not of {estimator.name}; expected precision = "fp8"')
    if "system" in given:
        raise refusal("format", "not of the systems of an axis; expected one system, or none")
    if "system" not in found:
        raise refusal("format", "without a system; expected it beside the name of one")
    return {**found, "system": system(found["system"], written.get("format", ""))}


# ---- The memory of every stage of a training step -----------------------------------------------


def _stages(written: Mapping[str, Any], folder: pathlib.Path) -> Sweep:
    """Return a file that asks for the memory of every stage of a training step."""
    from jaxroof.analyses.fit import stages_asked  # of no other file
    from jaxroof.analyses.fit_question import given_paths

    typed("", written, STAGE_KEYS)
    plan, settings = dict(written.get("plan", {})), dict(written.get("set", {}))
    varied = axes(written.get("axes", {}), folder=folder)
    sizes = {name: plan.pop(name) for name in OF_THE_BATCH if name in plan}
    once(settings, "in plan", sizes, *sizes)
    settings |= sizes | {key: beside(folder, written[key]) for key in RECORDS if key in written}
    for name in (*RECORDS, "global_batch"):
        if name in settings and name in varied:
            raise refusal(f"axes.{name}", "given beside the axes too; expected it once")
        if name not in settings and name not in varied:
            place = "in plan or the axes" if name == "global_batch" else "or an axis of names"
            raise refusal(name, f"missing; expected it {place}")
    records = {name: settings.pop(name, None) for name in RECORDS}
    given = given_paths(plan, settings)
    question = stages_asked(records["model"], records["system"], given, varied)
    names = {name: value for name, value in records.items() if value is not None}
    return Sweep(written.get("title", "Memory by stage"), "stages", names, question)


# ---- Answers ------------------------------------------------------------------------------------


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
    if (chunk is not None or overwrite) and not (grows and sweep.answer in JOBS):
        what = "a search or a table; expected none of them"
        what = what if grows else "a .zarr file alone; expected one as the output"
        raise InputError(f"chunk and overwrite: of {what}")
    with errors_in(path):
        asked = _job(sweep) if sweep.answer in JOBS else None
    if grows and asked is not None and output is not None:
        here = os.path.abspath(path), trust
        others = partial(finished_chunks, cluster, (job_of_file, here)) if cluster else None
        more: dict[str, Any] = {"chunk": chunk, "overwrite": overwrite, "progress": progress}
        return long_sweep(asked, output, elsewhere=others, **more)
    with errors_in(path):
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
    """
    if output is not None:
        check_writable(output)
    sweep = read_sweep(path, trust)
    with errors_in(path):
        if sweep.answer in JOBS:
            return dry_run(_job(sweep), output, chunk)
        lengths = {axis.name: len(axis) for axis in sweep.question.axes}

        def sampled(count: int, executor: str | None) -> tuple[int, xr.Dataset]:
            return math.prod(thinned_lengths([*lengths.values()], count)), _whole(sweep, count)

        return estimated(lengths, sampled)


def _whole(sweep: Sweep, count: int | None = None) -> xr.Dataset:
    """Return an answer that is no job, whole or at about ``count`` of its points."""
    asked = sweep.question
    if count is not None:
        asked = asked._replace(axes=thinned(asked.axes, count))
    if sweep.answer == "elasticities":
        found = elasticities(asked.estimator, asked, **sweep.options)
    elif sweep.answer == "layers":
        found = layers(asked.inputs, asked.recipe, estimator=asked.estimator)
    elif sweep.answer == "stages" and asked.estimator.name == training.name:
        from jaxroof.analyses.fit import stages_of

        found = stages_of(asked).assign_attrs(sweep.options)
    else:
        found = detail(asked.estimator, sweep.answer, asked.inputs, asked.recipe)
    return found.assign_attrs(_about(sweep))


def job_of_file(path: str, trust: bool) -> SweepJob:
    """Return the checked sweep of a file, as another process builds it."""
    sweep = read_sweep(path, trust)
    with errors_in(path):
        return _job(sweep)


def _job(sweep: Sweep) -> SweepJob:
    """Return the checked sweep of a search, a table or every plan."""
    way: Any = {"searched": sweep.searched, "plans": sweep.answer == "plans"}
    of = sweep.question.estimator
    return sweep_job(of, sweep.question, about=_about(sweep), **way, **sweep.options)


def _about(sweep: Sweep) -> Mapping[str, str]:
    about = {"title": sweep.title, **({"picture": sweep.picture} if sweep.picture else {})}
    return about | ({"answer": sweep.answer} if sweep.answer in ("plans", "elasticities") else {})
