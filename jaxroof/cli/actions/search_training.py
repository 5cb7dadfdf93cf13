"""The search command for models of today: the fastest plans that fit, or those that need least."""

from collections.abc import Sequence
from typing import Any

import xarray as xr

from jaxroof.analyses.fastest_plans import fastest_plans
from jaxroof.analyses.near_batches import better_batch
from jaxroof.catalog.lookup import chip_of, system
from jaxroof.cli.actions.console import say
from jaxroof.cli.actions.least_memory import check_kind, settings_of
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.plans_by_size import print_sizes, search_sizes, write_plans
from jaxroof.cli.actions.search_by_memory import search_by_memory_command
from jaxroof.cli.counts import parse_count, parse_counts
from jaxroof.errors import NoAnswer, unknown
from jaxroof.views.text import fastest_plans as views
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.least_memory import shown_fields, title
from jaxroof.views.text.plan import plan_sentence

# results by which plans can be ranked: those in the order of the step time, and the memory
TIME = ("step_time", "throughput", "tokens_per_second", "mfu", "training_days")
MEMORY = ("memory", "device")


def search_training_command(*, objective: str | None, **asked: Any) -> int:
    """Print the fastest plans of each of some numbers of accelerators.

    By memory where that is the objective, or where no run of the chip was measured.
    Return 1 if no plan fits, and where a step time is asked for that there is not.
    """
    if objective not in (None, *TIME, *MEMORY):
        raise unknown("--objective", objective, "objective of training", (*TIME, *MEMORY))
    if objective in MEMORY:
        return search_by_memory_command(**asked)
    system(asked["system_name"])  # an unknown name is refused as such
    try:
        chip_of(asked["system_name"])
    except NoAnswer as error:
        if objective is not None:
            raise
        say(Detail.USUAL, f"{error}.", "By memory instead:")
        search_by_memory_command(**asked)
        return 1
    if _by_time(**asked):
        return 0
    return search_by_memory_command(**asked)


def _by_time(
    *,
    model_name: str,
    system_name: str,
    gpus: str,
    batch: str,
    where: str,
    top: int,
    mine: str | None,
    sets: Sequence[str],
    output: str | None,
) -> bool:
    """Print and write the fastest plans of each size; return whether there are any."""
    check_kind(output)
    settings = settings_of(sets)

    sequences = parse_count("--batch", batch)
    asked: dict[str, Any] = {
        "model": model_name,
        "system": system_name,
        "where": where,
        "settings": settings,
    }

    def fastest(size: int) -> xr.Dataset:
        return fastest_plans(gpus=size, global_batch=sequences, top=top, own=mine, **asked)

    def beside(other: int) -> xr.Dataset:
        return fastest_plans(gpus=parse_counts("--gpus", gpus)[0], global_batch=other, **asked)

    found, none = search_sizes(parse_counts("--gpus", gpus), fastest)
    if not found:
        return False
    write_plans(found, output)
    if len(found) + len(none) == 1:
        _print_one(found[0], better_batch(found[0], sequences, beside))
    else:
        print_sizes(views.sizes_table(found), found, none, "No plan is legal or fits on")
        say(Detail.USUAL, *map(views.size_sentence, found))
        say(
            Detail.USUAL,
            *(
                f"On {int(one.gpus):,}, y{views.own_sentence(one)[1:]}"
                for one in found
                if "own" in one
            ),
        )
    report_written(output)
    return True


def _print_one(data: xr.Dataset, near: tuple[int, float] | None) -> None:
    say(Detail.USUAL, title(data), style="bold")
    say(Detail.USUAL, views.answer_sentence(data), plan_sentence(data.isel(plan=0)))
    say(Detail.QUIET, views.plans_table(data))
    say(Detail.USUAL, views.table_sentence(data, shown_fields(data)))
    say(Detail.USUAL, views.parts_sentence(data))
    say(Detail.VERBOSE, views.layer_sentence(data), views.software_sentence(data))
    say(Detail.USUAL, views.own_sentence(data))
    if near is not None:
        more = f"one of {near[0]:,} trains {near[1]:.3g} times as many tokens a second"
        say(Detail.USUAL, f"This batch divides badly: {more}.")
