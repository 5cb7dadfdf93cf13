"""A training step of a model of today: its time with an interval, its memory and its legality.

Source: docs/models/training_step_today.md and docs/models/parameters_flops_memory.md.
"""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.chip import Chip
from jaxroof.estimator import Estimator, details_in
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training import interval as bounds
from jaxroof.estimators.training.inputs import SHORTHAND, TrainingInputs, TrainingPlan
from jaxroof.estimators.training.interval import inside
from jaxroof.estimators.training.legality import verdicts
from jaxroof.estimators.training.memory_step import (
    all_of,
    device_memory,
    fullest,
    groups,
    memory_limit,
)
from jaxroof.estimators.training.memory_step import example as example_of_memory
from jaxroof.estimators.training.model_flops import token_flops
from jaxroof.estimators.training.own_plan import USUAL, close, why_not
from jaxroof.estimators.training.planned import PlannedStep, planned
from jaxroof.estimators.training.plans import DEGREES, alike, plans, reasons
from jaxroof.estimators.training.precision import expand_settings
from jaxroof.estimators.training.rates import chip_of
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.estimators.training.stage_time import ROUTES, SHORTER, late, stage_layers
from jaxroof.estimators.training.step_time import (
    LayerParts,
    StepTime,
    layer,
    time_of_layers,
)
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number, value_or

DAY = 86400.0  # [s]
ROUNDING = 1e-9  # by which a bound is lower, so that it stays one


def step(inputs: TrainingInputs, recipe: TrainingRecipe, *, layer: LayerParts) -> TrainingReport:
    """Return the time, memory and verdicts of one optimizer step.

    t = steady + bubble + sends + data-parallel messages + update + what comes once a step;
    t exp(-h) and t exp(h) hold 80 % of measured runs of the regime

    Units: see TrainingReport.
    Source: docs/models/training_step_today.md, sections 7 and 12.
    """
    plan, batch = inputs.plan, inputs.global_batch
    assert plan is not None
    asked = planned(inputs, recipe)
    memory, _, host = fullest(asked, recipe)
    time = time_of_layers(inputs, recipe, layer)
    total = time.step_time + time.offload
    within, place = interval(inputs, total)
    allowed = {
        **verdicts(asked, recipe),
        "memory_fits": memory.device <= memory_limit(inputs),
    }
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    rate = batch * inputs.model.sequence / (total * gpus)
    flops = token_flops(inputs.model, recipe)["flops_megatron_causal"]
    tokens = batch * inputs.model.sequence
    whole = value_or(inputs.training_tokens, inputs.model.training_tokens)
    return TrainingReport(
        step_time=total,
        step_time_low=within.low,
        step_time_high=within.high,
        regime=place,
        throughput=batch / total,
        tokens_per_second=rate,
        mfu=flops * rate / inputs.system.matrix_flops,
        training_days=whole / tokens * total / DAY,
        memory=memory.device,
        host=host,
        **groups(memory),
        **times(asked, time),
        **allowed,
        feasible=all_of(allowed),
    )


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
    Source: docs/models/training_step_today.md, section 6.
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
    slow = where((stages == 1.0) | (model.kv_rank > 0.0), every / stages, slow)
    chips = plan.data * plan.tensor * plan.context
    filled = 0.0 if recipe.schedule in SHORTER else 1.0 / plan.interleave
    passes = (plan.microbatches - filled) * slow + filled * every
    return (1.0 - ROUNDING) * late(chips, chip_of(inputs).spread) * passes


def interval(inputs: TrainingInputs, step_time: Number) -> tuple[bounds.Interval, Number]:
    """Return the bounds between which 80 % of measured runs lie, and the regime.

    Assumes: offload was not measured, nor was a chip whose constants are another's, nor what lies
    outside the envelope of measured runs. Runs of one's own count for plans of their kind alone.
    Source: docs/models/training_step_today.md, section 12.
    """
    chip, software, plan = chip_of(inputs), inputs.software, inputs.plan
    assert plan is not None
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    extent = inside(gpus, plan.tensor, inputs.model.sequence, inputs.system.fast_domain)
    return bounds.interval_of_runs(
        step_time,
        inputs.model.experts,
        larger(software.fp8, software.fp4),
        chip.calibrated,
        where(plan.offload_optimizer > 0.0, 0.0, extent),
        own_runs(chip),
    )


def own_runs(chip: Chip) -> bounds.OwnRuns:
    """Return the half widths that runs of one's own support on a chip."""
    return bounds.OwnRuns(chip.own_dense_16_bit, chip.own_dense_8_or_4_bit, chip.own_experts)


def times(asked: PlannedStep, time: StepTime) -> dict[str, Number]:
    """Return the parts of the step time; those of a stage are of the mean one.

    M (n / p) x part of a layer, of n layers in p stages and M microbatches
    """
    plan = asked.plan
    layers, _, _ = stage_layers(asked.model, plan)
    each = plan.microbatches / plan.pipeline
    ends = sum(time.edges)
    part, stages = time.layer, time.stages
    messages = part.tensor_comm + part.context_comm + part.expert_comm
    stage = {
        "time_compute": each * (layers * (part.matmul + part.attention + part.experts) + ends),
        "time_memory": each * layers * (part.elementwise + part.cast),
        "time_recompute": each * layers * part.recompute,
        "time_tensor": each * layers * messages,
    }
    return {
        **stage,
        "time_imbalance": stages.steady - sum(stage.values()),
        "time_bubble": stages.bubble,
        "time_pipeline": stages.sends,
        "time_data": time.data_comm,
        "time_update": time.update + time.offload,
    }


def example() -> TrainingInputs:
    """Return the example of ``stage_memory``, on a system with its chip."""
    timed = {"system": named.training_system("h100-nvs8")}
    return TrainingInputs(**{**vars(example_of_memory()), **timed})


training = Estimator(
    name="training",
    about=QUESTIONS["training"],
    inputs=TrainingInputs,
    plan=TrainingPlan,
    recipe=TrainingRecipe(),
    parts={"layer": layer},
    step=step,
    candidates=plans,
    alike=alike,
    reasons=reasons,
    why_not=why_not,
    usual=USUAL,
    close=close,
    structural=("gpus", "global_batch", "model"),
    objective="step_time",
    need="memory",
    alone={"step_time": time_alone, "memory": device_memory},
    lower_bound=least_time,
    limit=memory_limit,
    products={"gpus": DEGREES},
    names={"model": named.architecture_with_choices, "system": named.training_system},
    shorthand=SHORTHAND,
    expand=expand_settings(timed=True),
    example=example,
    details=details_in("jaxroof.estimators.training.details"),
)
