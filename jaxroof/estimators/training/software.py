"""What training software does, as numbers: kernels, overlap, sharding, recomputation.

Source: docs/models/training_step_today.md, section 1 (the recipe) and section 9 (its values).
"""

from jaxroof.records import Number, quantity, record

DEDUPLICATED = 2025.6  # year from which dispatchers send a token once to a rank
CAPTURED = 2026.4  # year from which expert layers are captured in a graph


def _flag(doc: str, default: float = 0.0) -> Number:
    return quantity("1", doc, zero=True, most=1.0, default=default)


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


@record
class Software(Framework):
    """What a framework does in the steps of a plan: its own habits, and what the plan asks for."""

    flash: Number = _flag("Whether attention is one kernel (0: products and a softmax).", 1.0)
    sequence_parallel: Number = _flag("Whether tensor ranks share the tokens of norms.", 1.0)
    zero_stage: Number = quantity(
        "1", "ZeRO stage; 2 and 3 are FSDP by layer.", zero=True, most=3.0, default=1.0
    )
    gradient_bytes: Number = quantity("B", "Bytes of a reduced gradient.", default=4.0)
    loss_bytes: Number = quantity("B", "Bytes moved for a logit of the loss.", default=52.0)
    recompute_full: Number = _flag("Share of a layer that is computed again.")
    recompute_selective: Number = _flag("Share of the recipe's modules that is computed again.")
    dedup: Number = _flag("Whether a token is sent once to a rank with several of its experts.")
    graph: Number = _flag("Whether expert layers are captured in a graph.")
