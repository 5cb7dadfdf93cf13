"""Inputs of a training step of a model of today, for its time and for its memory.

Source: docs/models/parameters_flops_memory.md, section 4 (states, activations, buffers);
docs/models/training_step_today.md, sections 1 and 9 (the software).
"""

import dataclasses
from typing import Any

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.chip import SharedConstants
from jaxroof.catalog.system import System
from jaxroof.estimators.training.recipe import (
    EXCHANGES,
    Adapters,
    Attention,
    Biases,
    Embeddings,
    Mlp,
    Norm,
    Recipe,
    Recurrence,
    TrainingRecipe,
    exchange_of,
)
from jaxroof.estimators.whole_run.operation import Operated
from jaxroof.formulas import schedule
from jaxroof.formulas.arithmetic import where
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record, units, value_or

MIB = 2.0**20  # [B]
ORDERS = ("pipeline-last", "data-last")  # of ranks, by what lies outermost, from 0
RECOMPUTATION = ("none", "selective", "full")  # the levels of a plan's ``recompute``, from 0


def _degree(doc: str, symbol: str, label: str, most: str = "whole") -> Number:
    bound = BOUNDS[most]
    return quantity("1", doc, whole=True, most=bound, default=1.0, symbol=symbol, label=label)


def _choice(doc: str, default: float, symbol: str, label: str, most: float = 1.0) -> Number:
    return quantity(
        "1", doc, whole=True, zero=True, most=most, default=default, symbol=symbol, label=label
    )


def _flag(doc: str, default: float = 0.0) -> Number:
    return quantity("1", doc, zero=True, most=1.0, default=default)


@record
class TrainingPlan:
    """A split of a training step over accelerators, and what it shards, recomputes and offloads.

    The product of the data, tensor, context and pipeline degrees is the number of accelerators.
    """

    data: Number = _degree("Data-parallel degree.", "dp", "data")
    tensor: Number = _degree("Tensor-parallel degree.", "tp", "tensor")
    context: Number = _degree("Context-parallel degree.", "cp", "context")
    exchange: Number = quantity(
        "1",
        "How context ranks see the whole sequence: all-to-all, heads for tokens (0), or ring (1).",
        whole=True,
        zero=True,
        most=1.0,
        default=1.0,
        symbol="cx",
        label="context exchange",
        part_of="context",
        flags=EXCHANGES,
    )
    pipeline: Number = _degree("Pipeline stages.", "pp", "pipeline", "layers")
    interleave: Number = _degree("Chunks of layers on a rank.", "vp", "interleave", "layers")
    expert: Number = _degree("Expert-parallel degree.", "ep", "expert")
    expert_tensor: Number = _degree(
        "Tensor-parallel degree inside an expert.", "etp", "expert tensor"
    )
    sequence_parallel: Number = _choice(
        "Whether tensor ranks share the tokens between products (1 or 0).",
        1.0,
        "sp",
        "sequence parallelism",
    )
    microbatch: Number = quantity(
        "sequence",
        "Sequences of a microbatch on a rank.",
        whole=True,
        default=1.0,
        symbol="mb",
        label="microbatch",
    )
    rank_order: Number = quantity(
        "1",
        "What lies outermost among the ranks: stages of the pipeline (0), or replicas (1), whose "
        "blocks of tensor, context and expert ranks have all their stages side by side.",
        whole=True,
        zero=True,
        most=1.0,
        default=0.0,
        symbol="ord",
        label="rank order",
        flags=ORDERS,
    )
    reshard: Number = _choice(
        "Whether ZeRO 2 and 3 let go of what they gathered after every pass (1), or gather weights "
        "and reduce gradients once a step (0), as FSDP does in a pipeline.",
        1.0,
        "rs",
        "resharding",
    )
    zero_stage: Number = _choice(
        "ZeRO stage: 1 shards the optimizer over replicas, 2 gradients too, 3 weights too.",
        1.0,
        "zero",
        "ZeRO stage",
        most=3.0,
    )
    recompute: Number = _choice(
        "What is computed again: 0 nothing, 1 the parts of a layer that the recipe selects, 2 all.",
        0.0,
        "rc",
        "recomputation",
        most=2.0,
    )
    offload_optimizer: Number = quantity(
        "1",
        "Share of the optimizer states in host memory; a search has 0 or 1.",
        zero=True,
        most=1.0,
        default=0.0,
        symbol="off",
        label="offload",
    )


@record
class StateSizes:
    """Weights, gradients and optimizer states: bytes of one number, and how they are stored."""

    weight_bytes: Number = quantity("B", "Bytes of one weight.", default=2.0)
    gradient_bytes: Number = quantity("B", "Bytes of one gradient.", default=4.0)
    master_bytes: Number = quantity("B", "Bytes of one master weight.", zero=True, default=4.0)
    moment_bytes: Number = quantity("B", "Bytes of both moments of a weight.", default=8.0)
    reduce_bytes: Number = quantity("B", "Bytes of one gradient in its reduction.", default=4.0)
    optimizer_instances: Number = quantity(
        "1", "Groups of replicas that each shard a whole optimizer.", whole=True, default=1.0
    )
    prefetch: Number = quantity("1", "Layers gathered ahead by ZeRO 3.", zero=True, default=1.0)
    vocabulary_multiple: Number = quantity(
        "1", "Entries of a rank that the vocabulary is padded to.", whole=True, default=128.0
    )
    extra_token: Number = quantity(
        "1", "Entries added before padding.", whole=True, zero=True, default=0.0
    )


@record
class Activations:
    """Activations: bytes of one number, and how experts are fed."""

    activation_bytes: Number = quantity("B", "Bytes of one activation.", default=2.0)
    linear_input_bytes: Number = quantity(
        "B", "Bytes of one number of a saved input of a product.", default=2.0
    )
    nonlinearity_bytes: Number = quantity(
        "B", "Bytes of one number of a saved input of a nonlinearity.", default=2.0
    )
    attention_dropout: Number = _flag("Whether scores are dropped (1 or 0).")
    hidden_dropout: Number = _flag("Whether hidden states are dropped (1 or 0).")
    offload_activations: Number = _flag("Share of the layers' activations in host memory.")
    routing_imbalance: Number = quantity(
        "1", "Tokens of the fullest rank's experts over the mean.", default=1.0
    )
    capacity_factor: Number = quantity(
        "1", "Capacity of an expert over its even share; 0 is dropless.", zero=True, default=0.0
    )
    routed_copies: Number = quantity(
        "1", "Copies of the routed tokens alive at the end of the experts.", default=4.0
    )


@record
class Buffers:
    """What stays allocated beside states and activations, inside the allocator and outside."""

    gradient_placeholders: Number = _flag(
        "Whether a dummy gradient is kept for every shape (1 or 0).", 1.0
    )
    gradient_temporary: Number = _flag("Whether a matrix has a gradient of its own (1 or 0).")
    workspace: Number = quantity("B", "Workspace of products.", zero=True, default=50.0 * MIB)
    grouped_workspace: Number = quantity(
        "B", "Workspace of grouped products, with experts.", zero=True, default=128.0 * MIB
    )
    fragmentation: Number = quantity(
        "1", "Reserved over allocated memory, less 1.", zero=True, default=0.06
    )
    cuda_context: Number = quantity(
        "B", "Driver, kernels and handles, outside the allocator.", zero=True, default=1e9
    )
    communicator: Number = quantity(
        "B", "Buffers of collectives, outside the allocator.", zero=True, default=0.5e9
    )


@record
class Framework:
    """What a framework does in any training step; flags are 1 or 0, or a share between.

    The defaults are those of Megatron-Core and NeMo.
    """

    old: Number = _flag("Whether the attention kernel was written for an earlier chip.")
    dropout: Number = _flag("Whether hidden states and scores are dropped.")
    bias: Number = _flag("Whether biases have gradients.")
    tensor_overlap: Number = _flag("Whether tensor messages are pipelined with products.", 1.0)
    tensor_async: Number = _flag("Whether they start before the weight gradient.", 1.0)
    pipeline_overlap: Number = _flag("Whether sends between stages are hidden.", 1.0)
    data_overlap: Number = _flag("Whether gradients and parameters move beside work.", 1.0)
    scatter: Number = _flag("Whether tensor ranks share a message between stages.", 1.0)
    fused: Number = _flag("Whether element-wise kernels are fused.", 1.0)
    early_stop: Number = _flag("Whether recomputation stops before a layer's last product.")
    repeated: Number = _flag("Share of a layer that full recomputation computes again.", 1.0)
    host: Number = quantity("1", "Launch burden; CUDA graphs have none.", zero=True, default=0.6)
    step_share: Number = _flag("Share of the cost of a step beside its work.", 1.0)
    slow_node: Number = _flag("Whether products of the node lie far under its kind's.")
    year: Number = quantity("year", "Release date of the software.", default=2026.9)
    fp8: Number = _flag("Whether products of layers have 8-bit inputs.")
    fp4: Number = _flag("Whether they have 4-bit inputs.")
    micro_scaled: Number = _flag("Whether 8-bit inputs have a scale a block (MXFP8).")
    attention8: Number = _flag("Whether attention has 8-bit inputs.")
    flex: Number = _flag("Whether a flexible dispatcher exchanges tokens of experts (DeepEP).", 1.0)
    dedup: Number = _flag("Whether a token goes once to a rank with several of its experts.", 1.0)
    exchange_overlap: Number = _flag("Whether that exchange runs beside another microbatch's work.")
    exchange_domain: Number = quantity(
        "1",
        "Accelerators that the exchange reaches over fast links; 0: the fast domain.",
        whole=True,
        zero=True,
        default=0.0,
    )
    token_drop: Number = _flag("Whether experts are padded to a capacity, so that none is counted.")
    graph: Number = _flag("Whether a step is one graph, with experts that need no host.")
    graph_part: Number = _flag("Whether parts of a layer are graphs.")


@record
class StageInputs:
    """A training step as its memory has it: model, machine, cluster, batch and plan.

    ``gpus`` is the number of accelerators for a search; a given plan uses the product of its
    degrees. The tokens of a sequence are ``model.sequence``.
    """

    model: Architecture
    system: System
    gpus: Number | None = quantity("1", "Accelerators to split over.", whole=True, default=None)
    global_batch: Number = quantity("sequence", "Sequences of one optimizer step.", whole=True)
    microbatch_group: Number = quantity(
        "1",
        "Microbatches that go through one chunk together; 0 is the pipeline degree.",
        whole=True,
        zero=True,
        default=0.0,
    )
    early_forward: Number = quantity(
        "1",
        "Forward passes more in flight, 1 if expert exchanges overlap.",
        whole=True,
        zero=True,
        default=0.0,
    )
    lora_rank: Number | None = quantity(
        "1",
        "Rank of adapters beside frozen matrices (LoRA); without one all weights are trained.",
        whole=True,
        zero=True,
        default=None,
    )
    states: StateSizes = StateSizes()
    activations: Activations = Activations()
    buffers: Buffers = Buffers()
    plan: TrainingPlan | None = None


@record
class TrainingInputs(Operated, StageInputs):
    """A training step: model, machine with its chip, cluster, batch, plan and software.

    ``gpus`` is the number of accelerators for a search; a given plan uses the product of its
    degrees. The tokens of a sequence are ``model.sequence``. ``system.chip`` is what training gets
    of the machine; a system that is given by name has that of its catalogue entry.
    """

    software: Framework = Framework()
    shared: SharedConstants = SharedConstants()


_PARTS = {"states": StateSizes, "activations": Activations, "buffers": Buffers}
SHORTHAND = {  # of paths of a training step: numbers that may stand without their record
    "sequence": "model.sequence",
    **{name: f"{part}.{name}" for part, kind in _PARTS.items() for name in units(kind)},
}


# ---- As memory, time and legality read them ------------------------------------------------------


def _switch(doc: str) -> Number:
    return quantity("1", doc, whole=True, zero=True, most=1.0, default=0.0)


@record
class TrainingModel(Architecture):
    """An architecture with its choices as numbers."""

    gated: Number = _switch("Whether MLPs and experts have a gate (1 or 0).")
    tied: Number = _switch("Whether the head uses the embedding (1 or 0).")
    latent: Number = _switch("Whether attention has latents (1 or 0).")
    sparse: Number = _switch("Whether it has an indexer (1 or 0).")
    mamba: Number = _switch("Whether recurrent layers are Mamba-2 (1 or 0).")
    delta: Number = _switch("Whether they are gated DeltaNet (1 or 0).")
    kda: Number = _switch("Whether they are Kimi Delta Attention (1 or 0).")
    qk_norm: Number = _switch("Whether queries and keys are normalised (1 or 0).")
    norm_vectors: Number = quantity("1", "Vectors that a norm learns.", default=1.0)
    projection_bias: Number = _switch("Whether query, key and value have biases (1 or 0).")
    output_bias: Number = _switch("Whether the output of attention has (1 or 0).")
    mlp_bias: Number = _switch("Whether dense MLPs have (1 or 0).")
    expert_bias: Number = _switch("Whether experts and the router have (1 or 0).")
    lora_rank: Number = quantity("1", "Rank of adapters (LoRA).", zero=True, default=0.0)
    trained: Number = quantity(
        "1", "Whether all weights are trained, not adapters alone (1 or 0).", default=1.0
    )
    adapted_outputs: Number = _switch("Whether every matrix has an adapter, not only those of qkv.")


def step_model(inputs: StageInputs, recipe: TrainingRecipe) -> TrainingModel:
    """Return the architecture of a step with its choices as numbers, and its adapters."""
    model, rank = training_model(inputs.model, recipe), value_or(inputs.lora_rank, None)
    if rank is None:
        return model
    return dataclasses.replace(
        model,
        lora_rank=rank,
        trained=where(rank > 0.0, 0.0, 1.0),
        adapted_outputs=float(recipe.adapters is Adapters.ALL),
    )


def training_model(model: Architecture, recipe: Recipe) -> TrainingModel:
    """Return an architecture with its choices as numbers."""
    projections, output, mlp, experts = BIASES[recipe.biases]
    fields: dict[str, Any] = {name: getattr(model, name) for name in units(Architecture)}
    return TrainingModel(
        **{**fields, **layers_by_part(model)},
        gated=float(recipe.mlp is Mlp.GATED),
        tied=float(recipe.embeddings is Embeddings.TIED),
        latent=float(recipe.attention is not Attention.HEADS),
        sparse=float(recipe.attention is Attention.SPARSE),
        mamba=float(recipe.recurrence is Recurrence.MAMBA),
        delta=float(recipe.recurrence is Recurrence.DELTA),
        kda=float(recipe.recurrence is Recurrence.KDA),
        qk_norm=where(model.head_norms > 0.0, 1.0, 0.0),
        norm_vectors=1.0 + float(recipe.norm is Norm.LAYERNORM),
        projection_bias=projections,
        output_bias=output,
        mlp_bias=mlp,
        expert_bias=experts,
    )


def layers_by_part(model: Architecture) -> dict[str, Number]:
    """Return the numbers of layers that follow from others where they are not given."""
    recurrent = model.mamba_layers + model.delta_layers + model.kda_layers
    leading = where(model.experts > 0.0, model.first_dense_layers, model.layers)
    dense = value_or(model.dense_layers, leading)
    routed = where(model.experts > 0.0, model.layers - dense, 0.0)
    return {
        "full_layers": value_or(
            model.full_layers, model.layers - model.windowed_layers - recurrent
        ),
        "dense_layers": dense,
        "routed_layers": value_or(model.routed_layers, routed),
        "mtp_blocks": value_or(model.mtp_blocks, model.mtp_layers),
    }


BIASES = {  # which of projections, attention's output, dense MLPs and experts have biases
    Biases.NONE: (0.0, 0.0, 0.0, 0.0),
    Biases.QUERY_KEY_VALUE: (1.0, 0.0, 0.0, 0.0),
    Biases.ATTENTION: (1.0, 1.0, 0.0, 0.0),
    Biases.MLP: (0.0, 0.0, 1.0, 0.0),
    Biases.ALL: (1.0, 1.0, 1.0, 0.0),
    Biases.EXPERTS: (1.0, 1.0, 1.0, 1.0),
}


@record
class BatchPlan(TrainingPlan):
    """A plan whose batch is known, and whose exchange is that of the recipe."""

    microbatches: Number = quantity("1", "Microbatches of a step.", whole=True, default=1.0)


@record
class PlannedStep(StageInputs):
    """A training step with its plan, and with a model whose choices are numbers."""

    model: TrainingModel
    plan: BatchPlan


def planned(inputs: StageInputs, recipe: TrainingRecipe) -> PlannedStep:
    """Return a step with its plan and its model as they are read."""
    fields = {name: getattr(inputs, name) for name in PlannedStep.__dataclass_fields__}
    fields["model"] = step_model(inputs, recipe)
    return PlannedStep(**{**fields, "plan": batch_plan(inputs, recipe)})


def batch_plan(inputs: StageInputs, recipe: TrainingRecipe) -> BatchPlan:
    """Return the plan of a step; batch, data degree and microbatch make the microbatches.

    Assumes: what gathers weights and reduces gradients once a step is ZeRO 1 in all that it does,
    but for messages that nothing hides: a stage keeps its weights and gradients whole.
    """
    plan = inputs.plan
    assert plan is not None
    fields = {name: getattr(plan, name) for name in units(TrainingPlan)}
    fields["exchange"] = exchange_of(recipe, plan.exchange)
    kept = (plan.zero_stage > 1.5) & (plan.reshard < 0.5)
    fields["zero_stage"] = where(kept, 1.0, plan.zero_stage)
    fields["reshard"] = where(kept, 0.0, 1.0)
    batches = schedule.microbatches(inputs.global_batch, plan.data, plan.microbatch)
    return BatchPlan(**fields, microbatches=batches)
