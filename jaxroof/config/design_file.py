"""Design files: a budget, prices and bounds in TOML -> the best machine for that budget."""

import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from jaxroof.catalog.lookup import labelled_system, system
from jaxroof.catalog.system import System
from jaxroof.config.sweep_file import plan_and_set, read_question
from jaxroof.config.toml_reader import beside, flat, load, typed
from jaxroof.engine.codesign.design import design, design_problem
from jaxroof.engine.grid.dependencies import dependencies
from jaxroof.engine.grid.question import Question
from jaxroof.engine.runs.dry_run import DryRun, dry_run_of_design
from jaxroof.errors import errors_in, refusal, unknown
from jaxroof.estimators import STEP, on_system
from jaxroof.estimators.plugins import estimator_of
from jaxroof.records import value_or
from jaxroof.structure import results, structure
from jaxroof.units import parse

KEYS = {
    "title": str, "estimator": str, "model": str, "system": str, "format": str, "plan": dict,
    "set": dict, "minimise": str, "budget": Any, "fixed": Any, "starts": Any, "where": str,
    "price": dict, "bounds": dict, "precision": str,
}  # fmt: skip
PLAN_KEYS = {"gpus": int, "global_batch": int, "split": str}
DAYS = "training_days"  # what is minimised where it is known, else the objective
WHAT = "key of a design file"
CAPACITY = "system.hbm_capacity"


def run_design(path: str | os.PathLike[str], trust: bool = False) -> xr.Dataset:
    """Return the best machine within a design file's budget.

    ``trust`` lets it name an estimator in a module beside it, whose code is then run.
    Raises: InputError that starts with the file's name, for any problem in the file.
    """
    with errors_in(path):
        written, question, options = _asked(pathlib.Path(path), trust)
        data = design(question.estimator, question, **options)
        return data.assign_attrs(title=written.get("title", pathlib.Path(path).stem))


def design_would_take(path: str | os.PathLike[str], trust: bool = False) -> DryRun:
    """Return what a design file would take: starts, plans, memory, and a time by samples."""
    with errors_in(path):
        _, question, options = _asked(pathlib.Path(path), trust)
        return dry_run_of_design(design_problem(question.estimator, question, **options))


def _asked(path: pathlib.Path, trust: bool) -> tuple[dict[str, Any], Question, dict[str, Any]]:
    """Return the contents of a design file, its question, and the options of ``design``."""
    written = load(path)
    typed("", written, KEYS, WHAT)
    for key in ("model", "system", "price"):
        if key not in written:
            raise refusal(key, "missing; a design file has a model, a system and prices")
    typed("plan", written.get("plan", {}), PLAN_KEYS, WHAT)
    for key in dict(flat(written.get("set", {}))):
        if key in PLAN_KEYS or key.partition(".")[0] == "plan":
            what = "of the plan; expected it in plan, or the search chooses it"
            raise refusal(f"set.{key}", what)
        if key in KEYS and key != "precision":
            raise refusal(f"set.{key}", f"a key of its own; expected it as {key} = ...")
    machine = beside(path.parent, written["system"])
    with errors_in("estimator"):
        of = on_system(estimator_of(written.get("estimator", STEP), path.parent, trust), machine)
    if of.lists_anew("gpus") and "gpus" not in written.get("plan", {}):
        raise refusal("plan.gpus", "missing; expected the number of accelerators to split over")
    question = read_question(written, path.parent, of, plan_and_set(written, of), {})
    aims = _aims(question)
    aim = written.get("minimise", next(iter(aims)))
    if aim not in aims:
        raise unknown("minimise", aim, "aim", aims)
    prices = dict(_paths(written["price"]))
    options = {key: written[key] for key in ("budget", "fixed", "starts") if key in written}
    return (
        written,
        question,
        options
        | {
            "minimise": next(iter(aims)),
            "times_cost": aims[aim],
            "bounds": dict(_paths(written.get("bounds", {}))),
            "where": written.get("where", ""),
            "prices": _of_labels(prices, machine, question.inputs.system),
        },
    )


def _aims(asked: Question) -> dict[str, bool]:
    """Return what may be minimised, and whether the cost multiplies it."""
    of = asked.estimator
    report = results(dependencies(of, asked.recipe, structure(asked.inputs)).report)
    days = DAYS in report
    return {
        DAYS if days else of.objective: False,
        "cost_days" if days else f"cost_{of.objective}": True,
    }


def _of_labels(prices: dict[str, Any], name: str, machine: System) -> dict[str, Any]:
    """Return prices with that of memory, sold by its label, per byte that a step may fill."""
    priced = prices.get(CAPACITY)
    if not isinstance(priced, Mapping) or "per" not in priced or not name:
        return prices
    label = labelled_system(name).hbm_capacity
    device_has = value_or(system(name).hbm_reported, label)
    if float(machine.hbm_capacity) != float(device_has):
        return prices  # a capacity of the file's own, or the label itself
    per = parse(priced["per"], "B", f"price.{CAPACITY}.per")
    return {**prices, CAPACITY: {**priced, "per": per * float(device_has / label)}}


def _paths(written: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted path, entry); the nested tables of an unquoted path are joined."""
    for key, value in written.items():
        inner = value.values() if isinstance(value, dict) else ()
        if inner and all(isinstance(one, dict | list) for one in inner):
            yield from _paths(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
