"""Seconds of one optimizer step of today's training: a layer, ends, stages, messages, the step.

Source: docs/models/training_step_today.md, sections 5 to 7.
"""

from typing import NamedTuple

from jaxroof.estimator import reads
from jaxroof.estimators.training.inputs import (
    BatchPlan,
    TrainingInputs,
    TrainingModel,
    TrainingPlan,
    batch_plan,
    step_model,
)
from jaxroof.estimators.training.layer.operation import Tokens, Work, times
from jaxroof.estimators.training.layer.sums import MeanWeights, mean_weights, trained_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    Sharded,
    block,
    layer_work,
    replicated,
    tokens_of,
    with_fsdp,
)
from jaxroof.estimators.training.rates import matmul, rates, stream
from jaxroof.estimators.training.recipe import (
    Schedule,
    TrainingRecipe,
    exchange_of,
    modules_of,
)
from jaxroof.estimators.training.stages import alike_chunks
from jaxroof.formulas.arithmetic import larger, log, smaller, sqrt, where
from jaxroof.formulas.network import (
    Group,
    all_reduce,
    at_full_rate,
    beside,
    gather,
    pair,
    send,
)
from jaxroof.formulas.smooth import SHARPER, smooth_larger
from jaxroof.records import Number, value_or
from jaxroof.schedules import published

HOST_BANDWIDTH = 64e9  # [B/s] of a PCIe 5 x16 link, one direction, where a system has no other
UPDATE_BYTES = 42.0  # that the update of a parameter moves


class Ends(NamedTuple):
    """Seconds of embedding and head, one microbatch."""

    embedding: Number
    head: Number


class StageTime(NamedTuple):
    """Seconds of a pipeline's stages."""

    end_layers: Number  # layers of a rank at an end: of the first or the last stage, or of both
    slow: Number  # slowest stage, one microbatch
    steady: Number  # all microbatches, one step
    bubble: Number  # one step
    sends: Number  # that are hidden but for the first and last, one step


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
    """
    fields = {name: getattr(inputs.plan, name) for name in reads(layer)}
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
    """Return the times of one layer, of embedding and of head, one microbatch."""
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
    return LayerParts(work.tokens, layer_work(work, modules_of(recipe)).time, ends(work))


def timed(inputs: TrainingInputs, recipe: TrainingRecipe, tokens: Tokens | None = None) -> Work:
    """Return what the times of the plans of the inputs follow from; ``tokens`` are theirs."""
    return _work(inputs, batch_plan(inputs, recipe), recipe, tokens)


def _work(
    inputs: TrainingInputs, plan: BatchPlan, recipe: TrainingRecipe, tokens: Tokens | None = None
) -> Work:
    model, speed = step_model(inputs, recipe), rates(inputs, recipe)
    if tokens is None:
        tokens = tokens_of(model, plan, speed)
    return Work(model, plan, speed, inputs.software, tokens)


def time_of_layers(inputs: TrainingInputs, recipe: TrainingRecipe, parts: LayerParts) -> StepTime:
    """Return the step time of plans whose layers are timed.

    t = steady + bubble + pipeline sends + data-parallel messages + optimizer + step

    Assumes: copies of the weights that several routes through the layers have are replicas.
    """
    tokens, time, edges = parts
    work, schedule = timed(inputs, recipe, tokens), recipe.schedule
    weights = mean_weights(work.model, work.plan)
    trained = trained_weights(work.model, work.plan, weights)
    sharded = with_fsdp(work, time, weights, trained)
    stages = stage_time(work, sharded, edges, schedule)
    replicas = work.plan.data * work.plan.context * ROUTES.get(schedule, 1.0)
    messages = data_messages(work, sharded, trained, stages.end_layers, replicas)
    update = optimizer(work, trained, stages.end_layers, replicas)
    total = stages.steady + stages.bubble + stages.sends + messages + update
    step = total + work.rates.step
    offload = offload_time(inputs, work, trained)
    return StepTime(time, edges, sharded, stages, messages, update, step, offload)


def data_messages(
    work: Work, layer: Sharded, weights: MeanWeights, layers: Number, replicas: Number
) -> Number:
    """Return the seconds of gradients and parameters between replicas that no work hides.

    Arguments: ``weights`` that are trained, ``layers`` of a stage at an end.
    Assumes: with several chunks, all but the last microbatches' chunks hide messages too; a tied
    embedding is summed over the first and the last stage.
    """
    model, plan, software, network = work.model, work.plan, work.software, work.rates.network
    group = replicated(work, replicas, plan.tensor)
    sharing = plan.expert * plan.expert_tensor
    of_experts = replicated(work, expert_replicas(work, replicas), sharing)
    dense, experts = weights
    table = times(model.trained, model.vocabulary * model.hidden) / plan.tensor
    shared, routed = layers * dense / plan.tensor + table, layers * experts
    short = where(work.rates.low > 0.0, 1.0, 2.0)
    gradients, parameters = shared * work.rates.reduce_bytes, shared * short

    def both(bytes_each: Number) -> Number:
        of_routed = gather(routed * bytes_each, of_experts, network)
        of_routed = where(experts > 0.0, of_routed, 0.0)
        return gather(shared * bytes_each, group, network) + of_routed

    def more(seconds: Number, message: Number, size: Number) -> Number:
        busy = at_full_rate(size, group.members, network)
        return beside(seconds, message, busy, work.rates.constants.overlap_slowdown) - seconds

    scattered, collected = both(work.rates.reduce_bytes), both(short)
    stay = larger(smaller(plan.pipeline, plan.microbatches), 1.0) - 1.0
    stay = 1.0 + where(plan.interleave > 1.0, stay, 0.0)
    beside_work = (
        more(stay * layers * layer.backward, scattered, gradients)
        + more(stay * layers * layer.forward, collected, parameters)
        + (scattered + collected) / larger(layers, 1.0)
    )
    whole_sum = all_reduce(gradients, group, network)
    plain = where(plan.zero_stage > 0.5, scattered + collected, whole_sum)
    hidden = software.data_overlap * plan.reshard > 0.0
    seen = where(hidden, beside_work, plain)
    tied = all_reduce(table * work.rates.reduce_bytes, neighbours(work), network)
    tied = where((plan.pipeline > 1.0) & (model.tied > 0.5), tied, 0.0)
    return where(plan.zero_stage > 1.5, 0.0, seen + tied)


def expert_replicas(work: Work, replicas: Number) -> Number:
    """Return how many ranks have the same experts."""
    plan = work.plan
    return larger(replicas * plan.tensor / (plan.expert * plan.expert_tensor), 1.0)


def optimizer(work: Work, weights: MeanWeights, layers: Number, replicas: Number) -> Number:
    """Return the seconds of the update: 42 bytes a parameter that a rank updates, 8 a copy.

    Arguments: ``weights`` that are trained.
    """
    model, plan, zero = work.model, work.plan, work.plan.zero_stage
    every, _, _ = stage_layers(model, plan)
    dense, experts = weights
    table = times(model.trained, model.vocabulary * model.hidden)
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
    dense = (
        each * weights[0] + times(model.trained, model.vocabulary * model.hidden)
    ) / plan.tensor
    sharded, experts = plan.zero_stage > 0.5, expert_replicas(work, replicas)
    own = dense / where(sharded, replicas, 1.0) + each * weights[1] / where(sharded, experts, 1.0)
    link = value_or(inputs.system.pcie_bandwidth, HOST_BANDWIDTH)
    moved = (states.weight_bytes + states.gradient_bytes) / link
    return plan.offload_optimizer * own * (moved + UPDATE_BYTES / inputs.shared.host_memory)


# ---- Ends and stages ----------------------------------------------------------------------------


def ends(work: Work) -> Ends:
    """Return the seconds of embedding and head, forward and backward.

    Assumes: products at 16 bits; the head is repeated for every module of multi-token prediction.
    """
    model, tokens, unit = work.model, work.tokens, work.rates.plain
    hidden, columns = model.hidden, model.vocabulary / work.plan.tensor
    many, parallel = work.plan.tensor > 1.0, work.plan.sequence_parallel > 0.0
    kernels = 10.0 if work.rates.loss_bytes > 20.0 else 3.0
    exchanged = where(parallel, 3.0 * tokens.gathered, tokens.reduced)
    exchanged = exchanged + 3.0 * work.rates.network.start
    head = (
        matmul(tokens.group, columns, hidden, unit, 2.0, 2.0)
        + matmul(tokens.group, hidden, columns, unit, 2.0, 2.0)
        + times(model.trained, matmul(hidden, columns, tokens.group, unit, 2.0, 8.0))
        + stream(tokens.group * columns * work.rates.loss_bytes, kernels, unit)
        + where(many, exchanged, 0.0)
        + stream(10.0 * tokens.norm * hidden, 2.0, unit)
    )
    found = where(parallel, 2.0 * tokens.gathered, tokens.reduced)
    embedding = stream(12.0 * tokens.group * hidden, 4.0, unit) + where(many, found, 0.0)
    return Ends(embedding, head * (1.0 + model.mtp_layers))


def stage_layers(model: TrainingModel, plan: TrainingPlan) -> tuple[Number, Number, Number]:
    """Return the layers in all, those of a middle stage and those of the first and the last.

    Assumes: the first and the last stage have as many, half of what both have; layers of
    multi-token prediction are layers like others.
    """
    layers, stages = model.layers + model.mtp_blocks, plan.pipeline
    found = alike_chunks(layers, 0.0, stages * plan.interleave)
    each = layers / stages
    middle = plan.interleave * found.each
    outer = (layers - (stages - 2.0) * middle) / 2.0
    regular = (stages == 1.0) | (outer <= 0.0)
    return layers, where(regular, each, middle), where(regular, each, outer)


ROUTES = {Schedule.DUALPIPE: 2.0}  # through all layers, where there are several


def bubble_factor(
    plan: BatchPlan, schedule: Schedule, layers: Number, layer: Sharded, edges: Ends
) -> Number:
    """Return the bubble of a schedule over that of 1F1B, all stages being equal.

    Assumes: a third of embedding and head is forward, a third the gradient of their inputs, and a
    third that of their weights.
    Source: ``jaxroof.schedules.published.bubble``.
    """
    if schedule not in SHORTER:
        return 1.0
    third = sum(edges) / 3.0
    forward, weight = layers * layer.forward + third, layers * layer.weights + third
    backward = layers * layer.backward + 2.0 * third - weight
    own = published.bubble(
        schedule.value, plan.pipeline, plan.microbatches, forward, backward, weight
    )
    return own / (larger(plan.pipeline - 1.0, 1.0) * (forward + backward + weight))


SHORTER = (Schedule.ZB_H1, Schedule.DUALPIPE)  # than 1F1B and GPipe


def stage_time(work: Work, layer: Sharded, edges: Ends, schedule: Schedule) -> StageTime:
    """Return the seconds of the pipeline.

    slow = smax(smax(first, last) late(n / p), middle late(n (p - 2) / p)), steady = M slow
    bubble = ((first + last + (p - 2) middle) late(n / p) - slow) x / v, x = 1 for 1F1B

    Assumes: a message is part of a stage's time, so that a heavier last stage hides it; models with
    latent attention run balanced layouts; a rank of two routes has one stage of each, as far from
    either end, so that its slowest rank is lighter than the slowest stage by what ends differ.
    """
    model, plan, software, spread = work.model, work.plan, work.software, work.rates.spread
    stages, chunks = plan.pipeline, plan.interleave
    per_stage = plan.tensor * plan.context * plan.data
    layers, inner, outer = stage_layers(model, plan)
    each = layer.forward + layer.backward
    embedding, head = edges
    send = where(stages > 1.0, send_time(work), 0.0)
    hidden = software.pipeline_overlap * where(chunks > 1.0, 1.0, 0.0)
    seen = chunks * send * (1.0 - hidden)
    balanced = (layers * each + embedding + head) / stages + 2.0 * seen
    latent = model.latent > 0.0
    first = where(latent, balanced, outer * each + embedding + seen)
    last = where(latent, balanced, outer * each + head + seen)
    middle = where(latent, balanced, inner * each + 2.0 * seen)
    alone = (layers * each + embedding + head + layer.edge) * late(per_stage, spread)
    between = where(stages > 2.0, middle * late(per_stage * (stages - 2.0), spread), 0.0)
    slower = smooth_larger(first, last, SHARPER) * late(per_stage, spread)
    slow = where(stages > 1.0, smooth_larger(slower, between, SHARPER), alone)
    if schedule in ROUTES:
        others = where(stages > 2.0, middle, 0.0)
        slow = slow * larger((first + last) / 2.0, others) / larger(larger(first, last), others)
    every = (first + last + (stages - 2.0) * middle) * late(per_stage, spread)
    factor = bubble_factor(plan, schedule, layers, layer, edges)
    return StageTime(
        end_layers=outer * ROUTES.get(schedule, 1.0),
        slow=slow,
        steady=plan.microbatches * slow,
        bubble=where(stages > 1.0, (every - slow) * factor / chunks, 0.0),
        sends=2.0 * send * (stages - 1.0) * hidden,
    )


def neighbours(work: Work) -> Group:
    """Return two stages as a group, in one domain of a tier if the whole pipeline is."""
    plan = work.plan
    stage = where(plan.rank_order > 0.0, block(plan), plan.tensor * plan.context * plan.data)
    return pair(work.rates.network, stage * plan.pipeline)


def send_time(work: Work) -> Number:
    """Return the seconds of one message between two stages."""
    tokens, software = work.tokens, work.software
    parallel = work.plan.sequence_parallel > 0.0
    whole = parallel | (software.scatter > 0.0)
    size = where(whole, tokens.message / work.plan.tensor, tokens.message)
    collected = where(parallel, 0.0, software.scatter * tokens.gathered)
    return send(size, neighbours(work), work.rates.network) + collected


def late(chips: Number, spread: Number) -> Number:
    """Return how much later than the mean the slowest of some chips is.

    late(j) = 1 + s sqrt(2 ln max(j, 1))
    """
    return 1.0 + spread * sqrt(2.0 * log(larger(chips, 1.0)) + 1e-30)
