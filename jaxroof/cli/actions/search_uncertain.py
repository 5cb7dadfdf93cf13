"""The `search --uncertain` command: quantiles, the plan to commit to, what to measure first."""

import pathlib
from typing import Any

import xarray as xr

from jaxroof.catalog.lookup import model, system
from jaxroof.cli.actions.arguments import PLAN_FIELDS, SHORT, parse_count, parse_settings
from jaxroof.cli.actions.console import OPTION_OF, console, print_text
from jaxroof.cli.actions.outputs import check_output, report_written, write_or_draw
from jaxroof.config.sweep_file import errors_in_file
from jaxroof.config.uncertainty_file import read_uncertain
from jaxroof.engine.search.constraints import constraints
from jaxroof.engine.search.problem import check_search
from jaxroof.engine.uncertainty.uncertain import uncertain
from jaxroof.errors import InputError
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.step import published
from jaxroof.io.formats import CSV
from jaxroof.views.text import uncertain as views


def uncertain_command(
    file: str,
    *,
    model_name: str,
    system_name: str,
    number_format: str | None,
    gpus: str,
    batch: str,
    split: str,
    top: int,
    placements: bool,
    where: str,
    mine: str | None,
    within: str,
    objective: str | None,
    everything: bool,
    sets: tuple[str, ...],
    output: str | None,
) -> int:
    """Search one or several cluster sizes in every draw, print and write; return the status.

    Every placement counts as a separate plan, so ``placements`` has no effect.
    """
    check_output(output)
    for option, asked in (("--mine", mine), ("--all", everything)):
        if asked:
            raise InputError(f"{option}: not with --uncertain; expected one of the two")
    written = read_uncertain(file)
    sizes = list(dict.fromkeys(parse_count("--gpus", text) for text in gpus.split(",")))
    inputs = Inputs(model=model(model_name), system=system(system_name, number_format))
    chosen: dict[str, Any] = {"model": model_name, "split": split}
    chosen |= {"global_batch": parse_count("--batch", batch)}
    chosen |= parse_settings(sets, OPTION_OF)
    first = {**chosen, "gpus": sizes[0]}
    given: dict[str, Any] = {
        "where": constraints(where, PLAN_FIELDS, SHORT),
        "objective": objective,
    }
    check_search(
        published, inputs, top=top, settings=first, **given
    )  # the error is not in the file
    if len(sizes) > 1:
        given |= {"axes": {"gpus": sizes}, "settings": chosen}
    else:
        given |= {"settings": first}
    with errors_in_file(file):
        data = uncertain(published, inputs, top=max(top, 10), **written, **given)
    counts = ", ".join(f"{size:,}" for size in sizes)
    aim = str(data.attrs["objective"]).replace("_", " ")
    machine = f"{model_name} on {counts} x {system_name}, {split}"
    data.attrs["title"] = f"{machine}: {aim} in {data.sizes['draw']:,} draws of what is uncertain"
    plain = output is not None and pathlib.Path(output).suffix == CSV
    write_or_draw(output, views.columns(data) if plain else data, lambda plots: plots.draw(data))
    _print(data, top)
    report_written(output)
    return 0 if bool((data.feasible_share > 0).any()) else 1


def _print(data: xr.Dataset, top: int) -> None:
    page = console()
    page.print(views.inputs_table(data))
    if "gpus" in data.sizes:
        page.print(views.sizes_table(data))
        said = views.sizes_sentences(data)
    else:
        if float(data.feasible_share) > 0:
            page.print(views.bands_table(data))
            page.print(views.plans_table(data, top))
        said = views.sentences(data)
    for sentence in said:
        print_text(page, sentence)
