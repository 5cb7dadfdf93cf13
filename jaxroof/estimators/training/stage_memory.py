"""Does it fit? The memory of every stage of a training step, term by term, and the fullest stage.

Source: docs/models/parameters_flops_memory.md, sections 4, 5 and 7.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.estimators.training.inputs import PlannedStep
from jaxroof.estimators.training.layer.mlp import expert_width
from jaxroof.estimators.training.layer.operation import (
    Sizes,
    Weights,
    known,
    plus,
    times,
    total,
    weights,
)
from jaxroof.estimators.training.layer.sums import (
    Groups,
    Kinds,
    LayerBytes,
    LayerShapes,
    Shape,
    Terms,
    activations,
    groups,
    last_layer,
    layer_shapes,
    layer_weights,
    leading_layers,
    momentary,
    norm_weights,
    of_largest_layer,
    sizes,
    total_weights,
    trained_groups,
)
from jaxroof.estimators.training.recipe import (
    CrossEntropy,
    Module,
    Schedule,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stages import StageLayers, layout_of, stage_layers
from jaxroof.formulas.arithmetic import ceiling, larger, largest, smaller, stack, where
from jaxroof.lazy_jax import namespace
from jaxroof.records import Number, units
from jaxroof.structure import map_numbers


def memory_by_stage(inputs: PlannedStep, recipe: TrainingRecipe) -> StageMemory:
    """Return the memory of every stage, a trailing dimension of stages; 0 beyond the last one.

    The number of stages decides the size of the result, so the plan has values. Who traces the plan
    calls ``stages``.
    """
    found: StageMemory = of_stages(inputs, lambda wide, at: stages(wide, recipe).memory(at))
    return found


def host_by_stage(inputs: PlannedStep, recipe: TrainingRecipe) -> np.ndarray:
    """Return what every stage keeps in the memory of its host, as ``memory_by_stage`` does [B]."""
    return np.asarray(of_stages(inputs, lambda wide, at: stages(wide, recipe).host(at)))


def of_stages(inputs: PlannedStep, result: Callable[[PlannedStep, Number], Any]) -> Any:
    """Return a result of every stage, along a trailing dimension, which single numbers lack."""
    plan = inputs.plan
    count = int(np.max(plan.pipeline))
    wide = map_numbers(
        lambda one: np.asarray(one)[..., None] if np.ndim(one) else np.float64(one), inputs
    )
    stage: Any = np.arange(float(count)).reshape((1,) * np.ndim(plan.pipeline) + (count,))
    there = stage < wide.plan.pipeline
    return map_numbers(lambda value: np.where(there, value, 0.0), result(wide, stage))


class Stages(NamedTuple):
    """What the stages of a step keep, each counted from 0: of the device, and of its host [B]."""

    memory: Callable[[Number], StageMemory]
    peak: Callable[[Number], Number]  # allocated, of that memory
    device: Callable[[Number], Number]  # what an allocated peak takes of the device
    host: Callable[[Number], Number]


NO_ACTIVATIONS = {name: 0.0 for name in units(StageMemory) if name.startswith("activations_")}
OfStage = Callable[[StageLayers], Terms]  # terms of a stage; what all stages share is known


def stages(inputs: PlannedStep, recipe: TrainingRecipe) -> Stages:
    """Return the memory of a stage and of its host; what does not depend on the stage comes once.

    peak = static + activations + largest transient;  reserved = peak (1 + fragmentation);
    device = reserved + context + communicators;  host = (master + moments) phi N / ranks + phi_a
    activations of all layers in flight
    """
    of, size, spread = groups(inputs.model), sizes(inputs), layout_of(inputs, recipe)
    layer, shapes = layer_parameters(inputs, recipe, of), layer_shapes(of, inputs.plan)
    trained = trained_parameters(inputs, recipe, of, layer)
    kinds = activations(inputs, recipe, size, of)
    saved = Kinds(*(total(kind.saved.values()) for kind in kinds))
    states, kept = state_ranks(inputs), inputs.buffers
    buffers = buffers_of(inputs, size, layer, trained, shapes)
    share = 1.0 - inputs.activations.offload_activations
    beside = _beside_layers(inputs, size, kinds, saved)
    of_mixers = momentary(inputs, recipe, size, of)
    transient_of = _momentary(inputs, recipe, size, kinds, saved, shapes)

    def terms(stage: Number) -> tuple[StageLayers, Terms, Terms, Terms]:
        counted = stage_layers(inputs, recipe, stage, spread)
        every, changed = (stage_parameters(counted, some) for some in (layer, trained))
        held = _state_terms(inputs, states, every, changed)
        transients = {**transient_of(counted), "mixer": of_mixers}
        return counted, {**buffers(counted), **held}, beside(counted), transients

    def sums(counted: StageLayers, static: Terms, acts: Terms, transients: Terms) -> list[Number]:
        transient: Number = 0.0
        for value in transients.values():
            transient = larger(transient, value)
        layers = share * saved.over(counted.resident)
        return [total(static.values()), plus(layers, total(acts.values())), transient]

    def peak(stage: Number) -> Number:
        static, acts, transient = sums(*terms(stage))
        return static + (acts + transient)  # the two have few fields of a plan in common

    def device(peak: Number) -> Number:
        return peak * (1.0 + kept.fragmentation) + kept.cuda_context + kept.communicator

    def memory(stage: Number) -> StageMemory:
        counted, of_static, of_acts, transients = terms(stage)
        static, acts, transient = sums(counted, of_static, of_acts, transients)
        dense, expert = stage_parameters(counted, layer)
        peak = static + (acts + transient)
        of_acts |= {n: share * value for n, value in _of_layers(kinds, counted.resident).items()}
        return StageMemory(
            layers=sum(counted.layers),
            parameters_dense=dense,
            parameters_expert=expert,
            **of_static,
            **NO_ACTIVATIONS | {f"activations_{name}": value for name, value in of_acts.items()},
            **{f"transient_{name}": value for name, value in transients.items()},
            static=static,
            activations=acts,
            transient=transient,
            peak_allocated=peak,
            reserved=peak * (1.0 + kept.fragmentation),
            device=device(peak),
        )

    def host(stage: Number) -> Number:
        counted, plan = stage_layers(inputs, recipe, stage, spread), inputs.plan
        width = (inputs.states.master_bytes + inputs.states.moment_bytes) * plan.offload_optimizer
        found = inputs.activations.offload_activations * saved.over(counted.resident)
        for part, number in zip(PARTS, stage_parameters(counted, trained), strict=True):
            found = found + number * width / states[f"optimizer_{part}"]
        return found

    return Stages(memory, peak, device, host)


# ---- Parameters and their states ----------------------------------------------------------------


class LayerParameters(NamedTuple):
    """Parameters of one layer of each kind and of the ends, on one rank before data sharding."""

    without: Kinds  # without routed experts
    routed: Number  # experts of a layer that follows
    largest: Kinds  # of the largest layer, experts included
    vocabulary: Number  # of the embedding, and of the head
    positions: Number  # of their embedding
    after: Number  # of what follows the last layer, without routed experts
    after_routed: Number


def trained_parameters(
    inputs: PlannedStep, recipe: TrainingRecipe, of: Groups, every: LayerParameters
) -> LayerParameters:
    """Return the parameters that have gradients and optimizer states: all, or adapters alone."""
    model = inputs.model
    if known(model.trained, 1.0):
        return every
    return layer_parameters(inputs, recipe, trained_groups(of, model), model.trained)


def layer_parameters(
    inputs: PlannedStep, recipe: TrainingRecipe, of: Groups, ends: Number = 1.0
) -> LayerParameters:
    """Return the parameters of one layer of each kind, and of the ends.

    N = sharded / t + replicated, of routed experts N_e = E (g + 1) h f_e / (epsilon tau); a module
    of multi-token prediction is a layer of the last kind, three norms and 2 h^2 / t

    Arguments: ``ends`` is the share that counts of what is not in the layers ``of``.
    Assumes: norms, the router and the down-projections of latent attention are replicated; whole
    experts on a rank, each cut by columns over the expert-tensor group. A tied head is a copy of
    the embedding unless one stage has both; modules of multi-token prediction share one copy of the
    embedding, unless the rank has it anyway.
    """
    model, plan = inputs.model, inputs.plan
    ranks = plan.expert * plan.expert_tensor

    def on_rank(held: Weights) -> Number:
        return held.sharded / plan.tensor + held.replicated

    leading, following = layer_weights(of)
    every = [total_weights(group.operations.values()) for group in of]
    amounts = [on_rank(held) + held.routed / ranks for held in every]
    vocabulary = times(ends, padded_vocabulary(inputs) * model.hidden) / plan.tensor
    norm = times(ends, norm_weights(model))
    last = last_layer(model, of, lambda one: on_rank(weights(one)) if one.trained else 0.0)
    alone = plan.pipeline == 1.0
    here = alone | (recipe.schedule is Schedule.DUALPIPE)
    joined = times(ends, 2.0 * model.hidden * model.hidden) / plan.tensor
    modules = model.mtp_layers * (last + joined + 3.0 * norm)
    copy = where(here, 0.0, smaller(model.mtp_layers, 1.0)) * vocabulary
    head = where((model.tied > 0.0) & alone, 0.0, vocabulary)
    experts = last_layer(model, of, lambda one: weights(one).routed)
    return LayerParameters(
        without=Kinds(on_rank(leading), on_rank(following)),
        routed=following.routed / ranks,
        largest=of_largest_layer(of, amounts),
        vocabulary=vocabulary,
        positions=times(ends, model.positions * model.hidden),
        after=head + norm + modules + copy,
        after_routed=model.mtp_layers * experts / ranks,
    )


def padded_vocabulary(inputs: PlannedStep) -> Number:
    """Return the entries of the vocabulary after padding, so that every shard is equal.

    V_p = ceil((V + extra) / (m t)) m t, m = 128 in Megatron, whose NullTokenizer adds one entry
    """
    states = inputs.states
    columns = states.vocabulary_multiple * inputs.plan.tensor
    return ceiling(inputs.model.vocabulary + states.extra_token, columns) * columns


def stage_parameters(stage: StageLayers, layer: LayerParameters) -> tuple[Number, Number]:
    """Return the parameters of a stage: dense ones and those of routed experts."""
    embedding = layer.vocabulary + layer.positions
    layers = layer.without.over(stage.layers)
    dense = layers + embedding * stage.first + layer.after * stage.last
    return dense, layer.routed * stage.layers.following + layer.after_routed * stage.last


PARTS = ("dense", "expert")  # of the parameters: without routed experts, and those
SHARDED_FROM = {"weights": 3.0, "gradients": 2.0, "optimizer": 1.0}  # a ZeRO stage on


def state_ranks(inputs: PlannedStep) -> dict[str, Number]:
    """Return how many ranks shard weights, gradients and optimizer states.

    Replicas of dense parameters G = D C, of an expert G_e = D C t / (epsilon tau)

    Assumes: ZeRO 1 shards the optimizer, 2 also gradients, 3 also weights.
    """
    plan, instances = inputs.plan, inputs.states.optimizer_instances
    replicas = plan.data * plan.context
    sharing = replicas * plan.tensor / (plan.expert * plan.expert_tensor)
    return {
        f"{kind}_{part}": where(
            plan.zero_stage >= first, group / (instances if kind == "optimizer" else 1.0), 1.0
        )
        for kind, first in SHARDED_FROM.items()
        for part, group in zip(PARTS, (replicas, sharing), strict=True)
    }


def _state_terms(
    inputs: PlannedStep,
    ranks: dict[str, Number],
    every: tuple[Number, Number],
    trained: tuple[Number, Number],
) -> Terms:
    """Return the bytes of a stage's weights, gradients and optimizer states on the device.

    Arguments: parameters without and of experts, of the stage and those of them that are trained.
    """
    states, on_device = inputs.states, 1.0 - inputs.plan.offload_optimizer
    optimizer = (states.master_bytes + states.moment_bytes) * on_device
    widths = (states.weight_bytes, states.gradient_bytes, optimizer)
    return {
        f"{kind}_{part}": number * width / ranks[f"{kind}_{part}"]
        for kind, width, numbers in zip(
            SHARDED_FROM, widths, (every, trained, trained), strict=True
        )
        for part, number in zip(PARTS, numbers, strict=True)
    }


# ---- Saved activations --------------------------------------------------------------------------


def _of_layers(kinds: tuple[LayerBytes, LayerBytes], resident: Kinds) -> Terms:
    """Return the activations of all layers and microbatches in flight, term by term."""
    terms = {
        name: Kinds(*(kind.saved.get(name, 0.0) for kind in kinds)).over(resident)
        for name in {**kinds[0].saved, **kinds[1].saved}
    }
    terms["routed"] = terms["routed"] + terms.pop("routed_outputs")
    return terms


def _beside_layers(
    inputs: PlannedStep, size: Sizes, kinds: tuple[LayerBytes, LayerBytes], saved: Kinds
) -> OfStage:
    """Return the activations beside those of layers in flight.

    The embedding keeps 8 T + [dropout] T h / sigma of a microbatch, multi-token prediction K (a
    layer of the last kind + 6 beta T h / sigma), a pipeline one received and one sent tensor.

    Assumes: token ids of 8 bytes, a mask of 1 byte.
    """
    model, acts = inputs.model, inputs.activations
    last = where(model.experts > 0.0, saved.following, saved.leading)
    heads = 6.0 * acts.activation_bytes * size.tokens * model.hidden / size.shards
    embedding = 8.0 * size.tokens + acts.hidden_dropout * size.tokens * model.hidden / size.shards
    prediction = model.mtp_layers * (last + heads)
    boundary = where(inputs.plan.pipeline > 1.0, 2.0 * size.state / size.shards, 0.0)
    waiting = Kinds(*(kind.waiting for kind in kinds))

    def of_stage(stage: StageLayers) -> Terms:
        return {
            "embedding": embedding * stage.opening_in_flight,
            "mtp": prediction * stage.last,
            "pipeline": boundary,
            "pending_weight_gradients": waiting.over(stage.pending),
        }

    return of_stage


# ---- Buffers ------------------------------------------------------------------------------------


def distinct_matrices(matrices: Sequence[Shape], others: Sequence[Shape] = ()) -> Number:
    """Return the elements of some matrices, each shape counted once, and none that others have.

    N = sum over the distinct pairs (m, n) of m n, where (m, n) is not (n, m)
    """
    found: Number = 0.0
    for place, (rows, columns, present) in enumerate(matrices):
        new = present > 0.0
        for other, across, there in (*others, *matrices[:place]):
            new = new & ((rows != other) | (columns != across) | (there <= 0.0))
        found = found + where(new, rows * columns, 0.0)
    return found


def _placeholders(inputs: PlannedStep, matrices: LayerShapes) -> Callable[[StageLayers], Number]:
    """Return the elements of the different shapes of a stage's matrices."""
    mixers, leading, following = matrices
    head: list[Shape] = [(padded_vocabulary(inputs) / inputs.plan.tensor, inputs.model.hidden, 1.0)]
    of_every, of_leading = distinct_matrices(mixers), distinct_matrices(leading, mixers)
    of_following = distinct_matrices(following, mixers)
    beside_leading = distinct_matrices(following, [*mixers, *leading])
    of_head: Any = distinct_matrices(head, mixers)
    head_leads, head_follows = (distinct_matrices(head, o) == 0.0 for o in (leading, following))

    def of_stage(stage: StageLayers) -> Number:
        leads, follows = (number > 0.0 for number in stage.predicting)
        counted = (leads & head_leads) | (follows & head_follows)
        more = where(follows, where(leads, beside_leading, of_following), 0.0)
        ends = where((stage.last > 0.0) & ~counted, of_head, 0.0)
        return of_every + where(leads, of_leading, 0.0) + more + ends

    return of_stage


def buffers_of(
    inputs: PlannedStep,
    size: Sizes,
    layer: LayerParameters,
    trained: LayerParameters,
    matrices: LayerShapes,
) -> OfStage:
    """Return the bytes of buffers.

    ZeRO 3 has gathered the weights of the largest unit and of those ahead, beta (max(unit, end) +
    prefetch unit), and not yet scattered the gradient of one layer and its copy in the format of
    the reduction, (beta + reduce) unit; a table of rotations is 4 (s / C) w bytes, w the head size
    or the rotated width of latent attention
    """
    model, plan, states, kept = inputs.model, inputs.plan, inputs.states, inputs.buffers
    beta = inputs.activations.activation_bytes
    leading = leading_layers(model)
    there = Kinds(leading, model.layers - leading)
    unit, changed = (one.largest.largest(there) for one in (layer, trained))
    sharded = plan.zero_stage >= 3.0
    weights = beta * (larger(unit, layer.vocabulary) + states.prefetch * unit)
    width = where(model.latent > 0.0, model.rope_size, model.head_size)
    table = 4.0 * model.sequence / plan.context * width
    every = {
        "fsdp_gathered_weights": where(sharded, weights, 0.0),
        "fsdp_gathered_gradients": where(sharded, (beta + states.reduce_bytes) * changed, 0.0),
        "rope_table": where(model.positions > 0.0, 0.0, model.rotary * table),
    }
    gather = where(size.shards > 1.0, size.state, 0.0)
    elements = _placeholders(inputs, matrices)
    placeholders = times(model.trained, kept.gradient_placeholders * beta)

    def of_stage(stage: StageLayers) -> Terms:
        grouped = where(stage.predicting.following > 0.0, kept.grouped_workspace, 0.0)
        return {
            **every,
            "gradient_placeholders": placeholders * elements(stage),
            "gather_buffer": gather * stage.last,
            "workspace": kept.workspace + grouped,
        }

    return of_stage


# ---- Momentary terms, of which the largest counts -----------------------------------------------

LOGIT_BYTES = {  # bytes of one logit at the start of the backward pass
    CrossEntropy.FUSED: 2.0,  # the gradient overwrites the bf16 logits
    CrossEntropy.VOCABULARY_PARALLEL: 6.0,  # bf16, and the fp32 softmax that becomes the gradient
    CrossEntropy.NATIVE: 10.0,  # compiled, not in place; 8 to 18 by release
    CrossEntropy.EAGER: 14.0,  # bf16, log-softmax, the loss's gradient and its input's in fp32
}


def _momentary(
    inputs: PlannedStep,
    recipe: TrainingRecipe,
    size: Sizes,
    kinds: tuple[LayerBytes, LayerBytes],
    saved: Kinds,
    matrices: LayerShapes,
) -> OfStage:
    """Return the momentary terms.

    The end of the experts' forward pass runs again, with what it computes, where experts are
    recomputed. The gradient of the embedding comes after the backward pass of the first chunk's
    layers, whose activations are gone.
    """
    acts, plan, hidden = inputs.activations, inputs.plan, inputs.model.hidden
    routed = acts.activation_bytes * size.routed * expert_width(inputs.model)
    exchange = acts.routed_copies * routed
    exchange = exchange + 2.0 * size.state / size.shards
    repeated = plan.recompute >= (1.0 if Module.EXPERTS in modules_of(recipe) else 2.0)
    experts = exchange + where(repeated, kinds[1].again, 0.0)
    logits, layer = head(inputs, recipe, size), backward(inputs, size, kinds)
    matrix = matrix_gradients(inputs, matrices)
    temporaries = times(inputs.model.trained, inputs.buffers.gradient_temporary)
    entries = times(inputs.model.trained, acts.activation_bytes * padded_vocabulary(inputs))
    gradient = entries * hidden / plan.tensor

    def of_stage(stage: StageLayers) -> Terms:
        temporary = temporaries * matrix.largest(stage.predicting)
        embedding = larger(gradient - saved.over(stage.opening), 0.0)
        return {
            "head": logits * stage.last,
            "layer_backward": layer.largest(stage.predicting) + temporary,
            "moe": where(stage.predicting.following > 0.0, experts, 0.0),
            "embedding": embedding * stage.first,
        }

    return of_stage


def head(inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes) -> Number:
    """Return the bytes of the logits and hidden states at the start of the backward pass.

    M = (1 + K) Lambda T V_p / t + x + [sigma > 1] x / sigma + 2 x / sigma

    Assumes: the final norm's input and output belong here.
    """
    columns = padded_vocabulary(inputs) / inputs.plan.tensor
    logits = (1.0 + inputs.model.mtp_layers) * LOGIT_BYTES[recipe.cross_entropy]
    scattered = where(size.shards > 1.0, size.state / size.shards, 0.0)
    ends = size.state + scattered + 2.0 * size.state / size.shards
    return logits * size.tokens * columns + ends


def backward(inputs: PlannedStep, size: Sizes, kinds: tuple[LayerBytes, LayerBytes]) -> Kinds:
    """Return the bytes of the backward pass of one layer of each kind.

    dense   M = x / sigma + max((1 + g) F, x' + F, x' + x - F), F = beta T f / t, x' = x if sigma >
    1, else 0; routing M = x / sigma + 2 beta R h; what is computed again comes on top
    """
    model, beta = inputs.model, inputs.activations.activation_bytes
    inner = beta * size.tokens * model.feedforward / inputs.plan.tensor
    gathered = where(size.shards > 1.0, size.state, 0.0)
    ends = larger(gathered + inner, gathered + size.state - inner)
    dense = larger((1.0 + model.gated) * inner, ends)
    routing = 2.0 * beta * size.routed * expert_width(model)
    follows = model.dense_layers > leading_layers(model)  # some of them with a dense MLP
    state = size.state / size.shards
    both = larger(where(follows, dense, 0.0), routing)
    return Kinds(state + dense + kinds[0].again, state + both + kinds[1].again)


def matrix_gradients(inputs: PlannedStep, matrices: LayerShapes) -> Kinds:
    """Return the bytes of the gradient of the largest matrix of a layer of each kind on a rank."""
    beta = inputs.activations.activation_bytes

    def of_layer(others: list[Shape]) -> Number:
        most: Number = 0.0
        for rows, columns, present in [*matrices.mixers, *others]:
            most = larger(most, where(present > 0.0, rows * columns, 0.0))
        return beta * most

    return Kinds(of_layer(matrices.leading), of_layer(matrices.following))


# ---- The fullest stage --------------------------------------------------------------------------


def alone(**terms: Number) -> StageMemory:
    """Return a memory by stage whose other terms are 0."""
    every = {name: terms.get(name, 0.0) for name in units(StageMemory)}
    whole: Any = np.broadcast_arrays(*(np.atleast_1d(np.asarray(v, float)) for v in every.values()))
    return StageMemory(**dict(zip(every, whole, strict=True)))


class FullestStage(NamedTuple):
    """The stage that decides whether a plan fits."""

    stage: Any  # its number, from 0
    device: Number
    missing: Number  # [B] beyond the capacity, 0 if the plan fits
    fits: Any
    largest_term: Any  # its place in TERMS
    largest: Number  # [B]


def fullest_stage(memory: StageMemory, hbm_capacity: Number) -> FullestStage:
    """Return the fullest stage of a memory by stage, whose last dimension is that of stages.

    The capacity is what the device reports, not what its label says.
    """
    device: Any = memory.device
    xp = namespace(device)
    stage = xp.argmax(device, axis=-1)

    def there(values: Any) -> Any:
        at = stage[..., None]
        return xp.take_along_axis(xp.broadcast_to(values, device.shape), at, axis=-1)[..., 0]

    terms = stack([there(getattr(memory, name)) for name in TERMS])
    full = there(device)
    return FullestStage(
        stage=stage,
        device=full,
        missing=larger(full - hbm_capacity, 0.0),
        fits=full <= hbm_capacity,
        largest_term=xp.argmax(terms, axis=0),
        largest=largest(terms),
    )


TERMS = tuple(  # every single term, and of the momentary ones the largest
    field.name
    for field in dataclasses.fields(StageMemory)
    if field.metadata["part_of"] in ("static", "activations") or field.name == "transient"
)
