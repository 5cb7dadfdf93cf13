"""Seconds of one optimizer step of today's training: rates, a layer, stages, messages, the step.

Source: docs/models/training_step_today.md.
"""

from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer.operation import Tokens, Work
from jaxroof.estimators.training.layer.sums import MeanWeights, mean_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    Sharded,
    layer_time,
    layer_work,
    tokens_of,
    with_fsdp,
)
from jaxroof.estimators.training.planned import BatchPlan, batch_plan, training_model
from jaxroof.estimators.training.rates import rates, software_of
from jaxroof.estimators.training.recipe import TrainingRecipe, exchange_of, modules_of
from jaxroof.estimators.training.stage_time import (
    ROUTES,
    Ends,
    StageTime,
    ends,
    neighbours,
    stage_layers,
    stage_time,
)
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.network import all_reduce, at_full_rate, beside, gather, placed
from jaxroof.records import Number, value_or

HOST_BANDWIDTH = 64e9  # [B/s] of a PCIe 5 x16 link, one direction, where a system has no other
UPDATE_BYTES = 42.0  # that the update of a parameter moves


class LayerParts(NamedTuple):
    """What does not change with data, pipeline and interleave degrees, nor with ZeRO stages.

    Thousands of plans share a few rows of it, one a (tensor, context, expert, microbatch, what is
    computed again).
    """

    tokens: Tokens
    layer: LayerTime
    edges: Ends


class StepTime(NamedTuple):
    """Seconds of a step and of its parts; those of a layer and of ends are of one microbatch."""

    layer: LayerTime
    edges: Ends
    sharded: Sharded
    stages: StageTime
    data_comm: Number
    optimizer: Number
    step_time: Number  # without offload
    offload: Number

    @property
    def update(self) -> Number:
        """Return what comes once a step beside stages and messages."""
        stages = self.stages
        return self.step_time - (stages.steady + stages.bubble + stages.sends + self.data_comm)


def plan_time(inputs: TrainingInputs, recipe: TrainingRecipe) -> StepTime:
    """Return the step time of every plan of the inputs, and its parts.

    Assumes: the time of offload is not in it.
    Source: docs/models/training_step_today.md.
    """
    fields = {name: getattr(inputs.plan, name) for name in LAYER}
    return time_of_layers(inputs, recipe, layer(inputs, recipe, **fields))


def layer(
    inputs: TrainingInputs,
    recipe: TrainingRecipe,
    *,
    tensor: Number,
    context: Number,
    exchange: Number,
    expert: Number,
    expert_tensor: Number,
    microbatch: Number,
    sequence_parallel: Number,
    recompute: Number,
) -> LayerParts:
    """Return the times of one layer, of embedding and of head, one microbatch.

    Thousands of plans share a few rows of it.
    Units: degrees [1], microbatch [sequence] -> LayerParts [s].
    Source: docs/models/training_step_today.md, sections 4, 5 and 11.
    """
    plan = BatchPlan(  # which no time of a layer depends on in its other fields
        tensor=tensor,
        context=context,
        exchange=exchange_of(recipe, exchange),
        expert=expert,
        expert_tensor=expert_tensor,
        microbatch=microbatch,
        sequence_parallel=sequence_parallel,
        recompute=recompute,
    )
    work = _work(inputs, plan, recipe)
    return LayerParts(work.tokens, layer_time(layer_work(work, modules_of(recipe))), ends(work))


LAYER = (
    *("tensor", "context", "exchange", "expert", "expert_tensor"),
    *("microbatch", "sequence_parallel", "recompute"),
)


def timed(inputs: TrainingInputs, recipe: TrainingRecipe, tokens: Tokens | None = None) -> Work:
    """Return what the times of the plans of the inputs follow from; ``tokens`` are theirs."""
    return _work(inputs, batch_plan(inputs, recipe), recipe, tokens)


def _work(
    inputs: TrainingInputs, plan: BatchPlan, recipe: TrainingRecipe, tokens: Tokens | None = None
) -> Work:
    software = software_of(inputs, recipe)
    model, speed = training_model(inputs.model, recipe), rates(inputs, software)
    if tokens is None:
        tokens = tokens_of(model, plan, speed)
    return Work(model, plan, speed, software, tokens)


def time_of_layers(inputs: TrainingInputs, recipe: TrainingRecipe, parts: LayerParts) -> StepTime:
    """Return the step time of plans whose layers are timed.

    t = steady + bubble + pipeline sends + data-parallel messages + optimizer + step

    Assumes: copies of the weights that several routes through the layers have are replicas.
    Source: docs/models/training_step_today.md, section 7.
    """
    tokens, time, edges = parts
    work, schedule = timed(inputs, recipe, tokens), recipe.schedule
    weights = mean_weights(work.model, work.plan)
    sharded = with_fsdp(work, time, weights)
    stages = stage_time(work, sharded, edges, schedule)
    replicas = work.plan.data * work.plan.context * ROUTES.get(schedule, 1.0)
    messages = data_messages(work, sharded, weights, stages.end_layers, replicas)
    update = optimizer(work, weights, stages.end_layers, replicas)
    total = stages.steady + stages.bubble + stages.sends + messages + update
    step = total + work.rates.step
    offload = offload_time(inputs, work, weights)
    return StepTime(time, edges, sharded, stages, messages, update, step, offload)


def data_messages(
    work: Work, layer: Sharded, weights: MeanWeights, layers: Number, replicas: Number
) -> Number:
    """Return the seconds of gradients and parameters between replicas that no work hides.

    Arguments: ``layers`` of a stage at an end.
    Assumes: with several chunks, all but the last microbatches' chunks hide messages too; a tied
    embedding is summed over the first and the last stage.
    Source: docs/models/training_step_today.md, section 7.
    """
    model, plan, software, network = work.model, work.plan, work.software, work.rates.network
    group = placed(network, replicas, plan.tensor)
    sharing = plan.expert * plan.expert_tensor
    of_experts = placed(network, expert_replicas(work, replicas), sharing)
    dense, experts = weights
    table = model.vocabulary * model.hidden / plan.tensor
    shared, routed = layers * dense / plan.tensor + table, layers * experts
    short = where(work.rates.low > 0.0, 1.0, 2.0)
    gradients, parameters = shared * software.reduce_bytes, shared * short

    def both(bytes_each: Number) -> Number:
        of_routed = gather(routed * bytes_each, of_experts, network)
        of_routed = where(model.experts > 0.0, of_routed, 0.0)
        return gather(shared * bytes_each, group, network) + of_routed

    def more(seconds: Number, message: Number, size: Number) -> Number:
        busy = at_full_rate(size, group.members, network)
        return beside(seconds, message, busy, work.rates.constants.overlap_slowdown) - seconds

    scattered, collected = both(software.reduce_bytes), both(short)
    stay = larger(smaller(plan.pipeline, plan.microbatches), 1.0) - 1.0
    stay = 1.0 + where(plan.interleave > 1.0, stay, 0.0)
    beside_work = (
        more(stay * layers * layer.backward, scattered, gradients)
        + more(stay * layers * layer.forward, collected, parameters)
        + (scattered + collected) / larger(layers, 1.0)
    )
    whole_sum = all_reduce(gradients, group, network)
    plain = where(plan.zero_stage > 0.5, scattered + collected, whole_sum)
    seen = where(software.data_overlap > 0.0, beside_work, plain)
    tied = all_reduce(table * software.reduce_bytes, neighbours(work), network)
    tied = where((plan.pipeline > 1.0) & (model.tied > 0.5), tied, 0.0)
    return where(plan.zero_stage > 1.5, 0.0, seen + tied)


def expert_replicas(work: Work, replicas: Number) -> Number:
    """Return how many ranks have the same experts."""
    plan = work.plan
    return larger(replicas * plan.tensor / (plan.expert * plan.expert_tensor), 1.0)


def optimizer(work: Work, weights: MeanWeights, layers: Number, replicas: Number) -> Number:
    """Return the seconds of the update: 42 bytes a parameter that a rank updates, 8 a copy.

    Source: docs/models/training_step_today.md, sections 7 and 11.
    """
    model, plan, zero = work.model, work.plan, work.plan.zero_stage
    every, _, _ = stage_layers(model, plan)
    dense, experts = weights
    table = model.vocabulary * model.hidden
    stage, whole = ((some * dense + table) / plan.tensor for some in (layers, every))
    owned = where((zero > 0.5) & (zero < 1.5), replicas, 1.0)
    plain = stage * (UPDATE_BYTES / owned + 8.0)
    owned = where(zero > 0.5, expert_replicas(work, replicas), 1.0)
    moved = where(zero > 1.5, whole * (UPDATE_BYTES + 8.0) / replicas, plain)
    moved = moved + layers * experts * (UPDATE_BYTES / owned + 8.0)
    return moved / work.rates.plain.memory


def offload_time(inputs: TrainingInputs, work: Work, weights: MeanWeights) -> Number:
    """Return the seconds by which a step is longer whose optimizer states lie in host memory.

    t = o n ((g + w) / B + 42 / H), n parameters that a rank of the mean stage updates

    Assumes: nothing hides the link (B) or the host's update (H of host memory, an accelerator);
    the update on the accelerator stays counted, so that this is not too low; activations that are
    offloaded are hidden. No measured run offloads.
    Source: Ren et al. 2021 (arXiv 2101.06840), section 4: what moves is one copy of gradients and
    weights, and the host updates.
    """
    model, plan, states = work.model, work.plan, inputs.states
    layers, _, _ = stage_layers(model, plan)
    each, replicas = layers / plan.pipeline, plan.data * plan.context
    dense = (each * weights[0] + model.vocabulary * model.hidden) / plan.tensor
    sharded, experts = plan.zero_stage > 0.5, expert_replicas(work, replicas)
    own = dense / where(sharded, replicas, 1.0) + each * weights[1] / where(sharded, experts, 1.0)
    link = value_or(inputs.system.pcie_bandwidth, HOST_BANDWIDTH)
    moved = (states.weight_bytes + states.gradient_bytes) / link
    return plan.offload_optimizer * own * (moved + UPDATE_BYTES / inputs.shared.host_memory)
