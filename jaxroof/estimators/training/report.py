"""The results of a training step of a model of today: time with its interval, memory, legality."""

from jaxroof.estimators.training.interval import WORDS as REGIME_WORDS
from jaxroof.estimators.training.legality_report import Flag, Legality
from jaxroof.estimators.training.memory_report import DEVICE_ERROR, HOST
from jaxroof.records import Number, quantity, record


def _time(doc: str, symbol: str, words: str, label: str = "") -> Number:
    return quantity("s", doc, part_of="step_time", symbol=symbol, words=words, label=label or words)


def _memory(doc: str, words: str) -> Number:
    return quantity("B", doc, part_of="memory", words=words)


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
        "Model FLOP utilisation: Megatron-LM's count with halved attention, over the 16-bit peak.",
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
