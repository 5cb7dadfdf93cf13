"""A training step of a model of today: its time with an interval, its memory and its legality.

Two estimators: ``training``, and ``stage_memory`` for the memory alone, which needs no chip.
Source: docs/models/training_step_today.md and docs/models/parameters_flops_memory.md.
"""

import dataclasses

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import usable_memory
from jaxroof.estimator import Estimator, Limit, details_in
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.contradictions import refuse_contradictions
from jaxroof.estimators.training.inputs import (
    SHORTHAND,
    PlannedStep,
    StageInputs,
    TrainingInputs,
    TrainingPlan,
    layers_by_part,
    planned,
    step_model,
)
from jaxroof.estimators.training.interval import interval
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.model_size import size, step_flops
from jaxroof.estimators.training.plans import DEGREES, USUAL, alike, close, plans, reasons, why_not
from jaxroof.estimators.training.precision import NAMES, expand_settings
from jaxroof.estimators.training.rates import chip_of
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.report import (
    FullestStageReport,
    StageMemory,
    TrainingReport,
    WholeTrainingReport,
)
from jaxroof.estimators.training.stage_memory import stages
from jaxroof.estimators.training.stages import deciding_stages
from jaxroof.estimators.training.step_time import (
    ROUTES,
    SHORTER,
    LayerParts,
    StepTime,
    late,
    layer,
    stage_layers,
    time_of_layers,
)
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number, value_or

DAY = 86400.0  # [s]
ROUNDING = 1e-9  # by which a bound is lower, so that it stays one

# ---- Its memory ---------------------------------------------------------------------------------


def memory_limit(inputs: StageInputs) -> Number:
    """Return the memory available to a step [B]: what the device has, times its usable share."""
    return usable_memory(inputs.system)


def fewest_state_bytes(inputs: StageInputs, recipe: TrainingRecipe) -> Number:
    """Return the bytes that all ranks of any plan together have at least: weights and gradients.

    Assumes: one copy of each; the optimizer states may lie in host memory; of adapters nothing.
    """
    counted, model = size(inputs.model, recipe), inputs.model
    elsewhere = counted["parameters_extra"] + counted["parameters_class_head"]
    routers = model.router_correction * layers_by_part(model)["routed_layers"]
    elsewhere = elsewhere + routers * model.experts  # without gradients
    parameters = counted["parameters"] - elsewhere  # those that memory counts
    gradients = inputs.states.gradient_bytes * step_model(inputs, recipe).trained
    return parameters * (inputs.states.weight_bytes + gradients)


def fullest_stage(inputs: StageInputs, recipe: TrainingRecipe) -> FullestStageReport:
    """Return the memory of the fullest stage and the verdicts of one optimizer step.

    Assumes: one rank of every kind of stage, all ranks of a stage alike (experts: see
    ``routing_imbalance``).
    """
    asked = planned(inputs, recipe)
    memory, stage, host = fullest(asked, recipe)
    fits = memory.device <= memory_limit(inputs)
    return FullestStageReport(
        **vars(memory),
        **memory_groups(memory),
        stage=stage,
        host=host,
        microbatches=asked.plan.microbatches,
        **verdicts(asked, recipe, device_fits=fits),
    )


def fullest(asked: PlannedStep, recipe: TrainingRecipe) -> tuple[StageMemory, Number, Number]:
    """Return the memory of the fullest stage, its number from 0, and its bytes on the host."""
    found = stages(asked, recipe)
    most: Number = 0.0
    stage: Number = 0.0
    for place in deciding_stages(asked, recipe):
        here = found.peak(place)
        stage, most = where(here > most, place, stage), larger(here, most)
    return found.memory(stage), stage, found.host(stage)


def device_memory(inputs: StageInputs, recipe: TrainingRecipe) -> Number:
    """Return the memory of the fullest stage alone, ``device`` of the report [B].

    It takes a fraction of the time of a report where columns of plans broadcast: a term that a
    field does not move is as small as the fields that do.
    """
    asked = planned(inputs, recipe)
    found = stages(asked, recipe)
    most: Number = 0.0
    for place in deciding_stages(asked, recipe):
        most = larger(found.peak(place), most)
    return found.device(most)


def memory_groups(memory: StageMemory) -> dict[str, Number]:
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


# ---- Its time -----------------------------------------------------------------------------------


def step(inputs: TrainingInputs, recipe: TrainingRecipe, *, layer: LayerParts) -> TrainingReport:
    """Return the time, memory and verdicts of one optimizer step.

    t = steady + bubble + sends + data-parallel messages + update + what comes once a step;
    t exp(-h) and t exp(h) hold 80 % of measured runs of the regime

    Units: see TrainingReport.
    """
    plan, batch = inputs.plan, inputs.global_batch
    assert plan is not None
    asked = planned(inputs, recipe)
    memory, _, host = fullest(asked, recipe)
    time = time_of_layers(inputs, recipe, layer)
    total = time.step_time + time.offload
    within = interval(inputs, total)
    fits = memory.device <= memory_limit(inputs)
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    rate = batch * inputs.model.sequence / (total * gpus)
    flops = step_flops(inputs, recipe)
    tokens = batch * inputs.model.sequence
    whole = value_or(inputs.training_tokens, inputs.model.training_tokens)
    found = TrainingReport(
        step_time=total,
        step_time_low=within.low,
        step_time_high=within.high,
        regime=within.place,
        throughput=batch / total,
        tokens_per_second=rate,
        mfu=flops * rate / inputs.system.matrix_flops,
        training_days=whole / tokens * total / DAY,
        memory=memory.device,
        host=host,
        **memory_groups(memory),
        **times(asked, time),
        **verdicts(asked, recipe, memory_fits=fits),
    )
    if inputs.operation is None:
        return found
    from jaxroof.estimators.whole_run.run import with_run  # not above: few ask

    parameters = size(inputs.model, recipe)["parameters"]
    run: TrainingReport = with_run(WholeTrainingReport, found, inputs, whole, gpus, parameters)
    return run


def time_alone(inputs: TrainingInputs, recipe: TrainingRecipe, *, layer: LayerParts) -> Number:
    """Return the step time alone, that of the report [s]."""
    time = time_of_layers(inputs, recipe, layer)
    return time.step_time + time.offload


def least_time(inputs: TrainingInputs, recipe: TrainingRecipe, *, layer: LayerParts) -> Number:
    """Return a lower bound of the step time: its stages, without any message between ranks.

    t >= late(d c t) ((M - 1 / v) slow + sum / v), where slow is the longest stage and sum all of
    them; M late(d c t) slow under a schedule whose bubble is shorter than that of 1F1B

    Assumes: FSDP hides no work; the smooth maximum of stages is at least the largest; chips of one
    stage vary as those of all do, or less.
    Units: -> [s].
    """
    asked = planned(inputs, recipe)
    model, plan = asked.model, asked.plan
    layers, inner, outer = stage_layers(model, plan)
    work = layer.layer.forward + layer.layer.backward
    embedding, head = layer.edges
    every = layers * work + embedding + head
    heavier = (embedding + head) / 2.0 if recipe.schedule in ROUTES else larger(embedding, head)
    end = outer * work + heavier
    stages = plan.pipeline
    slow = where(stages > 2.0, larger(end, inner * work), end)
    slow = where((stages == 1.0) | (model.latent > 0.0), every / stages, slow)
    chips = plan.data * plan.tensor * plan.context
    filled = 0.0 if recipe.schedule in SHORTER else 1.0 / plan.interleave
    passes = (plan.microbatches - filled) * slow + filled * every
    return (1.0 - ROUNDING) * late(chips, chip_of(inputs).spread) * passes


def times(asked: PlannedStep, time: StepTime) -> dict[str, Number]:
    """Return the parts of the step time; those of a stage are of the mean one.

    M (n / p) x part of a layer, of n layers in p stages and M microbatches; what nothing hides of
    FSDP's messages is data-parallel
    """
    plan = asked.plan
    layers, _, _ = stage_layers(asked.model, plan)
    each = plan.microbatches / plan.pipeline
    ends = sum(time.edges)
    part, stages = time.layer, time.stages
    messages = part.tensor_comm + part.context_comm + part.expert_comm
    gathered = time.sharded.forward - part.forward + time.sharded.backward - part.backward
    shards = each * layers * gathered + where(plan.pipeline == 1.0, each * time.sharded.edge, 0.0)
    stage = {
        "time_compute": each
        * (layers * (part.matmul + part.attention + part.recurrent + part.experts) + ends),
        "time_memory": each * layers * (part.elementwise + part.cast),
        "time_recompute": each * layers * part.recompute,
        "time_tensor": each * layers * messages,
    }
    return {
        **stage,
        "time_imbalance": stages.steady - shards - sum(stage.values()),
        "time_bubble": stages.bubble,
        "time_pipeline": stages.sends,
        "time_data": time.data_comm + shards,
        "time_update": time.update + time.offload,
    }


# ---- The estimators -----------------------------------------------------------------------------

MORE_LIMITS: tuple[Limit, ...] = ()  # on results of both reports, besides that of the memory


def example_of_memory() -> StageInputs:
    """Return Llama 3.1 405B on 4,096 H100, split as its makers split it."""
    model, _ = named.architecture_with_choices("llama3.1-405b")
    return StageInputs(
        model=model,
        system=named.device("h100-nvs8"),
        gpus=4096.0,
        global_batch=2048.0,
        plan=TrainingPlan(data=32.0, tensor=8.0, pipeline=16.0),
    )


def example() -> TrainingInputs:
    """Return the example of ``stage_memory``, on a system with its chip."""
    timed = {"system": named.training_system("h100-nvs8")}
    return TrainingInputs(**{**vars(example_of_memory()), **timed})


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
    structural=("gpus", "global_batch", "model", "lora_rank"),
    objective="device",
    limits=(Limit("device", memory_limit), *MORE_LIMITS),
    alone={"device": device_memory},
    products={"gpus": DEGREES},
    names={"model": named.trained_architecture, "system": named.device},
    shorthand=SHORTHAND,
    expand=expand_settings(timed=False),
    stands=NAMES,
    check=refuse_contradictions,
    example=example_of_memory,
)
training = dataclasses.replace(
    stage_memory,
    name="training",
    about=QUESTIONS["training"],
    inputs=TrainingInputs,
    parts={"layer": layer},
    step=step,
    close=close,
    objective="step_time",
    limits=(Limit("memory", memory_limit), *MORE_LIMITS),
    alone={"step_time": time_alone, "memory": device_memory},
    lower_bound=least_time,
    names={**stage_memory.names, "system": named.training_system},
    expand=expand_settings(timed=True),
    example=example,
    details=details_in("jaxroof.estimators.training.details"),
)
