"""The search command for models of today: the plans of each cluster that need the least memory."""

import xarray as xr

from jaxroof.analyses.least_memory import least_memory
from jaxroof.cli.actions.console import say_all
from jaxroof.cli.actions.outputs import report_written
from jaxroof.cli.actions.plans_by_size import search_sizes, write_plans
from jaxroof.cli.actions.training_search_options import TrainingSearchOptions, check_kind
from jaxroof.cli.progress import working
from jaxroof.estimators.training.inputs import StageInputs, TrainingInputs
from jaxroof.settings import paths_of
from jaxroof.views.text.least_memory import answer, answer_of_sizes


def search_by_memory(asked: TrainingSearchOptions, instead: bool = False) -> int:
    """Print the plans that need least on each of some numbers of accelerators.

    ``instead`` of the fastest plans: settings that a step time alone reads are left out.
    Return 1 if no plan fits on any of them.
    """
    check_kind(asked.output)
    sizes, question = asked.sizes, asked.question
    if instead:
        question["settings"] = {k: v for k, v in question["settings"].items() if not _of_time(k)}
    question |= {"global_batch": asked.sequences, "top": asked.top, "own": asked.mine}

    def leanest(size: int) -> xr.Dataset:
        return least_memory(gpus=size, **question)

    with working("weighing the memory of every legal plan"):
        found, none = search_sizes(sizes, leanest)
    write_plans(found, asked.output)
    say_all(answer(found[0]) if len(sizes) == 1 else answer_of_sizes(found, none))
    report_written(asked.output)
    return 0 if any(bool(one.fits) for one in found) else 1


def _of_time(path: str) -> bool:
    """Return whether a setting is of the step time, and not of memory."""
    of_step, of_memory = (dict(paths_of(kind)) for kind in (TrainingInputs, StageInputs))
    return path.startswith(("system.chip", "chip")) or (path in of_step and path not in of_memory)
