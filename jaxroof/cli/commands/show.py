"""The command `jaxroof show`: an entry of the catalogue or of a file, or an estimator."""

import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

import click

from jaxroof.cli import completion
from jaxroof.cli.printing import entry_rows, print_entries, print_wrapped
from jaxroof.errors import errors_in, refusal

QUESTIONS = {"distributions", "price", "bounds", "minimise"}  # keys of files that ask something
QUESTIONS |= {"model", "system", "estimator", "plan", "axes", "inputs", "search", "answer"}


@click.command(short_help="Show an entry of the catalogue, or an estimator.")
@click.argument("name", metavar="NAME|MODULE:NAME|FILE", shell_complete=completion.entries)
def command(name: str) -> None:
    """Show an entry of the catalogue, with its source, or what an estimator asks and answers.

    MODULE:NAME is an estimator of your own, in the current folder. FILE is an entry of your own.
    A model of today is shown with its parameters, in all and by part.
    """
    from jaxroof import catalog

    if name.endswith((".toml", ".json")):
        _file(name)
        return
    if name.endswith((".nc", ".csv", ".zarr")):
        expected = "expected jaxroof report, plot or rerun of it"
        raise refusal(name, f"show tells of entries, not of results; {expected}")
    kinds = (*catalog.MODELS, *catalog.OTHERS)
    known = {entry: kind for kind in kinds for entry in catalog.names(kind)}
    for kind in kinds:
        name = catalog.canonical(kind, name)
    if name not in known:
        _estimator(name, known)
        return
    print_entries(entry_rows(catalog.describe(known[name], name)))
    if known[name] == "systems":
        from jaxroof.catalog.needs import training_note

        print_wrapped(training_note(name))
    if known[name] == "architectures":
        _size(name)


def _estimator(name: str, entries: Collection[str]) -> None:
    """Print the inputs and the results of an estimator, ``module:name`` for one of the user's.

    Raises: InputError with the nearest name among the estimators and the catalogue's ``entries``.
    """
    from jaxroof import estimators
    from jaxroof.errors import unknown

    if ":" not in name and name not in estimators.names():
        raise unknown("", name, "model, system or estimator", [*entries, *estimators.names()])
    from rich.console import Console

    from jaxroof.estimators.plugins import estimator_of
    from jaxroof.views.text.estimators import inputs_table, results_table

    estimator = estimator_of(name, pathlib.Path.cwd(), trust=True)
    print_wrapped(f"{name}: {estimator.about}")
    Console().print(inputs_table(estimator), results_table(estimator))
    asked = name.partition(":")[2] or repr(name)
    searched = ":" in name and estimator.candidates is not None
    search = f"jaxroof search --estimator {name}, " if searched else ""
    ways = f"{search}jaxroof evaluate {name} ROWS.csv, jr.evaluate({asked}, {{...}})"
    print_wrapped(f"Ask it with: {ways}.")


def _size(name: str) -> None:
    """Print the parameters of a model of today, what its layers see, and what they cache."""
    from rich.console import Console

    from jaxroof import estimators
    from jaxroof.catalog import lookup
    from jaxroof.engine.grid.question import ask
    from jaxroof.estimators.training.layer_kinds import layer_kinds
    from jaxroof.views.text.estimators import (
        kinds_table,
        mixers_sentences,
        size_sentence,
        size_table,
    )

    asked = estimators.estimator("model_size")
    _, inputs, recipe, _ = ask(asked, settings={"model": name})
    report, kinds = asked.evaluate(inputs, recipe), layer_kinds(inputs.model, recipe)
    only = lookup.only_parameters(*lookup.architecture_with_choices(name))
    more = [f"No training step: {only}."] if only else []
    for sentence in (size_sentence(report), *mixers_sentences(inputs.model, kinds), *more):
        print_wrapped(sentence)
    Console().print(kinds_table(kinds), size_table(report))


def _file(path: str) -> None:
    """Print the entry that a file of the user is.

    Raises: InputError that starts with the file's name, for any error in it.
    """
    from jaxroof import catalog
    from jaxroof.catalog import lookup
    from jaxroof.catalog.needs import ALWAYS, lacking, refuse
    from jaxroof.catalog.serving_software import serving_software
    from jaxroof.config.toml_reader import load

    kind = "architectures"
    if path.endswith(".toml"):
        with errors_in(path):
            written = load(path)
        if QUESTIONS & set(written):
            said = "a question, not an entry; expected jaxroof run, design or search --uncertain"
            raise refusal(path, f"{said} of it, with --dry-run for what it takes")
        kind = _kind_of_entry(path, written)
    missing = lacking("published", path, ()) if kind == "systems" else []
    training = refuse("", "published", {path: missing}, "") if missing else None
    if training and set(missing) & set(ALWAYS):
        raise training  # the same list as a search's
    read: Any = {"models": lookup.model, "systems": lookup.system, "mlps": lookup.mlp}
    read["serving_software"] = serving_software
    found = read.get(kind, lookup.architecture_with_choices)(path)  # raises for an invalid file
    shown = catalog.describe(kind, path)
    each = {"nics": float(found.nics)} if "nics_per_node" in shown else {}
    taken = shown.pop("taken", {})  # of a config.json: field -> its key
    told = {name: f"{shown[name]} ({key})" for name, key in taken.items() if name in shown}
    print_entries(entry_rows({**shown, **each, **told}))
    if training:
        print_wrapped(str(training))
    if kind == "architectures":
        _size(path)


def _kind_of_entry(path: str, written: Mapping[str, Any], above: tuple[str, ...] = ()) -> str:
    """Return the part of the catalogue a file belongs to: by its base, or by most of its keys.

    ``above`` are the files whose base this one is.
    """
    from jaxroof import catalog
    from jaxroof.catalog.architecture import Architecture
    from jaxroof.catalog.models import Mlp, Model
    from jaxroof.catalog.serving_software import KIND, ServingSoftware
    from jaxroof.catalog.system import System
    from jaxroof.config.toml_reader import load
    from jaxroof.records import units

    records: dict[str, Any] = {
        "models": Model,
        "systems": System,
        "mlps": Mlp,
        "architectures": Architecture,
    }
    records[KIND] = ServingSoftware
    base = written.get("base")
    if isinstance(base, str) and base.endswith(".json"):
        return "architectures"
    if isinstance(base, str) and base.endswith(".toml") and base not in above:
        beside = os.path.join(os.path.dirname(path), base)
        with errors_in(f"{path}: base: {base}"):
            return _kind_of_entry(beside, load(beside), (*above, base))
    for kind in records:
        if base in catalog.names(kind):
            return kind
    shared = {kind: len(set(units(record)) & set(written)) for kind, record in records.items()}
    if not any(shared.values()):
        what = "neither an entry (a model, a system, an MLP) nor a question"
        raise refusal(path, f"{what}; expected a field of one, or a key such as answer, axes")
    return max(shared, key=lambda kind: shared[kind])
