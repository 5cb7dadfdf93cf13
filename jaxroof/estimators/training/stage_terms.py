"""What a stage keeps beside activations: states and buffers, and the momentary terms on top.

Source: docs/models/parameters_flops_memory.md, sections 4.1 to 4.4, 4.7 and 4.8.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from jaxroof.estimators.training.activations import Terms
from jaxroof.estimators.training.layer.operation import Sizes
from jaxroof.estimators.training.layer.sums import (
    Groups,
    LayerShapes,
    Shape,
    layer_weights,
    norm_weights,
)
from jaxroof.estimators.training.planned import PlannedStep
from jaxroof.estimators.training.recipe import (
    CrossEntropy,
    Module,
    Schedule,
    TrainingRecipe,
    modules_of,
)
from jaxroof.estimators.training.stages import Kinds, StageLayers
from jaxroof.formulas.arithmetic import ceiling, larger, smaller, where
from jaxroof.records import Number

# ---- Parameters ---------------------------------------------------------------------------------


class LayerParameters(NamedTuple):
    """Parameters of one layer of each kind and of the ends, on one rank before data sharding."""

    dense: Number
    routing: Number  # without routed experts
    routed: Number
    vocabulary: Number  # of the embedding, and of the head
    after: Number  # of what follows the last layer


def layer_parameters(inputs: PlannedStep, recipe: TrainingRecipe, of: Groups) -> LayerParameters:
    """Return the parameters of one layer of each kind, and of the ends.

    N = sharded / t + replicated, of routed experts N_e = E (g + 1) h f_e / (epsilon tau)

    Assumes: norms, the router and the down-projections of latent attention are replicated; whole
    experts on a rank, each cut by columns over the expert-tensor group.
    """
    model, plan = inputs.model, inputs.plan
    of_dense, of_routing = layer_weights(of)
    dense = of_dense.sharded / plan.tensor + of_dense.replicated
    routing = of_routing.sharded / plan.tensor + of_routing.replicated
    vocabulary = padded_vocabulary(inputs) * model.hidden / plan.tensor
    last = where(model.experts > 0.0, routing, dense)
    return LayerParameters(
        dense=dense,
        routing=routing,
        routed=of_routing.routed / (plan.expert * plan.expert_tensor),
        vocabulary=vocabulary,
        after=_after(inputs, recipe, vocabulary, last, norm_weights(model)),
    )


def padded_vocabulary(inputs: PlannedStep) -> Number:
    """Return the entries of the vocabulary after padding, so that every shard is equal.

    V_p = ceil((V + extra) / (m t)) m t, m = 128 in Megatron, whose NullTokenizer adds one entry
    """
    states = inputs.states
    columns = states.vocabulary_multiple * inputs.plan.tensor
    return ceiling(inputs.model.vocabulary + states.extra_token, columns) * columns


def _after(
    inputs: PlannedStep, recipe: TrainingRecipe, vocabulary: Number, last: Number, norm: Number
) -> Number:
    """Return the parameters after the last layer: head, norm and multi-token prediction.

    A module of it is a layer of the last kind, three norms and a matrix 2 h^2 / t that joins two
    hidden states.

    Assumes: a tied head is a copy of the embedding unless one stage has both; modules of
    multi-token prediction share one copy of the embedding, unless the rank has it anyway.
    """
    model, plan = inputs.model, inputs.plan
    alone = plan.pipeline == 1.0
    here = alone | (recipe.schedule is Schedule.DUALPIPE)
    joined = 2.0 * model.hidden * model.hidden / plan.tensor
    modules = model.mtp_layers * (last + joined + 3.0 * norm)
    copy = where(here, 0.0, smaller(model.mtp_layers, 1.0)) * vocabulary
    shared = (model.tied > 0.0) & alone
    return where(shared, 0.0, vocabulary) + norm + modules + copy


def stage_parameters(
    inputs: PlannedStep, stage: StageLayers, layer: LayerParameters
) -> tuple[Number, Number]:
    """Return the parameters of a stage: dense ones and those of routed experts."""
    model = inputs.model
    predicted = model.mtp_layers * stage.last
    embedding = layer.vocabulary + model.positions * model.hidden
    layers = layer.dense * stage.layers.dense + layer.routing * stage.layers.routing
    dense = layers + embedding * stage.first + layer.after * stage.last
    expert = layer.routed * (stage.layers.routing + where(model.experts > 0.0, predicted, 0.0))
    return dense, expert


# ---- States -------------------------------------------------------------------------------------


class State(NamedTuple):
    """One kind of state: which parameters have it, their bytes each, and who shares them."""

    expert: bool  # whether those of routed experts
    width: Number
    ranks: Number  # that shard it


def states_of(inputs: PlannedStep) -> dict[str, State]:
    """Return how wide weights, gradients and optimizer states are, and who shares them.

    Replicas of dense parameters G = D C, of an expert G_e = D C t / (epsilon tau); a share phi of
    the optimizer's (master + moments) bytes lies in host memory

    Assumes: ZeRO 1 shards the optimizer, 2 also gradients, 3 also weights.
    """
    plan, states = inputs.plan, inputs.states
    replicas = plan.data * plan.context
    groups = {
        "dense": replicas,
        "expert": replicas * plan.tensor / (plan.expert * plan.expert_tensor),
    }
    on_device = 1.0 - plan.offload_optimizer
    optimizer = (states.master_bytes + states.moment_bytes) * on_device
    kinds = {  # bytes, the ZeRO stage that shards them first, groups that each have all of them
        "weights": (states.weight_bytes, 3.0, 1.0),
        "gradients": (states.gradient_bytes, 2.0, 1.0),
        "optimizer": (optimizer, 1.0, states.optimizer_instances),
    }
    return {
        f"{kind}_{part}": State(
            part == "expert",
            width,
            where(plan.zero_stage >= sharded_from, group / instances, 1.0),
        )
        for kind, (width, sharded_from, instances) in kinds.items()
        for part, group in groups.items()
    }


def state_terms(states: dict[str, State], dense: Number, expert: Number) -> Terms:
    """Return the bytes of weights, gradients and optimizer states of a stage's parameters."""
    return {
        name: (expert if state.expert else dense) * state.width / state.ranks
        for name, state in states.items()
    }


# ---- Shapes of matrices -------------------------------------------------------------------------


def distinct_matrices(matrices: Sequence[Shape], others: Sequence[Shape] = ()) -> Number:
    """Return the elements of some matrices, each shape counted once, and none that others have.

    N = sum over the distinct pairs (m, n) of m n, where (m, n) is not (n, m)

    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (2.0, 3.0, 1.0), (3.0, 2.0, 1.0)]))
    12.0
    >>> float(distinct_matrices([(2.0, 3.0, 1.0), (3.0, 2.0, 1.0)], [(3.0, 2.0, 1.0)]))
    6.0
    """
    total: Number = 0.0
    for place, (rows, columns, present) in enumerate(matrices):
        new = present > 0.0
        for other, across, there in (*others, *matrices[:place]):
            new = new & ((rows != other) | (columns != across) | (there <= 0.0))
        total = total + where(new, rows * columns, 0.0)
    return total


def largest_matrix(matrices: Sequence[Shape]) -> Number:
    """Return the elements of the largest matrix of a list that a stage has."""
    largest: Number = 0.0
    for rows, columns, present in matrices:
        largest = larger(largest, where(present > 0.0, rows * columns, 0.0))
    return largest


# ---- Buffers ------------------------------------------------------------------------------------


class Placeholders(NamedTuple):
    """Elements of the different shapes of a stage's matrices, by what the stage has."""

    attention: Number
    dense: Number  # more, with dense layers
    routing: Number  # more, with routing layers alone
    routing_beside: Number  # more, with routing layers beside dense ones
    head: Number  # more, with the head
    head_is_dense: Any  # whether the head has the shape of a matrix of dense layers
    head_is_routing: Any

    def of_stage(self, kinds: Kinds, last: Number) -> Number:
        """Return the elements of the different shapes of a stage's matrices."""
        dense, routing = kinds.dense > 0.0, kinds.routing > 0.0
        more = where(dense, self.routing_beside, self.routing)
        counted = (dense & self.head_is_dense) | (routing & self.head_is_routing)
        head = where((last > 0.0) & ~counted, self.head, 0.0)
        return self.attention + where(dense, self.dense, 0.0) + where(routing, more, 0.0) + head


def placeholders(matrices: LayerShapes, head: list[Shape]) -> Placeholders:
    """Return the elements that a stage's gradient placeholders have, by what the stage has."""
    attention, dense, routing = matrices
    return Placeholders(
        attention=distinct_matrices(attention),
        dense=distinct_matrices(dense, attention),
        routing=distinct_matrices(routing, attention),
        routing_beside=distinct_matrices(routing, [*attention, *dense]),
        head=distinct_matrices(head, attention),
        head_is_dense=distinct_matrices(head, dense) == 0.0,
        head_is_routing=distinct_matrices(head, routing) == 0.0,
    )


class Buffered(NamedTuple):
    """Bytes of the buffers that every stage has, and of those that some have."""

    every: Terms
    matrices: Placeholders
    gather: Number  # with the head


def buffers(
    inputs: PlannedStep, size: Sizes, layer: LayerParameters, matrices: LayerShapes
) -> Buffered:
    """Return the bytes of buffers, before it is known which stage has them.

    ZeRO 3 has gathered the weights of the largest unit and of those ahead, beta (max(unit, end) +
    prefetch unit), and not yet scattered the gradient of one layer and its copy in the format of
    the reduction, (beta + reduce) unit; a table of rotations is 4 (s / C) w bytes, w the head size
    or the rotated width of latent attention
    """
    model, plan, states = inputs.model, inputs.plan, inputs.states
    beta = inputs.activations.activation_bytes
    routing = where(model.experts > 0.0, layer.routing + layer.routed, 0.0)
    leading = (model.experts == 0.0) | (model.first_dense_layers > 0.0)
    unit = larger(where(leading, layer.dense, 0.0), routing)  # the largest layer
    sharded = plan.zero_stage >= 3.0
    weights = beta * (larger(unit, layer.vocabulary) + states.prefetch * unit)
    width = where(model.latent > 0.0, model.rope_size, model.head_size)
    table = 4.0 * model.sequence / plan.context * width
    every = {
        "fsdp_gathered_weights": where(sharded, weights, 0.0),
        "fsdp_gathered_gradients": where(sharded, (beta + states.reduce_bytes) * unit, 0.0),
        "rope_table": where(model.positions > 0.0, 0.0, table),
    }
    gather = where(size.shards > 1.0, size.state, 0.0)
    head: list[Shape] = [(padded_vocabulary(inputs) / plan.tensor, model.hidden, 1.0)]
    return Buffered(every, placeholders(matrices, head), gather)


def buffer_terms(inputs: PlannedStep, buffered: Buffered, kinds: Kinds, last: Number) -> Terms:
    """Return the bytes of a stage's buffers; ``kinds`` are its layers, prediction included."""
    kept, beta = inputs.buffers, inputs.activations.activation_bytes
    grouped = where(kinds.routing > 0.0, kept.grouped_workspace, 0.0)
    elements = buffered.matrices.of_stage(kinds, last)
    return {
        **buffered.every,
        "gradient_placeholders": kept.gradient_placeholders * beta * elements,
        "gather_buffer": buffered.gather * last,
        "workspace": kept.workspace + grouped,
    }


# ---- Momentary terms, of which the largest counts -----------------------------------------------

LOGIT_BYTES = {  # bytes of one logit at the start of the backward pass
    CrossEntropy.FUSED: 2.0,  # the gradient overwrites the bf16 logits
    CrossEntropy.VOCABULARY_PARALLEL: 6.0,  # bf16, and the fp32 softmax that becomes the gradient
    CrossEntropy.NATIVE: 10.0,  # compiled, not in place; 8 to 18 by release
    CrossEntropy.EAGER: 14.0,  # bf16, log-softmax, the loss's gradient and its input's in fp32
}


class Momentary(NamedTuple):
    """Bytes of momentary terms, before it is known which stage has them."""

    head: Number  # with the head
    backward: Kinds  # of one layer of a kind
    matrix: Kinds  # of the largest matrix of a layer of a kind, if it has a gradient of its own
    experts: Number  # with routing layers
    vocabulary: Number  # after padding


def momentary(
    inputs: PlannedStep, recipe: TrainingRecipe, size: Sizes, again: Kinds, matrices: LayerShapes
) -> Momentary:
    """Return the bytes of momentary terms.

    ``again`` are the bytes that one layer of each kind computes again; the end of the experts'
    forward pass runs again with them where experts are recomputed.
    """
    acts = inputs.activations
    routed = acts.activation_bytes * size.routed * inputs.model.hidden
    exchange = acts.routed_copies * routed + 2.0 * size.state / size.shards
    repeated = inputs.plan.recompute >= (1.0 if Module.EXPERTS in modules_of(recipe) else 2.0)
    return Momentary(
        head=head(inputs, recipe, size),
        backward=backward(inputs, size, again),
        matrix=matrix_gradients(inputs, matrices),
        experts=exchange + where(repeated, again.routing, 0.0),
        vocabulary=padded_vocabulary(inputs),
    )


def momentary_terms(
    inputs: PlannedStep, found: Momentary, stage: StageLayers, kinds: Kinds, saved: Kinds
) -> Terms:
    """Return the momentary terms of a stage.

    ``kinds`` are its layers, prediction included; ``saved`` are the bytes that one layer of each
    kind saves.
    """
    # it comes after the backward pass of the first chunk's layers, whose activations are gone
    entries = inputs.activations.activation_bytes * found.vocabulary
    gradient = entries * inputs.model.hidden / inputs.plan.tensor
    embedding = larger(gradient - saved.over(stage.opening), 0.0)
    temporary = inputs.buffers.gradient_temporary * found.matrix.largest(kinds)
    return {
        "head": found.head * stage.last,
        "layer_backward": found.backward.largest(kinds) + temporary,
        "moe": where(kinds.routing > 0.0, found.experts, 0.0),
        "embedding": embedding * stage.first,
    }


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


def backward(inputs: PlannedStep, size: Sizes, again: Kinds) -> Kinds:
    """Return the bytes of the backward pass of one layer of each kind.

    dense   M = x / sigma + max((1 + g) F, x' + F, x' + x - F), F = beta T f / t, x' = x if sigma >
    1, else 0; routing M = x / sigma + 2 beta R h; what is computed again comes on top
    """
    model, beta = inputs.model, inputs.activations.activation_bytes
    inner = beta * size.tokens * model.feedforward / inputs.plan.tensor
    gathered = where(size.shards > 1.0, size.state, 0.0)
    ends = larger(gathered + inner, gathered + size.state - inner)
    dense = size.state / size.shards + larger((1.0 + model.gated) * inner, ends)
    routing = size.state / size.shards + 2.0 * beta * size.routed * model.hidden
    return Kinds(dense + again.dense, routing + again.routing)


def matrix_gradients(inputs: PlannedStep, matrices: LayerShapes) -> Kinds:
    """Return the bytes of the gradient of the largest matrix of a layer of each kind on a rank."""
    beta, attention = inputs.activations.activation_bytes, matrices.attention
    kinds = (matrices.dense, matrices.routing)
    return Kinds(*(beta * largest_matrix([*attention, *others]) for others in kinds))
