"""Whether each rule holds for a plan of a training step of a model of today."""

from jaxroof.records import Number, quantity, record

Flag = bool | Number  # an array of booleans


@record
class Legality:
    """One verdict a rule; a plan is legal if all hold."""

    gpus_used: Flag = quantity("1", "The degrees multiply to the accelerators.")
    heads_divisible: Flag = quantity("1", "Tensor degree divides the heads.")
    kv_heads_divisible: Flag = quantity(
        "1", "Tensor degree divides the key/value heads, or is a multiple of them."
    )
    feedforward_divisible: Flag = quantity("1", "Tensor degree divides the width of the MLP.")
    expert_feedforward_divisible: Flag = quantity(
        "1", "Expert-tensor degree divides the width of an expert."
    )
    sequence_divisible: Flag = quantity("1", "Context and tensor degrees divide the sequence.")
    context_tokens: Flag = quantity("1", "Every context rank has at least 512 tokens.")
    stages_enough: Flag = quantity("1", "There are no more chunks than layers.")
    interleave_needs_pipeline: Flag = quantity("1", "Several chunks are in a pipeline.")
    interleave_microbatches: Flag = quantity(
        "1", "The schedule has these chunks; interleaved, whole groups of microbatches."
    )
    experts_divisible: Flag = quantity("1", "Expert degree divides the experts.")
    experts_exist: Flag = quantity("1", "Expert degrees are 1 without experts.")
    expert_group: Flag = quantity("1", "Expert groups divide the ranks of a stage.")
    moe_sequence_parallel: Flag = quantity(
        "1", "Tensor ranks share the tokens where there are experts."
    )
    batch_divisible: Flag = quantity("1", "Data degree and microbatch divide the batch.")
    layers_divisible: Flag = quantity("1", "Chunks divide the layers.")
    context_heads: Flag = quantity("1", "Tensor and context degrees divide the heads.")
    dualpipe_microbatches: Flag = quantity("1", "DualPipe has even stages and microbatches.")
