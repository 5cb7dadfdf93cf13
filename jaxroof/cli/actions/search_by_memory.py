"""The search command for models of today: the plans of each cluster that need the least memory."""

import xarray as xr

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.plans_by_size import search_sizes, write_plans
from jaxroof.cli.actions.training_search_options import TrainingSearchOptions, check_kind
from jaxroof.cli.progress import working
from jaxroof.views.text.answers.least_memory import answer, answer_of_sizes


def search_by_memory(asked: TrainingSearchOptions) -> int:
    """Print the plans that need least on each of some numbers of accelerators.

    Return 1 if no plan fits on any of them.
    """
    check_kind(asked.output)
    sizes, question = asked.sizes, asked.question
    question |= {"global_batch": asked.sequences, "top": asked.top, "own": asked.mine}

    def leanest(size: int) -> xr.Dataset:
        return least_memory(gpus=size, **question)

    with working("weighing the memory of every legal plan"):
        found, none = search_sizes(sizes, leanest)
    write_plans(found, asked.output)
    say_all(answer(found[0]) if len(sizes) == 1 else answer_of_sizes(found, none))
    report_written(asked.output)
    return 0 if any(bool(one.fits) for one in found) else 1
