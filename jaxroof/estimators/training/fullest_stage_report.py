"""The memory of the fullest stage of a training step of a model of today."""

from jaxroof.estimators.training.legality_report import Legality
from jaxroof.estimators.training.memory_report import DEVICE_ERROR, HOST, StageMemory
from jaxroof.records import Number, quantity, record

Flag = bool | Number  # an array of booleans


def _group(doc: str, words: str) -> Number:
    return quantity("B", doc, part_of="device", words=words)


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
    memory_weights: Number = _group("Weights.", "weights")
    memory_gradients: Number = _group("Gradients.", "gradients")
    memory_optimizer: Number = _group("Optimizer states.", "optimizer")
    memory_activations: Number = _group("All saved activations.", "activations")
    memory_transient: Number = _group("Largest momentary term.", "momentary")
    memory_buffers: Number = _group("Buffers beside the states.", "buffers")
    memory_outside: Number = _group(
        "Fragmentation, context and communicators.", "outside of tensors"
    )
    device_fits: Flag = quantity("1", "Memory is at most the usable capacity.")
    feasible: Flag = quantity("1", "Every verdict holds.")
