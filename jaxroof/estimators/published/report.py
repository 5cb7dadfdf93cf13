"""The results of a training step."""

from typing import Any

from jaxroof.estimators.legality import with_verdicts
from jaxroof.estimators.published.legality import EVERY
from jaxroof.records import Number, quantity, record


def _time(doc: str, symbol: str, words: str, label: str) -> Any:
    """Declare a part of the step time."""
    return quantity("s", doc, part_of="step_time", symbol=symbol, words=words, label=label)


@record
@with_verdicts(EVERY.values(), memory_fits="Memory is at most the usable capacity.")
class Report:
    """Time, memory and legality of one optimizer step under one plan.

    The six time parts sum to ``step_time``, and the four memory parts to ``memory``. A plan is
    ``feasible`` if all verdicts before that field are true.
    """

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity(
        "sequence/s", "Sequences trained on a second.", better="higher", headline=True
    )
    memory: Number = quantity(
        "B",
        "Memory that the fullest accelerator needs.",
        resource="capacity",
        label="memory of one accelerator",
    )
    memory_weights: Number = quantity("B", "Memory of weights.", part_of="memory", words="weights")
    memory_gradients: Number = quantity(
        "B", "Memory of weight gradients.", part_of="memory", words="gradients"
    )
    memory_optimizer: Number = quantity(
        "B", "Memory of optimizer state.", part_of="memory", words="optimizer state"
    )
    memory_activations: Number = quantity(
        "B", "Memory of activations kept for backward.", part_of="memory", words="activations"
    )
    time_compute: Number = _time(
        "Time in arithmetic, launches included.", "compute", "arithmetic and launches", "compute"
    )
    time_memory: Number = _time(
        "Time in HBM traffic that arithmetic does not hide.", "hbm", "HBM bandwidth", "HBM"
    )
    time_tensor: Number = _time(
        "Time in tensor-parallel communication.",
        "tensor",
        "tensor-parallel communication",
        "tensor links",
    )
    time_data: Number = _time(
        "Time in data-parallel communication not hidden.",
        "data",
        "data-parallel communication",
        "data links",
    )
    time_pipeline: Number = _time(
        "Time in sends between pipeline stages.", "sends", "sends between stages", "stage sends"
    )
    time_bubble: Number = _time(
        "Time that a stage idles while the pipeline fills.",
        "bubble",
        "the pipeline bubble",
        "bubble",
    )
    flops: Number = quantity("FLOP", "Arithmetic of one accelerator in one step.")
    mfu: Number = quantity(
        "1", "Model FLOP utilisation: matrix FLOP the model needs over peak.", better="higher"
    )
    training_days: Number = quantity("day", "Time of the whole training.", label="days of training")
    tokens_per_second: Number = quantity(
        "token/s", "Tokens trained on a second by one accelerator.", better="higher"
    )
