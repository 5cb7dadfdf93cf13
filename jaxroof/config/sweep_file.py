"""Sweep files: a question in TOML, read and checked once; `run_sweep` answers it."""

import dataclasses
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from jaxroof.catalog.lookup import system
from jaxroof.config.toml_reader import (
    axes,
    beside,
    errors_in_file,
    flat,
    known,
    load,
    once,
    table,
    text,
    typed,
)
from jaxroof.engine.grid.axes import paths_of
from jaxroof.engine.grid.question import Question, ask, check_no_plan, long_names
from jaxroof.engine.grid.spacing import length_of
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.plugins import estimator_of
from jaxroof.estimators.published.step import published
from jaxroof.estimators.training.step import training
from jaxroof.settings import known_paths, no_field

KEYS = (
    "title", "picture", "answer", "estimator", "model", "system", "format", "plan", "set", "inputs",
    "search", "axes", "elasticities", "precision",
)  # fmt: skip
STAGE_KEYS = ("title", "picture", "answer", "estimator", "model", "system", "plan", "set", "axes")
RECORDS = ("model", "system")  # records that a file may give by name
OF_THE_BATCH = ("gpus", "global_batch", "sequence")  # no fields of a plan, that stand in [plan]
PARTS = {  # answers about the parts of one plan, and the estimators that have them
    "layers": ("training", "published", "unfused"),  # one layer by operation
    "stages": ("pipeline",),  # a pipeline stage by stage
}
# the best plans or a table, the parts of one plan, every plan, or sensitivities
ANSWERS = ("step", *PARTS, "plans", "elasticities")
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
    options: dict[str, Any]  # of the question; of the memory by stage all that is asked
    question: Question | None = None  # None of the memory by stage of a training step
    searched: bool = False
    picture: str = ""  # the default picture of `plot`


def read_sweep(path: str | os.PathLike[str], trust: bool = False) -> Sweep:
    """Return the checked contents of a sweep file.

    ``trust`` lets it name an estimator in a module beside it, whose code is then run.
    Raises: InputError that starts with the file's name, for a missing or damaged file, an unknown
    key (with the nearest), a wrong type or unit, or a name that is not in the catalogue.
    """
    with errors_in_file(path):
        written, where = load(path), pathlib.Path(path)
        if written.get("estimator") == training.name and written.get("answer") == "stages":
            return _stages(written, where.parent)
        return _sweep(written, where, trust)


def _sweep(written: dict[str, Any], path: pathlib.Path, trust: bool) -> Sweep:
    _known_keys(written)
    with errors_in_file("estimator"):
        estimator = estimator_of(text(written, "estimator", training.name), path.parent, trust)
    varied = axes(table(written, "axes"), folder=path.parent)
    settings = plan_and_set(written, estimator)
    placement = text(settings, "placement", "") if "placement" in settings else None
    settings.pop("placement", None)
    degrees = {path for path in settings if path.startswith("plan.")}
    moved = any(path.startswith("plan.") for path in paths_of(varied))
    own = estimator.plan is not None and bool(degrees or (moved and placement is not None))
    searched = estimator.candidates is not None and not own
    if own:  # other degrees are 1, a missing placement stays open
        fields = dataclasses.fields(estimator.plan)  # type: ignore[arg-type]
        needed = (f.name for f in fields if f.default is dataclasses.MISSING)
        settings = dict.fromkeys((f"plan.{name}" for name in needed), 1.0) | settings
    answer = _answer(written, estimator, own or estimator.plan is None)
    if searched and answer not in PARTS:
        check_no_plan(estimator, varied)
    question = read_question(written, path.parent, estimator, settings, varied)
    options = _options(written, answer, searched, own) | table(written, "elasticities")
    if searched and placement is not None:
        what = "the search chooses it; expected degrees of your own beside"
        raise refusal("plan.placement", what)
    return Sweep(
        title=text(written, "title", path.stem),
        answer=answer,
        options=options if placement is None else {**options, "placement": placement},
        question=question,
        searched=searched,
        picture=text(written, "picture", ""),
    )


def _options(written: Mapping[str, Any], answer: str, searched: bool, own: bool) -> dict[str, Any]:
    """Return the options of [search], after checking that they and those of slopes apply."""
    options = table(written, "search")
    if options and not searched:
        why = "a plan of your own is given" if own else "this estimator has no plans to choose"
        raise refusal("search", f"nothing to search: {why}; expected no [search]")
    typed("search", options, SEARCH_KEYS.get(answer, {}) if searched else {})
    slopes = table(written, "elasticities")
    if slopes and answer != "elasticities":
        raise refusal("elasticities", 'not asked for; expected answer = "elasticities" beside')
    typed("elasticities", slopes, ELASTICITY_KEYS)
    if answer == "plans" and not searched:
        raise refusal("answer", "plans are listed; expected an estimator with plans, and no plan")
    return options


def _answer(written: Mapping[str, Any], estimator: Estimator, planned: bool) -> str:
    """Return the answer that the file requests, one of ANSWERS, after checking that it applies."""
    answer = text(written, "answer", "step")
    if answer not in ANSWERS:
        raise unknown("answer", answer, "answer", ANSWERS)
    named = "plan" in known_paths(estimator.inputs)
    if answer in PARTS and (not named or not planned or table(written, "axes")):
        what = f"{answer} are of one plan; expected its degrees in plan and no axes"
        raise refusal("answer", what)
    if answer in PARTS and estimator.name not in PARTS[answer]:
        others = " or ".join(PARTS[answer])
        raise refusal("answer", f"{estimator.name} has no {answer}; expected {others}")
    return answer


def _known_keys(written: Mapping[str, Any]) -> None:
    """Check the keys at the top of a file; what an estimator reads stands in a table."""
    fields = {path.rpartition(".")[2] for path in known_paths(training.inputs)}
    for key in written:
        if key not in KEYS and key in {*fields, *training.short_names}:
            said = "a setting; expected it in [plan] or [set], or its values in [axes]"
            raise refusal(key, said)
    known("", written, KEYS)


def plan_and_set(written: Mapping[str, Any], estimator: Estimator) -> dict[str, Any]:
    """Return the settings of [plan] and [set] by their paths, each field once."""
    changes = dict(flat(table(written, "set")))
    if "precision" in written:
        once(changes, "at the top", written, "precision")
        changes["precision"] = text(written, "precision", "")
    plan, fields = table(written, "plan"), known_paths(estimator.inputs)
    plan = {f"plan.{key}" if f"plan.{key}" in fields else key: plan[key] for key in plan}
    once(changes, "in plan", plan, *plan)
    once(changes, "in inputs", given := dict(flat(table(written, "inputs"))), *given)
    if estimator is training and "split" in {**plan, **changes}:
        raise refusal("plan.split", 'belongs to estimator = "published"; expected it with that')
    return long_names(estimator, {**plan, **changes})


def read_question(
    written: Mapping[str, Any],
    folder: pathlib.Path,
    estimator: Estimator,
    settings: Mapping[str, Any],
    varied: Mapping[str, Any],
) -> Question:
    """Return a file's question: records are given by name, fields by path in [inputs]."""
    if estimator in (published, training) and "inputs" in written:
        raise refusal("inputs", "not of a training step; use [set] for fields")
    given = dict(flat(table(written, "inputs")))
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
            found[key] = beside(folder, text(written, key, ""))
        elif key not in given and not any(path.startswith(f"{key}.") for path in given):
            raise refusal(key, "missing; expected a name of the catalogue or a TOML file")
    if "format" not in written:
        return found
    if estimator is training:
        said = 'belongs to estimator = "published"; expected precision = "fp8"'
        raise refusal("format", said)
    if "system" in given:
        raise refusal("format", "not of the systems of an axis; expected one system, or none")
    if "system" not in found:
        raise refusal("format", "without a system; expected it beside the name of one")
    return {**found, "system": system(found["system"], text(written, "format", ""))}


# ---- The memory of every stage of a training step -----------------------------------------------


def _stages(written: Mapping[str, Any], folder: pathlib.Path) -> Sweep:
    """Return a file that asks for the memory of every stage, as arguments of ``fit_stages``."""
    known("", written, STAGE_KEYS)
    plan, settings = dict(table(written, "plan")), dict(table(written, "set"))
    varied = axes(table(written, "axes"), folder=folder)
    for key, values in varied.items():
        if isinstance(values, Mapping):
            what = "fields that move together; expected one field an axis"
            raise refusal(f"axes.{key or shown(key)}", what)
        if length_of(values) < 1:
            what = "an empty axis; expected at least one value"
            raise refusal(f"axes.{key or shown(key)}", what)
    sizes = {name: plan.pop(name) for name in OF_THE_BATCH if name in plan}
    once(settings, "in plan", sizes, *sizes)
    settings |= sizes
    records = {key: beside(folder, text(written, key, "")) for key in RECORDS if key in written}
    for name in (*RECORDS, "global_batch"):
        there = name in records or name in settings
        if there and name in varied:
            raise refusal(f"axes.{name}", "given beside the axes too; expected it once")
        if not there and name not in varied:
            place = "in plan or the axes" if name == "global_batch" else "or an axis of names"
            raise refusal(name, f"missing; expected it {place}")
    asked = {name: records.get(name) for name in RECORDS} | {"plan": plan, "axes": varied}
    asked |= {"global_batch": settings.pop("global_batch", None), "settings": settings}
    return Sweep(text(written, "title", "Memory by stage"), "stages", asked)
