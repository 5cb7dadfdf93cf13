"""What-if questions: systems and splits side by side, and what more memory buys."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import xarray as xr
from rich.console import Console

from jaxroof import catalog
from jaxroof.engine.constraints import Constraint, constraints
from jaxroof.engine.pareto import pareto
from jaxroof.engine.search import search
from jaxroof.errors import refusal, unknown
from jaxroof.estimators.training.inputs import Inputs
from jaxroof.estimators.training.recipe import Split
from jaxroof.estimators.training.step import memory_limit, training
from jaxroof.files import named
from jaxroof.named import model, system
from jaxroof.settings import settle
from jaxroof.shell.commands import SAID, console, say
from jaxroof.shell.options import PLAN_FIELDS, SHORT, settings, share, whole
from jaxroof.shell.outputs import check, deliver, is_picture, tell
from jaxroof.units import parse
from jaxroof.views import compare as compared
from jaxroof.views import pareto as stairs_views


def compare_command(
    *,
    model_names: str,
    system_names: str,
    number_format: str | None,
    gpus: str,
    batch: str,
    splits: str,
    where: str,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Search every system and split given, print them side by side; return the exit status."""
    check(output)
    sizes, sequences = _sizes(gpus), whole("--batch", batch)
    kinds = [_split(text) for text in _listed("--split", splits)]
    chosen, rules = settings(sets, SAID), _rules(where)
    models = _records("--model", model_names, training.names["model"])
    systems = _records("--system", system_names, lambda name: system(name, number_format))
    start = Inputs(
        model=next(iter(models.values()))[0],
        system=next(iter(systems.values())),
        gpus=float(sizes[0]),
        global_batch=float(sequences),
    )
    # a record on an axis brings all its fields: what --set changes is changed in each beforehand
    models = {n: (_changed(start, chosen, model=m).model, c) for n, (m, c) in models.items()}
    held = {name: _changed(start, chosen, system=s) for name, s in systems.items()}
    axes: dict[str, Any] = {"model": models} if len(models) > 1 else {}
    axes |= {"gpus": sizes} if len(sizes) > 1 else {}
    axes |= {"system": {name: inputs.system for name, inputs in held.items()}, "split": kinds}
    if len(models) == 1:
        chosen = {"model": next(iter(models.values())), **chosen}
    data = search(training, start, axes=axes, where=rules, settings=chosen)
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    limits = [float(memory_limit(inputs)) for inputs in held.values()]
    data["memory_limit"] = ("system", np.array(limits), about)
    counts = ", ".join(f"{size:,}" for size in sizes)
    data.attrs["title"] = f"{', '.join(models)} on {counts} accelerators: the best plan of each"
    deliver(output, data, lambda plots: plots.comparison(_beside(data)))
    page = console()
    for name in models:
        for size in sizes:
            some = data.sel(model=name) if len(models) > 1 else data
            some = some.sel(gpus=size) if len(sizes) > 1 else some
            _print_compared(page, some, f"{name} on {size:,} accelerators, batch {sequences:,}")
    tell(output)
    return 0 if bool(data.feasible.any()) else 1


def _print_compared(page: Console, data: xr.Dataset, title: str) -> None:
    page.print(compared.rate_table(data, title))
    if bool(data.feasible.any()):
        page.print(compared.parts_table(data))
    for sentence in compared.compare_sentences(data):
        say(page, sentence)


def pareto_command(
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    gpus: str,
    batch: str,
    split: str,
    days: str | None,
    gain: str,
    where: str,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Print the staircase of step time against memory of each size; return the exit status."""
    check(output)
    sizes, sequences = _sizes(gpus), whole("--batch", batch)
    most_days, worth = None if days is None else _days(days), share("--gain", gain)
    chosen, rules = settings(sets, SAID), _rules(where)
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    data = pareto(
        training, inputs, axes={"gpus": sizes}, where=rules,
        settings={
            "model": model_name, "global_batch": sequences, "split": _split(split), **chosen
        },
    )  # fmt: skip
    joined = ", ".join(f"{n:,}" for n in sizes)
    data.attrs["title"] = (
        f"{model_name} on {joined} x {system_name}, {split}: what more memory buys"
    )
    there = data.sizes["step_number"] > 0
    if not there and is_picture(output):
        output = None  # nothing to draw
    deliver(output, data, lambda plots: plots.staircase(data, most_days))
    page = console()
    each = {n: data.isel(step_number=np.flatnonzero(data.gpus.values == n)) for n in sizes}
    capacities = _capacities()
    if len(sizes) == 1:
        _print_stairs(page, data, worth, capacities)
    else:
        page.print(stairs_views.sizes_table(each, worth, most_days, capacities))
        for sentence in stairs_views.sizes_sentences(each, None if most_days else worth):
            say(page, sentence)
    if most_days is not None:
        for sentence in stairs_views.days_sentences(each, most_days, capacities):
            say(page, sentence)
    tell(output)
    if most_days is not None:
        return 0 if there and bool((data.training_days <= most_days).any()) else 1
    return 0 if there and bool(data.fits.any()) else 1


def _print_stairs(
    page: Console, stairs: xr.Dataset, gain: float, capacities: stairs_views.Capacities
) -> None:
    if not stairs.sizes["step_number"]:
        say(page, "No legal plan.")
        return
    chosen = stairs_views.told(stairs, gain)
    page.print(stairs_views.stairs_table(stairs, chosen, capacities))
    for sentence in stairs_views.stairs_sentences(stairs, len(chosen), gain):
        say(page, sentence)


def _capacities() -> dict[str, float]:
    """Return the memory of each accelerator that the catalogue can train on, least first."""
    found: dict[str, float] = {}
    for name in catalog.names("systems"):
        entry = catalog.describe("systems", name)
        if {"vector_flops", "hbm_capacity", "fast_domain", "slow_bandwidth"} <= set(entry):
            found.setdefault(name.partition("-nvs")[0], parse(entry["hbm_capacity"], "B"))
    return dict(sorted(found.items(), key=lambda item: item[1]))


def _changed(inputs: Inputs, chosen: dict[str, Any], **record: Any) -> Inputs:
    """Return the inputs with another model or system, and what --set changes."""
    changed, _ = settle(dataclasses.replace(inputs, **record), training.recipe, chosen)
    return cast("Inputs", changed)


def _beside(data: xr.Dataset) -> xr.Dataset:
    """Return the systems of every cluster size side by side, for a picture."""
    if "gpus" not in data.sizes:
        return data
    each = []
    for size in data.gpus.values:
        some = data.sel(gpus=size).drop_vars("gpus")
        each.append(some.assign_coords(system=[f"{size:,} x {s}" for s in data.system.values]))
    return xr.concat(each, "system", data_vars="all", join="outer", combine_attrs="override")


def _listed(option: str, text: str) -> list[str]:
    """Return the names of a list such as ``A,B``.

    Raises: InputError for one that is there twice.
    """
    found = [name.strip() for name in text.split(",")]
    for name in found:
        if found.count(name) > 1:
            raise refusal(option, f"{name}: given twice; expected each once")
    return found


def _sizes(text: str) -> list[int]:
    return [whole("--gpus", size) for size in _listed("--gpus", text)]


def _records(option: str, text: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """Return the records of a list of names, refusals led by the option."""
    found = {}
    for name in _listed(option, text):
        with named(option):
            found[name] = read(name)
    return found


def _split(text: str) -> Split:
    members = {split.value: split for split in Split}
    if text not in members:
        raise unknown("--split", text, "split", members)
    return members[text]


def _rules(where: str) -> Iterable[Constraint]:
    return constraints(where, PLAN_FIELDS, SHORT)


def _days(text: str) -> float:
    value = parse(text, "day", "--days")
    if value <= 0:
        raise refusal("--days", f"expected days above 0, such as 30, given {text.strip()!r}")
    return value
