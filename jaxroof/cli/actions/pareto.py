"""The pareto command: the benefit of more memory, printed, written and drawn."""

from typing import Any

import numpy as np
import xarray as xr

from jaxroof.catalog.needs import training_capacities
from jaxroof.cli.actions.arguments import parse_share, parse_split
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.outputs import check_output, is_picture, report_written, write_or_draw
from jaxroof.cli.actions.search_options import QuestionOptions
from jaxroof.cli.counts import parse_counts
from jaxroof.cli.progress import working
from jaxroof.engine.search.pareto import pareto
from jaxroof.errors import refusal, shown
from jaxroof.estimators.published.step import published
from jaxroof.units import parse
from jaxroof.views.text import pareto as stairs_views
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.tokens import tokens_sentence


def pareto_command(*, days: str | None, gain: str, **options: Any) -> int:
    """Print the staircase of step time against memory for each size; return the exit status."""
    asked = QuestionOptions(**options)
    output = asked.output
    check_output(output)
    sizes = parse_counts("--gpus", asked.gpus)
    most_days, worth = None if days is None else _days(days), parse_share("--gain", gain)
    if asked.asked_of is published:
        parse_split(asked.split)
    axes = {"gpus": sizes}
    with working("finding the fastest plan at every amount of memory"):
        data = pareto(
            asked.asked_of, asked.inputs, axes=axes, where=asked.rules, settings=asked.settings
        )
    data.attrs["title"] = f"{asked.question}: what more memory buys"
    there = data.sizes["step_number"] > 0
    if not there and is_picture(output):
        output = None  # nothing to draw
    write_or_draw(output, data, lambda plots: plots.staircase(data, most_days))
    say(Detail.USUAL, f"{data.attrs['title']}, batch {asked.sequences:,}", style="bold")
    each = {n: data.isel(step_number=np.flatnonzero(data.gpus.values == n)) for n in sizes}
    capacities = training_capacities(asked.asked_of is not published)
    if len(sizes) == 1:
        _print_stairs(data, worth, most_days, capacities)
    else:
        if most_days is not None:
            say(Detail.USUAL, *stairs_views.days_sentences(each, most_days, capacities))
        say(Detail.QUIET, stairs_views.sizes_table(each, worth, most_days, capacities))
        say(Detail.USUAL, *(stairs_views.sizes_sentences(each, None if most_days else worth)))
        say(Detail.USUAL, stairs_views.glossary_of(data))
    if there:
        say(Detail.USUAL, tokens_sentence(data) if asked.asked_of is not published else "")
        say(Detail.VERBOSE, interval_sentence(data))
    report_written(output)
    if most_days is not None:
        return 0 if there and bool((data.training_days <= most_days).any()) else 1
    return 0 if there and bool(data.fits.any()) else 1


def _print_stairs(
    stairs: xr.Dataset, gain: float, most_days: float | None, capacities: stairs_views.Capacities
) -> None:
    if not stairs.sizes["step_number"]:
        say(Detail.QUIET, "No plan is legal.")
        return
    chosen = stairs_views.stairs_to_show(stairs, gain)
    if most_days is not None:
        sizes = {int(stairs.gpus.values[0]): stairs}
        say(Detail.USUAL, *stairs_views.days_sentences(sizes, most_days, capacities))
    say(Detail.USUAL, *stairs_views.stairs_sentences(stairs, gain))
    say(Detail.QUIET, stairs_views.stairs_table(stairs, chosen, capacities))
    say(Detail.USUAL, stairs_views.glossary_of(stairs))
    say(Detail.USUAL, stairs_views.shown_sentence(stairs, len(chosen), gain))
    say(Detail.VERBOSE, stairs_views.ends_sentence(stairs))


def _days(text: str) -> float:
    value = parse(text, "day", "--days")
    if value <= 0:
        raise refusal("--days", f"expected days above 0, such as 30, given {shown(text.strip())}")
    return value
