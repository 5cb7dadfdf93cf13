"""The results of a training step under MaxText."""

from jaxroof.estimators.legality import Flag, with_verdicts
from jaxroof.estimators.tpu_training.legality import RULES
from jaxroof.estimators.training.interval import WORDS as REGIME_WORDS
from jaxroof.estimators.whole_run.report import RunReport
from jaxroof.records import Number, quantity, record

FITS = ("does_not_fit", "may_fit", "fits")  # the verdict on memory


def _memory(doc: str, words: str) -> Number:
    return quantity("B", doc, part_of="memory", words=words)


def _time(doc: str, symbol: str, words: str) -> Number:
    return quantity("s", doc, part_of="step_time", symbol=symbol, words=words, label=words)


@record
@with_verdicts(RULES)
class TpuLegality:
    """One verdict a rule; a plan is legal if all hold."""


@record
class TpuReport(TpuLegality):
    """Time, memory and legality of one optimizer step under MaxText.

    The time parts sum to ``step_time``, the memory parts to ``memory``: what a run takes at least.
    It takes at most ``memory_high``.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    step_time_low: Number = quantity("s", "The lower end: 10 % of measured runs take less.")
    step_time_high: Number = quantity("s", "The upper end: 10 % of measured runs take longer.")
    regime: Number = quantity(
        "1", "Kind of run whose measured errors the interval has.", flags=REGIME_WORDS
    )
    throughput: Number = quantity(
        "sequence/s", "Sequences trained on a second.", better="higher", headline=True
    )
    tokens_per_second: Number = quantity(
        "token/s", "Tokens trained on a second by one chip.", better="higher"
    )
    mfu: Number = quantity(
        "1",
        "Model FLOP utilisation: Megatron-LM's count with halved attention, over the bf16 peak.",
        better="higher",
    )
    training_days: Number = quantity("day", "Time of the whole training.", label="days of training")
    memory: Number = quantity(
        "B",
        "Least memory of a device: states and what is kept for the backward pass.",
        resource="capacity",
        words="HBM",
        label="least memory of a device",
    )
    memory_high: Number = quantity(
        "B", "Most memory of a device, if XLA reused no space.", words="HBM at most"
    )
    memory_verdict: Number = quantity(
        "1", "Whether it fits in the memory of a device.", flags=FITS, words="memory"
    )
    memory_states: Number = _memory("Weights and moments.", "states")
    memory_kept: Number = _memory("Kept for the backward pass.", "kept activations")
    time_compute: Number = _time(
        "Products, attention and experts, head and embedding included.", "arithmetic", "arithmetic"
    )
    time_memory: Number = _time("Norms, activations and casts.", "kernels", "element-wise kernels")
    time_recompute: Number = _time("What is computed again.", "recompute", "recomputation")
    time_tensor: Number = _time(
        "Messages of tensor and context groups that nothing hides.",
        "messages",
        "tensor and context messages",
    )
    time_gather: Number = _time(
        "Gathers of weights and reduction of gradients that nothing hides.",
        "gathers",
        "gathers of weights",
    )
    time_slices: Number = _time(
        "What several slices take more, and their gradients over the data-centre network.",
        "slices",
        "the data-centre network",
    )
    time_data: Number = _time(
        "Gradients between replicas of a slice.", "data", "data-parallel messages"
    )
    time_update: Number = _time("Update of the parameters.", "update", "the update of parameters")
    memory_fits: Flag = quantity("1", "The least memory is at most the usable capacity.")
    feasible: Flag = quantity("1", "Every verdict holds.")


@record
class WholeTpuReport(RunReport, TpuReport):
    """The same, and what the whole run takes, where it is said how that is operated."""
