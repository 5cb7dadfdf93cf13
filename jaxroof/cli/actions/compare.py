"""The compare command: systems and splits side by side."""

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.training_settings import with_chip
from jaxroof.cli.actions.arguments import _listed, _records, parse_settings, parse_split
from jaxroof.cli.actions.console import OPTION_OF, say, say_all
from jaxroof.cli.actions.outputs import check_output, report_written, write_or_draw
from jaxroof.cli.actions.search_options import searched, system_of
from jaxroof.cli.counts import parse_count, parse_counts
from jaxroof.cli.progress import progress_bar
from jaxroof.config.toml_reader import errors_in_file
from jaxroof.engine.search.problem import constraints_of
from jaxroof.engine.search.search import search
from jaxroof.errors import NoAnswer
from jaxroof.estimator import Estimator
from jaxroof.estimators.published.step import published
from jaxroof.estimators.training.precision import MACHINE, settings_by_system, with_precision
from jaxroof.estimators.training.step import training
from jaxroof.settings import apply_settings
from jaxroof.shorthand import by_path
from jaxroof.views.text.answers.compare import answer
from jaxroof.views.text.compare import without_sentences
from jaxroof.views.text.detail import Detail


def compare_command(
    *,
    estimator: str,
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
    check_output(output)
    sizes, sequences = parse_counts("--gpus", gpus), parse_count("--batch", batch)
    of = searched(estimator)
    chosen = by_path(of.shorthand, parse_settings(sets, OPTION_OF))
    rules = constraints_of(of, where)
    chip = chosen.pop("chip", None) if of is training else None
    models = _records("--model", model_names, of.names["model"])
    systems, settings, without = _systems(of, system_names, number_format, chip, chosen)
    if not systems:
        say(Detail.USUAL, *without_sentences(without))
        return 1
    start = of.inputs(
        model=next(iter(models.values()))[0],
        system=next(iter(systems.values())),
        gpus=float(sizes[0]),
        global_batch=float(sequences),
    )
    # a record on an axis sets all its fields, so the --set changes are applied to each first
    models = {
        n: (_changed(of, start, next(iter(settings.values())), model=m).model, c)
        for n, (m, c) in models.items()
    }
    held = {name: _changed(of, start, settings[name], system=s) for name, s in systems.items()}
    axes: dict[str, Any] = {"model": models} if len(models) > 1 else {}
    axes |= {"gpus": sizes} if len(sizes) > 1 else {}
    machines = {name: inputs.system for name, inputs in held.items()}
    shared, differ = settings_by_system([*settings.values()])
    axes |= {MACHINE: {"system": machines, **differ}} if differ else {"system": machines}
    if of is published:
        axes["split"] = [parse_split(text) for text in _listed("--split", splits)]
    chosen = {k: v for k, v in shared.items() if k not in axes}
    if len(models) == 1:
        chosen = {"model": next(iter(models.values())), **chosen}
    with progress_bar() as progress:
        data = search(of, start, axes=axes, where=rules, settings=chosen, progress=progress)
    if MACHINE in data.dims:
        data = data.swap_dims({MACHINE: "system"})
    data["memory_limit"] = _limits(of, held.values())
    data.attrs["title"] = _title([*models], sizes)
    write_or_draw(output, data, lambda plots: plots.comparison(_beside(data)))
    tokens = {name: float(record.training_tokens) for name, (record, _) in models.items()}
    say_all(answer(data, tokens, without))
    report_written(output)
    return 0 if bool(data.feasible.any()) else 1


def _title(models: list[str], sizes: list[int]) -> str:
    on = f"{', '.join(models)} on {', '.join(f'{size:,}' for size in sizes)} accelerators"
    return f"{on}: the best plan of each"


def _limits(of: Estimator, held: Iterable[Any]) -> xr.Variable:
    """Return the memory that a step may fill on each system."""
    assert of.limit is not None
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    return xr.Variable("system", np.array([float(of.limit(inputs)) for inputs in held]), about)


def _systems(
    of: Estimator, names: str, number_format: str | None, chip: Any, chosen: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]], dict[str, str]]:
    """Return systems and the --set changes on each, by name, and why others have no step time.

    Raises: InputError for a name that there is not, or given twice.
    """
    systems, settings, without = {}, {}, {}
    for name in _listed("--system", names):
        try:
            with errors_in_file("--system"):
                systems[name] = system_of(of, name, number_format, chip)
            settings[name] = _settings(of, chosen, name)
        except NoAnswer as error:
            systems.pop(name, None)
            without[name] = str(error)
    return systems, settings, without


def _settings(of: Estimator, chosen: dict[str, Any], system_name: str) -> dict[str, Any]:
    """Return the --set changes as they are on one of the systems."""
    if of is published:
        return chosen
    return with_chip(with_precision(chosen, system_name, of), system_name)[1]


def _changed(of: Estimator, inputs: Any, chosen: dict[str, Any], **record: Any) -> Any:
    """Return the inputs with another model or system, and the --set changes."""
    changed, _ = apply_settings(dataclasses.replace(inputs, **record), of.recipe, chosen)
    return changed


def _beside(data: xr.Dataset) -> xr.Dataset:
    """Return the systems side by side for every cluster size, for a picture."""
    if "gpus" not in data.sizes:
        return data
    each = []
    for size in data.gpus.values:
        some = data.sel(gpus=size).drop_vars("gpus")
        each.append(some.assign_coords(system=[f"{size:,} x {s}" for s in data.system.values]))
    return xr.concat(each, "system", data_vars="all", join="outer", combine_attrs="override")
