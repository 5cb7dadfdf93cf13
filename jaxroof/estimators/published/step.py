"""Time, memory and legality of a training step: a layer, its synchronisation and its sends.

Source: docs/models/transformer_model.md, sections 7 to 9.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import network as network_of
from jaxroof.estimator import Estimator, details_in
from jaxroof.estimators.legality import verdicts, with_verdicts
from jaxroof.estimators.published.inputs import Inputs, Plan, Recipe, Split
from jaxroof.estimators.published.layer_time import LayerTimes, layer_times
from jaxroof.estimators.published.legality import (
    EVERY,
    GROUPS,
    RULES,
    lacked,
    placements,
    plans,
    why_not,
)
from jaxroof.estimators.published.operations import operations, stage_send
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import larger, smaller, where, whole
from jaxroof.formulas.network import study_gather, study_send
from jaxroof.records import Number, quantity, record


def _time(doc: str, symbol: str, words: str, label: str) -> Any:
    """Declare a part of the step time."""
    return quantity("s", doc, part_of="step_time", symbol=symbol, words=words, label=label)


@record
@with_verdicts(EVERY.values(), memory_fits="Memory is at most the usable capacity.")
class Report:
    """Time, memory and legality of one optimizer step under one plan.

    The six time parts sum to ``step_time``, and the four memory parts to ``memory``. A plan is
    ``feasible`` if all verdicts before that field are true.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity(
        "sequence/s", "Sequences trained on a second.", better="higher", headline=True
    )
    memory: Number = quantity(
        "B",
        "Memory that the fullest accelerator needs.",
        resource="capacity",
        label="memory of one accelerator",
    )
    memory_weights: Number = quantity("B", "Memory of weights.", part_of="memory", words="weights")
    memory_gradients: Number = quantity(
        "B", "Memory of weight gradients.", part_of="memory", words="gradients"
    )
    memory_optimizer: Number = quantity(
        "B", "Memory of optimizer state.", part_of="memory", words="optimizer state"
    )
    memory_activations: Number = quantity(
        "B", "Memory of activations kept for backward.", part_of="memory", words="activations"
    )
    time_compute: Number = _time(
        "Time in arithmetic, launches included.", "compute", "arithmetic and launches", "compute"
    )
    time_memory: Number = _time(
        "Time in HBM traffic that arithmetic does not hide.", "hbm", "HBM bandwidth", "HBM"
    )
    time_tensor: Number = _time(
        "Time in tensor-parallel communication.",
        "tensor",
        "tensor-parallel communication",
        "tensor links",
    )
    time_data: Number = _time(
        "Time in data-parallel communication not hidden.",
        "data",
        "data-parallel communication",
        "data links",
    )
    time_pipeline: Number = _time(
        "Time in sends between pipeline stages.", "sends", "sends between stages", "stage sends"
    )
    time_bubble: Number = _time(
        "Time that a stage idles while the pipeline fills.",
        "bubble",
        "the pipeline bubble",
        "bubble",
    )
    flops: Number = quantity("FLOP", "Arithmetic of one accelerator in one step.")
    mfu: Number = quantity(
        "1", "Model FLOP utilisation: matrix FLOP the model needs over peak.", better="higher"
    )
    training_days: Number = quantity("day", "Time of the whole training.", label="days of training")
    tokens_per_second: Number = quantity(
        "token/s", "Tokens trained on a second by one accelerator.", better="higher"
    )


DAY = 86400.0  # [s]


class ScheduleCounts(NamedTuple):
    """The counts of a step that depend on the plan only: runs, sends and bubble of a stage."""

    layers: Number  # of one stage
    runs: Number  # layer passes of one accelerator: microbatches * layers
    sends: Number  # sends at full cost, both directions
    idle: Number  # bubble / busy time
    held: Number  # layer activations in memory at once


def schedule_counts(
    inputs: Inputs,
    recipe: Recipe,
    *,
    data: Number,
    pipeline: Number,
    microbatch: Number,
    fast_pipeline: Number,
) -> ScheduleCounts:
    """Return the counts of a 1F1B schedule: K = L / p layers, bubble (p - 1) / M, min(M, p) held.

    Assumes: M3, equal stages; M4, no interleaving; sends never overlap, neither forward nor
    backward; Q30, of activations those of the first stage, which holds the most.
    """
    layers = larger(1.0, whole(inputs.model.layers, pipeline))  # finite for any plan
    microbatches = schedule.microbatches(inputs.global_batch, data, microbatch)
    return ScheduleCounts(
        layers=layers,
        runs=microbatches * layers,
        sends=2.0 * microbatches * send_share(pipeline, fast_pipeline),
        idle=(pipeline - 1.0) / microbatches,
        held=layers * smaller(microbatches, pipeline),
    )


def send_share(pipeline: Number, fast_pipeline: Number) -> Number:
    """Return the share of one send's time that an average link of the pipeline costs.

    fast_pipeline = 1: 1, or 0 without a pipeline; else (links - slow) / links with links = p - 1
    and slow = trunc(p / fp - 1).

    Assumes: Q2, links between fast domains cost nothing.

    >>> float(send_share(8.0, 1.0)), float(send_share(8.0, 4.0)), float(send_share(1.0, 1.0))
    (1.0, 0.8571428571428571, 0.0)
    """
    links = pipeline - 1.0
    # trunc(p / fp - 1): a pipeline shorter than its fast share (never legal) has no slow link
    slow = larger(whole(pipeline, fast_pipeline) - 1.0, 0.0)
    share = where(fast_pipeline > 1.0, (links - slow) / larger(links, 1.0), 1.0)
    return where(pipeline > 1.0, share, 0.0)


class SyncTimes(NamedTuple):
    """Data-parallel collectives of one layer."""

    gather: Number  # weights, forward [s]
    scatter: Number  # gradients, backward [s]


def sync_times(
    inputs: Inputs,
    recipe: Recipe,
    *,
    data: Number,
    tensor: Number,
    context: Number,
    fast_data: Number,
    fast_context: Number,
) -> SyncTimes:
    """Return the times to gather the weights of one layer and to scatter its gradients.

    Assumes: optimizer state sharded over the replicas (M13); Q9, replicated parameters are never
    synchronised; Q28, one flat ring over data and context ranks.
    """
    layer = operations(inputs, recipe, tensor=tensor, context=context)
    parameters = sum(operation.work.parameters for operation in layer.values())
    replicas = REPLICAS[recipe.split]
    ring = (replicas(data, context), replicas(fast_data, fast_context), network_of(inputs.system))
    precision = inputs.precision
    return SyncTimes(
        study_gather(parameters * precision.weight, *ring),
        study_gather(parameters * precision.gradient, *ring),
    )


def send_time(
    inputs: Inputs,
    recipe: Recipe,
    *,
    tensor: Number,
    context: Number,
    microbatch: Number,
    fast_pipeline: Number,
) -> Number:
    """Return the time to send one microbatch's activations to the next stage.

    Assumes: a fast link if any two stages share a domain (Q2 corrects for the other links).
    """
    message = stage_send(inputs, recipe, tensor=tensor, context=context, microbatch=microbatch)
    return study_send(message, 2.0, fast_pipeline, network_of(inputs.system))


def exposed_sync_times(block: LayerTimes, sync: SyncTimes, layers: Number) -> SyncTimes:
    """Return the data-parallel time that a stage of a given number of layers does not hide."""
    return SyncTimes(
        schedule.exposed_sync(sync.gather, block.forward, layers),
        schedule.exposed_sync(sync.scatter, block.backward, layers),
    )


def memory_limit(inputs: Inputs) -> Number:
    """Return the memory available to a step [B] (Q31: no headroom unless set by hbm_usable)."""
    return inputs.system.hbm_capacity * inputs.system.hbm_usable


def model_flops(inputs: Inputs, recipe: Recipe) -> Number:
    """Return the matrix FLOP that one step needs under any plan: the numerator of the MFU.

    F = 3 G L (sum of the model FLOP of the operations of a layer)

    Assumes: backward costs twice forward; dense attention; recomputation does not count.
    Source: Chowdhery et al. 2022 (arXiv 2204.02311), appendix B: 6 N + 12 D E L FLOP per token.
    """
    layer = operations(inputs, recipe, tensor=1.0)
    needed = (o.model_flops for o in layer.values() if o.model_flops is not None)
    return 3.0 * inputs.global_batch * inputs.model.layers * sum(needed)


def step(
    inputs: Inputs,
    recipe: Recipe,
    *,
    block: LayerTimes,
    sync: SyncTimes,
    send_time: Number,
    schedule_counts: ScheduleCounts,
) -> Report:
    """Return the time, memory and verdicts of one optimizer step.

    t0 = (t_f + t_b) M K + 2 M p;  t = t0 + (P - 1) t0 / M + t_data

    Assumes: M3, equal stages; Q15, the bubble grows with the sends; Q30, only the
    activations of the first stage.
    """
    model, system, plan = inputs.model, inputs.system, inputs.plan
    assert plan is not None
    time_pipeline = send_time * schedule_counts.sends
    busy = (block.forward + block.backward) * schedule_counts.runs + time_pipeline
    time_bubble = busy * schedule_counts.idle
    shown = exposed_sync_times(block, sync, schedule_counts.layers)
    time_data = shown.gather + shown.scatter
    step_time = busy + time_bubble + time_data
    stage = block.parameters * schedule_counts.layers
    memory_weights = stage * inputs.precision.weight
    memory_gradients = stage * inputs.precision.gradient  # Q23: not sharded
    replicas = REPLICAS[recipe.split](plan.data, plan.context)
    memory_optimizer = stage * inputs.precision.optimizer / replicas
    memory_activations = block.kept * schedule_counts.held
    memory = memory_weights + memory_gradients + memory_optimizer + memory_activations

    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    steps = model.training_tokens / model.sequence / inputs.global_batch
    fits = memory <= memory_limit(inputs)
    return Report(
        step_time=step_time,
        throughput=inputs.global_batch / step_time,
        memory=memory,
        memory_weights=memory_weights,
        memory_gradients=memory_gradients,
        memory_optimizer=memory_optimizer,
        memory_activations=memory_activations,
        time_compute=block.compute * schedule_counts.runs,
        time_memory=block.memory * schedule_counts.runs,
        time_tensor=(block.links_forward + block.links_backward) * schedule_counts.runs,
        time_data=time_data,
        time_pipeline=time_pipeline,
        time_bubble=time_bubble,
        flops=block.flops * schedule_counts.runs,  # Q11: inflated vector FLOP of the fused kernel
        mfu=model_flops(inputs, recipe) / (step_time * gpus * system.matrix_flops),
        training_days=steps * step_time / DAY,
        tokens_per_second=inputs.global_batch * model.sequence / (step_time * gpus),
        **verdicts(EVERY, RULES[recipe.split], inputs, memory_fits=fits),
    )


# ranks with the same weights, which share gradients and optimizer state
REPLICAS: dict[Split, Callable[[Number, Number], Number]] = {
    Split.ONE_D: lambda data, context: data,
    Split.SUMMA: lambda data, context: data,
    Split.CONTEXT: operator.mul,
}


def example() -> Inputs:
    """Return GPT-3 1T on 2048 H200, with the split that the search finds."""
    return Inputs(
        model=named.model("gpt3-1t"),
        system=named.system("h200-nvs4"),
        gpus=2048.0,
        plan=Plan(
            data=16.0, tensor=4.0, pipeline=32.0, microbatch=1.0, fast_data=1.0, fast_tensor=4.0
        ),
    )


def contributions(inputs: Inputs, recipe: Recipe) -> Mapping[str, Number]:
    """Return the seconds that every operation adds to the step."""
    from jaxroof.estimators.published.details import contributions as found

    return found(inputs, recipe)


published = Estimator(
    name="published",
    about=QUESTIONS["published"],
    inputs=Inputs,
    plan=Plan,
    recipe=Recipe(),
    parts={
        "block": layer_times,
        "sync": sync_times,
        "send_time": send_time,
        "schedule_counts": schedule_counts,
    },
    step=step,
    candidates=plans,
    reasons=lambda recipe: {rule.name: rule.words for rule in RULES[recipe.split]},
    why_not=why_not,
    structural=("gpus", "global_batch", "model", "system.fast_domain"),
    objective="step_time",
    need="memory",
    limit=memory_limit,
    products={"gpus": ("data", "tensor", "context", "pipeline")},
    placement=tuple(f"fast_{field}" for field in GROUPS),
    placements=placements,
    unused=lambda recipe: lacked(recipe.split.value),
    names={"model": named.model_with_choices, "system": named.labelled_system},
    shorthand={name: f"model.{name}" for name in ("sequence", "training_tokens")},
    example=example,
    details=details_in("jaxroof.estimators.published.details"),
    contributions=contributions,
)
