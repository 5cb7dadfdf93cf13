"""What the memory of a training step depends on: counts, plan, states, activations, buffers."""

from typing import Any

from jaxroof.estimators.training.memory_recipe import EXCHANGES
from jaxroof.limits import BOUNDS
from jaxroof.records import Number, quantity, record

MIB = 2.0**20  # [B]


def exchange_field() -> Number:
    """Declare how context ranks see the whole sequence, the same for memory and for time."""
    return quantity(
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


@record
class Counts:
    """Parameters of a model by part; architecture and conventions are those of section 2."""

    dense_sharded: Number = quantity("1", "Parameters of a dense layer that tensor ranks share.")
    dense_replicated: Number = quantity("1", "Parameters of a dense layer on every tensor rank.")
    routing_sharded: Number = quantity(
        "1", "Parameters of a routing layer that tensor ranks share, without routed experts."
    )
    routing_replicated: Number = quantity(
        "1", "Parameters of a routing layer on every tensor rank."
    )
    routed: Number = quantity("1", "Parameters of all routed experts of one layer.", zero=True)
    norm: Number = quantity("1", "Parameters of one norm of the hidden width.")


@record
class MemoryPlan:
    """How a training step is split, as far as memory knows."""

    data: Number = quantity("1", "Data-parallel degree.", whole=True, default=1.0, symbol="dp")
    tensor: Number = quantity("1", "Tensor-parallel degree.", whole=True, default=1.0, symbol="tp")
    context: Number = quantity(
        "1", "Context-parallel degree.", whole=True, default=1.0, symbol="cp"
    )
    exchange: Number = exchange_field()
    pipeline: Number = quantity(
        "1", "Pipeline stages.", whole=True, most=BOUNDS["layers"], default=1.0, symbol="pp"
    )
    microbatch: Number = quantity(
        "1", "Sequences of a microbatch on a rank.", whole=True, default=1.0, symbol="mb"
    )
    microbatches: Number = quantity("1", "Microbatches of a step.", whole=True, default=1.0)
    interleave: Number = quantity(
        "1",
        "Chunks of layers on a rank.",
        whole=True,
        most=BOUNDS["layers"],
        default=1.0,
        symbol="vp",
    )
    expert: Number = quantity("1", "Expert-parallel degree.", whole=True, default=1.0, symbol="ep")
    expert_tensor: Number = quantity(
        "1", "Tensor-parallel degree inside an expert.", whole=True, default=1.0, symbol="etp"
    )
    sequence_parallel: Number = quantity(
        "1",
        "Whether tensor ranks share the tokens between products (1 or 0).",
        whole=True,
        zero=True,
        most=1.0,
        default=1.0,
        symbol="sp",
    )
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
class States(StateSizes):
    """Weights, gradients and optimizer states, and who shards them."""

    zero_stage: Number = quantity(
        "1", "ZeRO stage, 0 to 3.", whole=True, zero=True, most=3.0, default=1.0, symbol="zero"
    )
    offload_optimizer: Number = quantity(
        "1",
        "Share of the optimizer states in host memory.",
        zero=True,
        most=1.0,
        default=0.0,
        symbol="off",
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
    attention_dropout: Number = quantity(
        "1", "Whether scores are dropped (1 or 0).", zero=True, most=1.0, default=0.0
    )
    hidden_dropout: Number = quantity(
        "1", "Whether hidden states are dropped (1 or 0).", zero=True, most=1.0, default=0.0
    )
    offload_activations: Number = quantity(
        "1", "Share of the layers' activations in host memory.", zero=True, most=1.0, default=0.0
    )
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

    gradient_placeholders: Number = quantity(
        "1", "Whether a dummy gradient is kept for every shape (1 or 0).", zero=True, default=1.0
    )
    gradient_temporary: Number = quantity(
        "1", "Whether a matrix has a gradient of its own (1 or 0).", zero=True, default=0.0
    )
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
class MemoryInputs:
    """A model, its parameters by part, a plan, and what a number of each kind takes.

    The model has the fields of section 1 of docs/models/parameters_flops_memory.md by name.
    """

    model: Any
    counts: Counts
    sequence: Number = quantity("token", "Tokens of one sequence.", whole=True)
    plan: MemoryPlan
    states: States = States()
    activations: Activations = Activations()
    buffers: Buffers = Buffers()
    gpus: Number | None = quantity("1", "Accelerators to split over.", whole=True, default=None)
    global_batch: Number | None = quantity(
        "1", "Sequences of one optimizer step.", whole=True, default=None
    )
