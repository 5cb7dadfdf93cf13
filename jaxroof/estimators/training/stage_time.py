"""Seconds of the stages of a pipeline: embedding, head, sends, uneven ends, the slowest chip.

Source: docs/models/training_step_today.md, sections 5 and 6.
"""

from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingPlan
from jaxroof.estimators.training.kernels import matmul, stream
from jaxroof.estimators.training.layer.operation import Work
from jaxroof.estimators.training.layer_time import Sharded
from jaxroof.estimators.training.planned import BatchPlan, TrainingModel
from jaxroof.estimators.training.recipe import Schedule
from jaxroof.estimators.training.stages import alike_chunks
from jaxroof.formulas.arithmetic import larger, log, sqrt, where
from jaxroof.formulas.network import Group, pair, send
from jaxroof.formulas.smooth import SHARPER, smooth_larger
from jaxroof.records import Number
from jaxroof.schedules import published


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


def ends(work: Work) -> Ends:
    """Return the seconds of embedding and head, forward and backward.

    Assumes: products at 16 bits; the head is repeated for every module of multi-token prediction.
    Source: docs/models/training_step_today.md, section 5.
    """
    model, tokens, software, unit = work.model, work.tokens, work.software, work.rates.plain
    hidden, columns = model.hidden, model.vocabulary / work.plan.tensor
    many, parallel = work.plan.tensor > 1.0, work.plan.sequence_parallel > 0.0
    kernels = 3.0 + 7.0 * where(software.loss_bytes > 20.0, 1.0, 0.0)
    exchanged = where(parallel, 3.0 * tokens.gathered, tokens.reduced)
    exchanged = exchanged + 3.0 * work.rates.network.start
    head = (
        matmul(tokens.group, columns, hidden, unit, 2.0, 2.0)
        + matmul(tokens.group, hidden, columns, unit, 2.0, 2.0)
        + matmul(hidden, columns, tokens.group, unit, 2.0, 8.0)
        + stream(tokens.group * columns * software.loss_bytes, kernels, unit)
        + where(many, exchanged, 0.0)
        + stream(10.0 * tokens.norm * hidden, 2.0, unit)
    )
    found = where(parallel, 2.0 * tokens.gathered, tokens.reduced)
    embedding = stream(12.0 * tokens.group * hidden, 4.0, unit) + where(many, found, 0.0)
    return Ends(embedding, head * (1.0 + model.mtp_layers))


def stage_layers(model: TrainingModel, plan: TrainingPlan) -> tuple[Number, Number, Number]:
    """Return the layers in all, those of a middle stage and those of the first and the last.

    Assumes: the first and the last stage have as many, half of what both have.
    Source: docs/models/training_step_today.md, section 6.
    """
    layers, stages = model.layers + model.mtp_layers, plan.pipeline
    found = alike_chunks(model.layers, model.mtp_layers, stages * plan.interleave)
    each = layers / stages
    middle = plan.interleave * found.each
    outer = (layers - (stages - 2.0) * middle) / 2.0
    regular = (stages == 1.0) | (outer < 0.0)
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
    Source: docs/models/training_step_today.md, section 6.
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
    """Return two stages as a group, in one fast domain if the whole pipeline is."""
    plan = work.plan
    ranks = plan.tensor * plan.context * plan.data * plan.pipeline
    return pair(work.rates.network, ranks)


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

    Source: docs/models/training_step_today.md, section 6.
    """
    return 1.0 + spread * sqrt(2.0 * log(larger(chips, 1.0)) + 1e-30)
