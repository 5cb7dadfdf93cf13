"""The memory of a stage, term by term."""

from jaxroof.records import Number, quantity, record

RESERVED_ERROR, DEVICE_ERROR = 0.10, 0.15  # of measured runs, section 10.6 of the sheet

HOST = "Offloaded states and activations, in the memory of the host of one accelerator."


@record
class StageMemory:
    """Bytes on one rank of a stage; the peak is static + activations + the largest transient."""

    layers: Number = quantity("1", "Layers, without those of multi-token prediction.")
    parameters_dense: Number = quantity("1", "Parameters, without routed experts.")
    parameters_expert: Number = quantity("1", "Parameters of routed experts.")
    weights_dense: Number = quantity("B", "Weights, without routed experts.", part_of="static")
    weights_expert: Number = quantity("B", "Weights of routed experts.", part_of="static")
    gradients_dense: Number = quantity("B", "Gradients, without routed experts.", part_of="static")
    gradients_expert: Number = quantity("B", "Gradients of routed experts.", part_of="static")
    optimizer_dense: Number = quantity(
        "B", "Optimizer states, without routed experts.", part_of="static"
    )
    optimizer_expert: Number = quantity(
        "B", "Optimizer states of routed experts.", part_of="static"
    )
    activations_norm_inputs: Number = quantity(
        "B", "Inputs of the norms, or of recomputed layers.", part_of="activations"
    )
    activations_norm_outputs: Number = quantity("B", "Outputs of the norms.", part_of="activations")
    activations_latents: Number = quantity(
        "B", "Latents of multi-head latent attention.", part_of="activations"
    )
    activations_qkv: Number = quantity("B", "Queries, keys and values.", part_of="activations")
    activations_attention_output: Number = quantity(
        "B", "Outputs of the attention.", part_of="activations"
    )
    activations_attention_scores: Number = quantity(
        "B", "Scores of the attention, or their statistics.", part_of="activations"
    )
    activations_dropout_masks: Number = quantity(
        "B", "Masks of the hidden dropouts.", part_of="activations"
    )
    activations_mlp: Number = quantity("B", "Inside dense MLPs.", part_of="activations")
    activations_shared_expert: Number = quantity(
        "B", "Inside shared experts.", part_of="activations"
    )
    activations_routed: Number = quantity(
        "B", "Routed tokens and what is inside their experts.", part_of="activations"
    )
    activations_router: Number = quantity(
        "B", "Scores and maps of the router.", part_of="activations"
    )
    activations_pending_weight_gradients: Number = quantity(
        "B", "Kept for weight gradients that are made later.", part_of="activations"
    )
    activations_embedding: Number = quantity(
        "B", "Token ids and mask of the embedding.", part_of="activations"
    )
    activations_mtp: Number = quantity("B", "Multi-token prediction.", part_of="activations")
    activations_pipeline: Number = quantity(
        "B", "Boundary tensors of the pipeline.", part_of="activations"
    )
    gradient_placeholders: Number = quantity(
        "B", "Dummy gradients, one of each shape.", part_of="static"
    )
    gather_buffer: Number = quantity("B", "Buffer of the output layer.", part_of="static")
    fsdp_gathered_weights: Number = quantity("B", "Weights gathered by ZeRO 3.", part_of="static")
    fsdp_gathered_gradients: Number = quantity(
        "B", "Gradients before ZeRO 3 scatters them.", part_of="static"
    )
    workspace: Number = quantity("B", "Workspace of matrix products.", part_of="static")
    rope_table: Number = quantity("B", "Table of rotations.", part_of="static")
    transient_head: Number = quantity("B", "Logits and their gradient.")
    transient_layer_backward: Number = quantity("B", "Backward pass of one layer.")
    transient_moe: Number = quantity("B", "End of the experts' forward pass.")
    transient_embedding: Number = quantity("B", "Gradient of the embedding.")
    transient: Number = quantity("B", "Largest momentary term.", part_of="peak_allocated")
    static: Number = quantity("B", "States and buffers.", part_of="peak_allocated")
    activations: Number = quantity("B", "All saved activations.", part_of="peak_allocated")
    peak_allocated: Number = quantity("B", "Allocated peak, as PyTorch counts it.")
    reserved: Number = quantity("B", "Peak that the allocator reserves.", error=RESERVED_ERROR)
    device: Number = quantity(
        "B", "Peak of the device, context and communicators included.", error=DEVICE_ERROR
    )
