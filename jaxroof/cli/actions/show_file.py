"""What `show` says of a file: the entry that it is, or what it asks."""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices, mlp, model, system
from jaxroof.catalog.models import Mlp, Model
from jaxroof.catalog.needs import ALWAYS, lacking, refuse
from jaxroof.catalog.system import System
from jaxroof.cli.actions.console import console, print_text
from jaxroof.cli.actions.show import show_size
from jaxroof.cli.entries import entry_rows, print_entries
from jaxroof.config import design_file as designs
from jaxroof.config.sweep_file import Sweep, lengths_of, read_sweep
from jaxroof.config.toml_reader import errors_in_file, load, read_uncertain
from jaxroof.errors import refusal
from jaxroof.records import units

RECORDS: dict[str, type[Any]] = {
    "models": Model,
    "systems": System,
    "mlps": Mlp,
    "architectures": Architecture,
}
READ: dict[str, Callable[[str], Any]] = {
    "models": model,
    "systems": system,
    "mlps": mlp,
    "architectures": architecture_with_choices,
}
# keys that identify each kind of file, absent from the kinds before it
KEYS = {
    "uncertain": {"distributions"},
    "design": {"price", "bounds", "budget", "minimise"},
    "sweep": {"model", "system", "estimator", "plan", "axes", "inputs", "search", "answer"},
}


def show_file(path: str, trust: bool = False) -> None:
    """Print a file of the user: its catalogue entry, or a summary of what it computes.

    Raises: InputError that starts with the file's name, for any error in it.
    """
    if path.endswith(".json"):
        _show_model(path)
        return
    with errors_in_file(path):
        written = load(path)
    kind = next((kind for kind, keys in KEYS.items() if keys & set(written)), "")
    if kind:
        asks, use = {"sweep": _sweep, "design": _design, "uncertain": _uncertain}[kind](path, trust)
        page = console()
        print_text(page, asks)
        print_entries(entry_rows(written))
        print_text(page, use)
        return
    kind = _kind_of_entry(path, written)
    missing = lacking("published", path, ()) if kind == "systems" else []
    training = refuse("", "published", {path: missing}, "") if missing else None
    if training and set(missing) & set(ALWAYS):
        raise training  # the same list as a search's
    if kind == "architectures":
        _show_model(path)
        return
    found, each = READ[kind](path), {}  # raises for an invalid file
    if "nics_per_node" in (shown := catalog.describe(kind, path)):
        each = {"nics": float(found.nics)}
    print_entries(entry_rows({**shown, **each}))
    if training:
        print_text(console(), str(training))


def _show_model(path: str) -> None:
    architecture_with_choices(path)  # raises for an invalid file
    print_entries(entry_rows(catalog.describe("architectures", path)))
    show_size(path)


def _kind_of_entry(path: str, written: Mapping[str, Any], above: tuple[str, ...] = ()) -> str:
    """Return the part of the catalogue a file belongs to: by its base, or by most of its keys.

    ``above`` are the files whose base this one is.
    """
    base = written.get("base")
    if isinstance(base, str) and base.endswith(".json"):
        return "architectures"
    if isinstance(base, str) and base.endswith(".toml") and base not in above:
        beside = os.path.join(os.path.dirname(path), base)
        with errors_in_file(f"{path}: base: {base}"):
            return _kind_of_entry(beside, load(beside), (*above, base))
    for kind in RECORDS:
        if base in catalog.names(kind):
            return kind
    shared = {kind: len(set(units(record)) & set(written)) for kind, record in RECORDS.items()}
    if not any(shared.values()):
        what = "neither an entry (a model, a system, an MLP) nor a question"
        raise refusal(path, f"{what}; expected a field of one, or a key such as {_some_keys()}")
    return max(shared, key=lambda kind: shared[kind])


def _some_keys() -> str:
    return ", ".join(sorted(KEYS["sweep"])[:3])


def _sweep(path: str, trust: bool) -> tuple[str, str]:
    sweep = read_sweep(path, trust)
    points = math.prod(lengths_of(sweep).values())
    if sweep.question is None:
        said = f"A sweep: asks for the memory of every stage of training at {points:,} points."
        return said, f"Run it with: jaxroof run {path}."
    where = "1 point" if points == 1 else f"{points:,} points"
    asked = sweep.question.estimator.name or "its own estimator"
    more = " --trust" if trust else ""
    use = f"Run it with: jaxroof run {path}{more}. Draw it with: jaxroof plot {path}{more}."
    return f"A sweep: asks {asked} for {_wanted(sweep)} at {where}.", use


def _wanted(sweep: Sweep) -> str:
    """Return a sweep's output in words."""
    top = sweep.options.get("top", 1)
    best = "the best plan" if top == 1 else f"the best {top} plans"
    if sweep.answer == "step":
        return best if sweep.searched else "every result"
    if sweep.answer == "elasticities":
        return f"what binds {best}" if sweep.searched else "what binds"
    return "every plan" if sweep.answer == "plans" else f"the {sweep.answer} of one plan"


def _design(path: str, _: bool) -> tuple[str, str]:
    asked = designs.read_design(path)
    budget = asked.get("budget", f"the price of {asked['system']}")
    aim = asked.get("minimise", "training_days")
    said = f"A design: asks which machine has the least {aim} for {budget}."
    return said, f"Answer it with: jaxroof design {path}."


def _uncertain(path: str, _: bool) -> tuple[str, str]:
    count = len(read_uncertain(path)["distributions"])
    said = f"Uncertain inputs: {count} {'distribution' if count == 1 else 'distributions'}."
    return said, f"Use it with: jaxroof search ... --uncertain {path}."
