"""The few stages of a pipeline of which one is the fullest.

Stages differ in the layers of their chunks, in their ends, and in the microbatches that they hold.
Neighbours whose chunks have the same layers make a run, and few stages start one. Along a run
memory never rises, because later stages hold no more microbatches; so the first stage of a run is
its fullest. With ZB-H1 memory is a concave function along a run, straight between M, p - M and the
ends; under DualPipe a rank has two stages, and all stages hold as much.

Source: docs/models/parameters_flops_memory.md, sections 4.3, 4.6 and 5.
"""

from collections.abc import Callable

from jaxroof.estimators.training.memory_inputs import MemoryPlan
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.memory_recipe import MemoryRecipe, Schedule
from jaxroof.estimators.training.stage_layers import layout_of
from jaxroof.formulas.arithmetic import larger, smaller, whole
from jaxroof.records import Number


def deciding_stages(model: MemoryModel, plan: MemoryPlan, recipe: MemoryRecipe) -> list[Number]:
    """Return stages of which one is the fullest; every stage of a split of layers that is given."""
    last = plan.pipeline - 1.0
    if recipe.layer_split:
        return [smaller(float(stage), last) for stage in range(len(recipe.layer_split))]
    starts = run_starts(model, plan, recipe)
    chosen = CHOSEN.get(recipe.schedule, _starts)(plan, starts)
    return [0.0, *(larger(smaller(stage, last), 0.0) for stage in chosen)]


def run_starts(model: MemoryModel, plan: MemoryPlan, recipe: MemoryRecipe) -> list[Number]:
    """Return the stages, apart from 0, from which on the chunks have other layers."""
    spread = layout_of(model, plan, recipe)
    starts = (spread.extra, spread.mixed)
    more, change = (chunk - plan.pipeline * whole(chunk, plan.pipeline) for chunk in starts)
    return [1.0, more, change, change + 1.0, plan.pipeline - 1.0]


def _starts(plan: MemoryPlan, starts: list[Number]) -> list[Number]:
    return starts


def _zero_bubble(plan: MemoryPlan, starts: list[Number]) -> list[Number]:
    ends = [start - 1.0 for start in starts]
    return [*starts, *ends, plan.microbatches, plan.pipeline - plan.microbatches]


def _both_directions(plan: MemoryPlan, starts: list[Number]) -> list[Number]:
    return [*starts, *(plan.pipeline - start for start in starts)]


CHOSEN: dict[Schedule, Callable[[MemoryPlan, list[Number]], list[Number]]] = {
    Schedule.ZB_H1: _zero_bubble,
    Schedule.DUALPIPE: _both_directions,
}
