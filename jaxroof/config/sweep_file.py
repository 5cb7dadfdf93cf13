"""Sweep files: read a question in TOML and check every key of it."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.analyses.evaluate import resolve_settings
from jaxroof.catalog.lookup import system
from jaxroof.config.toml_reader import (
    axes,
    beside,
    errors_in_file,
    flat,
    known,
    load,
    table,
    text,
    typed,
)
from jaxroof.engine.grid.axes import Axis, read_axes
from jaxroof.engine.grid.effective import check_effective
from jaxroof.engine.grid.given_axes import expanded, paths_of
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.plugins import estimator_of
from jaxroof.estimators.published.step import published
from jaxroof.estimators.training.step import training
from jaxroof.records import value_or
from jaxroof.settings import apply_settings, no_field
from jaxroof.settings import paths_of as fields_of
from jaxroof.units import parse

KEYS = (
    "title", "picture", "answer", "estimator", "model", "system", "format", "plan", "set", "inputs",
    "search", "axes", "elasticities", "precision",
)  # fmt: skip
RECORDS = ("model", "system")  # records that a file may give by name
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
    estimator: Estimator
    inputs: Any
    recipe: Any
    chosen: frozenset[str]  # the recipe's choices that the file itself makes
    axes: dict[str, Any]
    options: dict[str, Any]
    searched: bool
    picture: str  # the default picture of `plot`
    answer: str


def _axes(sweep: Sweep) -> list[Axis]:
    """Return the axes of a sweep; choices of the file override those that come with records."""
    names = sweep.estimator.names
    return read_axes(sweep.inputs, sweep.axes, sweep.recipe, names, sweep.chosen)


def read_sweep(path: str | os.PathLike[str], trust: bool = False) -> Sweep:
    """Return the checked contents of a sweep file.

    ``trust`` lets it name an estimator in a module beside it, whose code is then run.
    Raises: InputError that starts with the file's name, for a missing or damaged file, an unknown
    key (with the nearest), a wrong type or unit, or a name that is not in the catalogue.
    """
    with errors_in_file(path):
        return _sweep(load(path), pathlib.Path(path), trust)


def _sweep(written: dict[str, Any], path: pathlib.Path, trust: bool) -> Sweep:
    _known_keys(written)
    estimator = _estimator(written, path.parent, trust)
    varied = axes(table(written, "axes"), folder=path.parent)
    machine = beside(path.parent, text(written, "system", ""))
    settings, varied = expanded(estimator, _settings(written, estimator), varied, machine=machine)
    inputs, recipe = read_inputs(written, path.parent, estimator, varied, settings)
    if estimator is training and "split" in settings:
        raise refusal("plan.split", 'belongs to estimator = "published"; expected it with that')
    placement = text(settings, "placement", "") if "placement" in settings else None
    settings.pop("placement", None)
    given = set(estimator.plan_fields) & set(settings)
    moved = any(name.startswith("plan.") for name in paths_of(varied))
    own = bool(given) or (moved and placement is not None)
    if estimator.plan is not None and own:
        inputs = dataclasses.replace(inputs, plan=_plan(estimator.plan, settings, given))
    rest = {k: v for k, v in settings.items() if k not in given}
    inputs, recipe = apply_settings(inputs, recipe, rest, estimator.names, (), paths_of(varied))
    check_effective(estimator, inputs, recipe, rest)
    searched = estimator.candidates is not None and not own
    answer = _answer(written, inputs, estimator)
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
    if searched and placement is not None:
        raise refusal(
            "plan.placement", "the search chooses it; expected degrees of your own beside"
        )
    if placement is not None:
        options = {"placement": placement}
    options = {**options, **slopes}
    return Sweep(
        title=text(written, "title", path.stem),
        estimator=estimator,
        inputs=inputs,
        recipe=recipe,
        chosen=frozenset(rest),
        axes=varied,
        options=options,
        searched=searched,
        picture=text(written, "picture", ""),
        answer=answer,
    )


def _answer(written: Mapping[str, Any], inputs: Any, estimator: Estimator) -> str:
    """Return the answer that the file requests, one of ANSWERS, after checking that it applies."""
    answer = text(written, "answer", "step")
    if answer not in ANSWERS:
        raise unknown("answer", answer, "answer", ANSWERS)
    if answer in PARTS and (getattr(inputs, "plan", None) is None or table(written, "axes")):
        what = f"{answer} are of one plan; expected its degrees in plan and no axes"
        raise refusal("answer", what)
    if answer in PARTS and estimator.name not in PARTS[answer]:
        others = " or ".join(PARTS[answer])
        raise refusal("answer", f"{estimator.name} has no {answer}; expected {others}")
    return answer


def _settings(written: Mapping[str, Any], estimator: Estimator) -> dict[str, Any]:
    """Return the settings of [plan] and [set] together, each field once.

    If the estimator has its plan only as a record of the inputs, degrees become ``plan.`` paths.
    """
    plan, changes = table(written, "plan"), dict(table(written, "set"))
    if "precision" in written:
        if "precision" in changes:
            raise refusal("set.precision", "given at the top too; expected it once")
        changes["precision"] = text(written, "precision", "")
    inside = dict(fields_of(estimator.inputs)) if estimator.plan is None else {}
    plan = {f"plan.{key}" if f"plan.{key}" in inside else key: plan[key] for key in plan}
    for name, given in (("plan", plan), ("inputs", dict(flat(table(written, "inputs"))))):
        for key in changes:
            if key in given:
                raise refusal(f"set.{key}", f"given in {name} too; expected it once")
    return {**plan, **changes}


def _known_keys(written: Mapping[str, Any]) -> None:
    """Check the keys at the top of a file; what an estimator reads stands in a table."""
    fields = {path.rpartition(".")[2] for path, _ in fields_of(training.inputs)}
    for key in written:
        if key not in KEYS and key in {*fields, *training.short_names}:
            said = "a setting; expected it in [plan] or [set], or its values in [axes]"
            raise refusal(key, said)
    known("", written, KEYS)


def _estimator(written: Mapping[str, Any], folder: pathlib.Path, trust: bool) -> Estimator:
    spelled = text(written, "estimator", "training")
    with errors_in_file("estimator"):
        return estimator_of(spelled, folder, trust)


def read_inputs(
    written: Mapping[str, Any],
    folder: pathlib.Path,
    estimator: Estimator,
    varied: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Return a file's inputs and recipe: records are given by name, fields by path in [inputs].

    Values that an axis gives, or ``settings``, may be missing. The recipe has the choices that come
    with the records.
    """
    if estimator in (published, training) and "inputs" in written:
        raise refusal("inputs", "not of a training step; use [set] for fields")
    given, moving = dict(flat(table(written, "inputs"))), paths_of(varied)
    for key in RECORDS:
        if key not in estimator.names:
            if key in written:
                raise refusal(key, "not of this estimator; expected its fields in [inputs]")
            continue
        if key in written:
            given[key] = beside(folder, text(written, key, ""))
        elif key not in moving and not any(path.startswith(f"{key}.") for path in given):
            raise refusal(key, "missing; expected a name of the catalogue or a TOML file")
    if "format" in written and estimator is training:
        said = 'belongs to estimator = "published"; expected precision = "fp8"'
        raise refusal("format", said)
    if "format" in written:
        if "system" in moving:
            raise refusal("format", "not of the systems of an axis; expected one system, or none")
        if "system" not in given:
            raise refusal("format", "without a system; expected it beside the name of one")
        given["system"] = system(given["system"], text(written, "format", ""))
    fields = dict(fields_of(estimator.inputs))
    for path in table(written, "inputs") and given:
        if path not in fields:
            raise no_field(estimator.inputs, path, fields, "inputs.")
    given |= {p: value for p, value in settings.items() if p in fields and p not in given}
    try:
        return resolve_settings(estimator, given, varied)
    except InputError as error:
        path = str(error).partition(":")[0]
        inside = path in fields and path not in (*RECORDS, *settings)
        place = f"inputs.{error}" if inside else str(error)
        raise InputError(place) from error


def _plan(kind: type[Any], settings: Mapping[str, Any], given: set[str]) -> Any:
    """Return a plan with the given fields; other degrees are 1, a missing placement stays open."""
    fields = dataclasses.fields(kind)
    units = {f.name: f.metadata["unit"] for f in fields}
    usual = {f.name: f.metadata["default"] for f in fields}
    values = {
        f.name: None if f.default is None else np.float64(value_or(usual[f.name], 1.0))
        for f in fields
    }
    for key in given:
        values[key] = np.float64(parse(settings[key], units[key], f"plan.{key}"))
    return kind(**values)
