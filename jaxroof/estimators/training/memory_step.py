"""What the fullest stage of a training step keeps in memory, and whether the plan is legal.

Source: docs/models/parameters_flops_memory.md, sections 4, 5 and 7.
"""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import usable_memory
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.inputs import SHORTHAND, StageInputs, TrainingPlan
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.own_plan import USUAL, why_not
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.plans import DEGREES, alike, plans, reasons
from jaxroof.estimators.training.precision import expand_settings
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.report import FullestStageReport, StageMemory
from jaxroof.estimators.training.stage_memory import amounts, host_bytes, of_stage
from jaxroof.estimators.training.stages import deciding_stages
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


def memory_limit(inputs: StageInputs) -> Number:
    """Return the memory available to a step [B]: what the device has, times its usable share."""
    return usable_memory(inputs.system)


def fewest_state_bytes(inputs: StageInputs, recipe: TrainingRecipe) -> Number:
    """Return the bytes that all ranks of any plan together have at least: weights and gradients.

    Assumes: one copy of each; the optimizer states may lie in host memory.
    """
    counted = size(inputs.model, recipe)
    elsewhere = counted["parameters_extra"] + counted["parameters_class_head"]
    parameters = counted["parameters"] - elsewhere  # those that memory counts
    return parameters * (inputs.states.weight_bytes + inputs.states.gradient_bytes)


def fullest_stage(inputs: StageInputs, recipe: TrainingRecipe) -> FullestStageReport:
    """Return the memory of the fullest stage and the verdicts of one optimizer step.

    Assumes: one rank of every kind of stage, all ranks of a stage alike (experts: see
    ``routing_imbalance``).
    Units: see FullestStageReport.
    Source: docs/models/parameters_flops_memory.md, sections 4, 5 and 7.
    """
    asked = planned(inputs, recipe)
    memory, stage, host = fullest(asked, recipe)
    fits = memory.device <= memory_limit(inputs)
    allowed = {**verdicts(asked, recipe), "device_fits": fits}
    return FullestStageReport(
        **vars(memory),
        **groups(memory),
        stage=stage,
        host=host,
        microbatches=asked.plan.microbatches,
        **allowed,
        feasible=all_of(allowed),
    )


def fullest(asked: PlannedStep, recipe: TrainingRecipe) -> tuple[StageMemory, Number, Number]:
    """Return the memory of the fullest stage, its number from 0, and its bytes on the host."""
    found = amounts(asked, recipe)
    device: Number = 0.0
    stage: Number = 0.0
    for place in deciding_stages(asked, recipe):
        here = of_stage(asked, recipe, found, place).device
        stage, device = where(here > device, place, stage), larger(here, device)
    host = host_bytes(asked, recipe, found, stage)
    return of_stage(asked, recipe, found, stage), stage, host


def device_memory(inputs: StageInputs, recipe: TrainingRecipe) -> Number:
    """Return the memory of the fullest stage alone, ``device`` of the report [B].

    It takes a fraction of the time of a report where columns of plans broadcast: a term that a
    field does not move is as small as the fields that do.
    """
    asked = planned(inputs, recipe)
    found = amounts(asked, recipe)
    device: Number = 0.0
    for place in deciding_stages(asked, recipe):
        device = larger(of_stage(asked, recipe, found, place).device, device)
    return device


def groups(memory: StageMemory) -> dict[str, Number]:
    """Return the memory of a stage in groups that sum to that of the device."""
    states = {
        f"memory_{kind}": getattr(memory, f"{kind}_dense") + getattr(memory, f"{kind}_expert")
        for kind in ("weights", "gradients", "optimizer")
    }
    return {
        **states,
        "memory_activations": memory.activations,
        "memory_transient": memory.transient,
        "memory_buffers": memory.static - sum(states.values()),
        "memory_outside": memory.device - memory.peak_allocated,
    }


def all_of(allowed: dict[str, Any]) -> Any:
    """Return whether every verdict holds."""
    held: Any = True
    for verdict in allowed.values():
        held = held & verdict
    return held


def example() -> StageInputs:
    """Return Llama 3.1 405B on 4,096 H100, split as its makers split it."""
    model, _ = named.architecture_with_choices("llama3.1-405b")
    return StageInputs(
        model=model,
        system=named.device("h100-nvs8"),
        gpus=4096.0,
        global_batch=2048.0,
        plan=TrainingPlan(data=32.0, tensor=8.0, pipeline=16.0),
    )


stage_memory = Estimator(
    name="stage_memory",
    about=QUESTIONS["stage_memory"],
    inputs=StageInputs,
    plan=TrainingPlan,
    recipe=TrainingRecipe(),
    step=fullest_stage,
    candidates=plans,
    alike=alike,
    reasons=reasons,
    why_not=why_not,
    usual=USUAL,
    structural=("gpus", "global_batch", "model"),
    objective="device",
    need="device",
    alone={"device": device_memory},
    limit=memory_limit,
    products={"gpus": DEGREES},
    names={"model": named.architecture_with_choices, "system": named.device},
    shorthand=SHORTHAND,
    expand=expand_settings(timed=False),
    example=example,
)
