"""The results of a training step: memory by stage; time, memory and legality of a plan."""

from jaxroof.estimators.legality import Flag
from jaxroof.estimators.training.interval import WORDS as REGIME_WORDS
from jaxroof.estimators.training.legality import Legality
from jaxroof.estimators.whole_run.report import RunReport
from jaxroof.records import Number, quantity, record

RESERVED_ERROR, DEVICE_ERROR = 0.10, 0.15  # of measured runs, section 10.6 of the sheet

HOST = "Offloaded states and activations, in the memory of the host of one accelerator."


def _part(whole: str, doc: str) -> Number:
    return quantity("B", doc, part_of=whole)


def _memory(doc: str, words: str, whole: str = "memory") -> Number:
    return quantity("B", doc, part_of=whole, words=words)


def _time(doc: str, symbol: str, words: str, label: str = "") -> Number:
    return quantity("s", doc, part_of="step_time", symbol=symbol, words=words, label=label or words)


@record
class StageMemory:
    """Bytes on one rank of a stage; the peak is static + activations + the largest transient."""

    layers: Number = quantity("1", "Layers, without those of multi-token prediction.")
    parameters_dense: Number = quantity("1", "Parameters, without routed experts.")
    parameters_expert: Number = quantity("1", "Parameters of routed experts.")
    weights_dense: Number = _part("static", "Weights, without routed experts.")
    weights_expert: Number = _part("static", "Weights of routed experts.")
    gradients_dense: Number = _part("static", "Gradients, without routed experts.")
    gradients_expert: Number = _part("static", "Gradients of routed experts.")
    optimizer_dense: Number = _part("static", "Optimizer states, without routed experts.")
    optimizer_expert: Number = _part("static", "Optimizer states of routed experts.")
    activations_norm_inputs: Number = _part(
        "activations", "Inputs of the norms, or of recomputed layers."
    )
    activations_norm_outputs: Number = _part("activations", "Outputs of the norms.")
    activations_latents: Number = _part("activations", "Latents of multi-head latent attention.")
    activations_qkv: Number = _part("activations", "Queries, keys and values.")
    activations_attention_output: Number = _part("activations", "Outputs of the attention.")
    activations_attention_scores: Number = _part(
        "activations", "Scores of the attention, or their statistics."
    )
    activations_dropout_masks: Number = _part("activations", "Masks of the hidden dropouts.")
    activations_mlp: Number = _part("activations", "Inside dense MLPs.")
    activations_shared_expert: Number = _part("activations", "Inside shared experts.")
    activations_routed: Number = _part(
        "activations", "Routed tokens and what is inside their experts."
    )
    activations_router: Number = _part("activations", "Scores and maps of the router.")
    activations_recurrent: Number = _part("activations", "Inside recurrent layers.")
    activations_indexer: Number = _part("activations", "Indexers of sparse attention.")
    activations_expert_latents: Number = _part("activations", "Latents that experts work in.")
    activations_pending_weight_gradients: Number = _part(
        "activations", "Kept for weight gradients that are made later."
    )
    activations_embedding: Number = _part("activations", "Token ids and mask of the embedding.")
    activations_mtp: Number = _part("activations", "Multi-token prediction.")
    activations_pipeline: Number = _part("activations", "Boundary tensors of the pipeline.")
    gradient_placeholders: Number = _part("static", "Dummy gradients, one of each shape.")
    gather_buffer: Number = _part("static", "Buffer of the output layer.")
    fsdp_gathered_weights: Number = _part("static", "Weights gathered by ZeRO 3.")
    fsdp_gathered_gradients: Number = _part("static", "Gradients before ZeRO 3 scatters them.")
    workspace: Number = _part("static", "Workspace of matrix products.")
    rope_table: Number = _part("static", "Table of rotations.")
    transient_head: Number = quantity("B", "Logits and their gradient.")
    transient_layer_backward: Number = quantity("B", "Backward pass of one layer.")
    transient_moe: Number = quantity("B", "End of the experts' forward pass.")
    transient_mixer: Number = quantity("B", "States of recurrent layers, scores of indexers.")
    transient_embedding: Number = quantity("B", "Gradient of the embedding.")
    transient: Number = _part("peak_allocated", "Largest momentary term.")
    static: Number = _part("peak_allocated", "States and buffers.")
    activations: Number = _part("peak_allocated", "All saved activations.")
    peak_allocated: Number = quantity("B", "Allocated peak, as PyTorch counts it.")
    reserved: Number = quantity("B", "Peak that the allocator reserves.", error=RESERVED_ERROR)
    device: Number = quantity(
        "B", "Peak of the device, context and communicators included.", error=DEVICE_ERROR
    )


@record
class FullestStageReport(Legality, StageMemory):
    """The memory of the fullest stage, term by term, and whether the plan is legal and fits.

    Of a rank with N parameters that follow the data-parallel rules (D = data x context ranks share
    them) and N_e of routed experts (D_e ranks), in the letters of section 1 of
    docs/models/parameters_flops_memory.md:

    - ``weights_*``, ``gradients_*``: N times their bytes, over D from ZeRO 3 and 2 on;
      ``optimizer_*``: N (master + moments) (1 - offload), over D from ZeRO 1 on (4.4).
    - ``activations_*``: layers x microbatches in flight times, of a layer of T tokens,
      ``norm_inputs`` and ``norm_outputs`` 2 beta T h / sigma each, ``qkv`` beta T (a + 2 kappa) d
      / t, ``attention_output`` T a d / t, ``attention_scores`` 4 T a / t, ``mlp`` T f / t (2 g +
      2), ``routed`` R (h + (g + 1) f_e / tau) and ``router`` 22 T E / sigma + 4 R, at 2 bytes a
      number; ``latents``, ``dropout_masks``, ``shared_expert`` likewise (4.5).
    - ``gradient_placeholders``: 2 bytes of every different shape of a matrix; ``gather_buffer``,
      ``fsdp_*``, ``rope_table``, ``workspace``: once a rank (4.8).
    - ``transient``: the largest of ``transient_*``, which come one after another (4.7).

    peak_allocated = static + activations + transient; reserved = peak_allocated
    (1 + fragmentation); device = reserved + context and communicators. Known to: allocated 1 % + 15
    MiB (dropless experts -6 to +9 %), reserved 10 %, device 15 % (section 10.6).

    The ``memory_*`` groups sum to ``device``. A plan is ``feasible`` if all verdicts before that
    field are true.
    """

    device: Number = quantity(
        "B",
        "Memory of the fullest accelerator, context and communicators included.",
        headline=True,
        resource="capacity",
        words="HBM",
        label="memory of one accelerator",
        error=DEVICE_ERROR,
    )
    host: Number = quantity("B", HOST, words="host memory")
    stage: Number = quantity("1", "The fullest stage, counted from 0.", words="fullest stage")
    microbatches: Number = quantity("1", "Microbatches of a step.")
    memory_weights: Number = _memory("Weights.", "weights", "device")
    memory_gradients: Number = _memory("Gradients.", "gradients", "device")
    memory_optimizer: Number = _memory("Optimizer states.", "optimizer", "device")
    memory_activations: Number = _memory("All saved activations.", "activations", "device")
    memory_transient: Number = _memory("Largest momentary term.", "momentary", "device")
    memory_buffers: Number = _memory("Buffers beside the states.", "buffers", "device")
    memory_outside: Number = _memory(
        "Fragmentation, context and communicators.", "outside of tensors", "device"
    )
    device_fits: Flag = quantity("1", "Memory is at most the usable capacity.")
    feasible: Flag = quantity("1", "Every verdict holds.")


@record
class TrainingReport(Legality):
    """Time, memory and legality of one optimizer step under one plan.

    The time parts sum to ``step_time``, and the memory parts to ``memory``. Those of a stage are of
    the mean stage; ``time_imbalance`` is what the slowest one takes longer. A plan is ``feasible``
    if all verdicts before that field are true.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    step_time_low: Number = quantity("s", "The lower end: 10 % of measured runs take less.")
    step_time_high: Number = quantity("s", "The upper end: 10 % of measured runs take longer.")
    regime: Number = quantity(
        "1",
        "Kind of run whose measured errors the interval has.",
        flags=REGIME_WORDS,
    )
    throughput: Number = quantity(
        "sequence/s", "Sequences trained on a second.", better="higher", headline=True
    )
    tokens_per_second: Number = quantity(
        "token/s", "Tokens trained on a second by one accelerator.", better="higher"
    )
    mfu: Number = quantity(
        "1",
        "Model FLOP utilisation: Megatron-LM's count with halved attention, within windows, over "
        "the 16-bit peak.",
        better="higher",
    )
    training_days: Number = quantity("day", "Time of the whole training.", label="days of training")
    memory: Number = quantity(
        "B",
        "Memory of the fullest accelerator, context and communicators included.",
        resource="capacity",
        words="HBM",
        label="memory of one accelerator",
        error=DEVICE_ERROR,
    )
    host: Number = quantity("B", HOST, words="host memory")
    memory_weights: Number = _memory("Weights.", "weights")
    memory_gradients: Number = _memory("Gradients.", "gradients")
    memory_optimizer: Number = _memory("Optimizer states.", "optimizer states")
    memory_activations: Number = _memory("All saved activations.", "activations")
    memory_transient: Number = _memory("Largest momentary term.", "momentary")
    memory_buffers: Number = _memory("Buffers beside the states.", "buffers")
    memory_outside: Number = _memory(
        "Fragmentation, context and communicators.", "outside of tensors"
    )
    time_compute: Number = _time(
        "Products, attention and experts of the mean stage, embedding and head included.",
        "arithmetic",
        "arithmetic",
    )
    time_memory: Number = _time(
        "Norms, activations and casts of the mean stage.", "kernels", "element-wise kernels"
    )
    time_recompute: Number = _time(
        "What the mean stage computes again.", "recompute", "recomputation"
    )
    time_tensor: Number = _time(
        "Messages of tensor, context and expert groups that nothing hides, mean stage.",
        "messages",
        "tensor, context and expert messages",
        "messages",
    )
    time_imbalance: Number = _time(
        "What the slowest stage takes beyond the mean: uneven ends, slow chips, launches, sends.",
        "uneven",
        "uneven stages, slow chips and launches",
        "uneven stages",
    )
    time_bubble: Number = _time(
        "Time that a stage idles while the pipeline fills.",
        "bubble",
        "the pipeline bubble",
        "bubble",
    )
    time_pipeline: Number = _time(
        "Sends between pipeline stages that nothing hides.", "sends", "sends between stages"
    )
    time_data: Number = _time(
        "Gradients and parameters between replicas that nothing hides.",
        "data",
        "data-parallel messages",
    )
    time_update: Number = _time(
        "Update of the parameters, data loading and logging, once a step.",
        "update",
        "the update of parameters",
        "update",
    )
    memory_fits: Flag = quantity("1", "Memory is at most the usable capacity.")
    feasible: Flag = quantity("1", "Every verdict holds.")


@record
class WholeTrainingReport(RunReport, TrainingReport):
    """The same, and what the whole run takes, where it is said how that is operated."""
