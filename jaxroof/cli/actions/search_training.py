"""The search command for models of today: the fastest plans that fit, or those that need least."""

import json
from typing import Any

import xarray as xr

from jaxroof.analyses.fastest_plans import better_batch, fastest_plans
from jaxroof.catalog.lookup import chip_of, system
from jaxroof.cli.actions.console import say, say_all
from jaxroof.cli.actions.outputs import check_output, report_written
from jaxroof.cli.actions.plans_by_size import search_sizes, write_plans
from jaxroof.cli.actions.search_by_memory import search_by_memory
from jaxroof.cli.actions.training_search_options import TrainingSearchOptions
from jaxroof.cli.progress import working
from jaxroof.errors import NoAnswer, unknown
from jaxroof.views.text.detail import Detail
from jaxroof.views.text.fastest_plans import answer, answer_of_sizes

# results by which plans can be ranked: those in the order of the step time, and the memory
TIME = ("step_time", "throughput", "tokens_per_second", "mfu", "training_days")
MEMORY = ("memory", "device")


def search_training_command(*, objective: str | None, **options: Any) -> int:
    """Print the fastest plans of each of some numbers of accelerators.

    By memory where that is the objective, or where no run of the chip was measured.
    Return 1 if no plan fits, and where a step time is asked for that there is not.
    """
    asked = TrainingSearchOptions(**options)
    if objective not in (None, *TIME, *MEMORY):
        raise unknown("--objective", objective, "objective of training", (*TIME, *MEMORY))
    if objective in MEMORY:
        return search_by_memory(asked)
    system(asked.system_name)  # an unknown name is refused as such
    try:
        chip_of(asked.system_name)
    except NoAnswer as error:
        if objective is not None:
            raise
        say(Detail.USUAL, f"{error}.", "By memory instead:")
        search_by_memory(asked, instead=True)
        return 1
    if _search_by_time(asked):
        return 0
    return search_by_memory(asked, instead=True)


def _search_by_time(asked: TrainingSearchOptions) -> bool:
    """Print and write the fastest plans of each size; return whether there are any."""
    check_output(asked.output)
    question, sequences, sizes = asked.question, asked.sequences, asked.sizes

    def fastest(size: int) -> xr.Dataset:
        of = {"top": asked.top, "own": asked.mine, **question}
        return fastest_plans(gpus=size, global_batch=sequences, **of)

    def beside(other: int) -> xr.Dataset:
        return fastest_plans(gpus=sizes[0], global_batch=other, **question)

    with working("weighing every legal plan"):
        found, none = search_sizes(sizes, fastest)
    if not found:
        return False
    write_plans(found, asked.output)
    if len(found) + len(none) == 1:
        if (near := better_batch(found[0], sequences, beside)) is not None:
            found[0].attrs["near"] = json.dumps(near)
        say_all(answer(found[0]))
    else:
        say_all(answer_of_sizes(found, none))
    report_written(asked.output)
    return True
