"""The envelope of what was measured: plans outside of it have the interval of no measured kind.

Source: the rows under jaxroof/validation (``jaxroof validate``), from which a test derives the
limits; docs/models/training_step_today.md, section 12.
"""

from collections.abc import Iterator

from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number

MOST_GPUS = 16384.0  # accelerators: Llama 3.1 405B on H100s (papers_and_automodel)
LONGEST_SEQUENCE = 1048576.0  # tokens: Llama 3 8B on H100s (nemo_releases)
WIDEST_TENSOR = 8.0  # ranks of a tensor group in one fast domain, on any chip


def inside(gpus: Number, tensor: Number, sequence: Number, fast_domain: Number) -> Number:
    """Return 1 for plans within the extent of what was measured, else 0.

    Assumes: a tensor group that leaves its fast domain was not measured with messages that
    overlap (four runs of vTrain on A100s, without overlap, are all there are).
    Units: counts [1], sequence [token] -> [1].
    Source: the rows under jaxroof/validation.

    >>> [float(inside(gpus, 8.0, 8192.0, 8.0)) for gpus in (16384.0, 16385.0)]
    [1.0, 0.0]
    >>> [float(inside(64.0, tensor, 8192.0, 4.0)) for tensor in (4.0, 8.0)]
    [1.0, 0.0]
    """
    narrow = (tensor <= fast_domain) & (tensor <= WIDEST_TENSOR)
    measured = (gpus <= MOST_GPUS) & (sequence <= LONGEST_SEQUENCE) & narrow
    return where(measured, 1.0, 0.0)


def reasons_outside(
    gpus: float, tensor: float, sequence: float, fast_domain: float
) -> Iterator[str]:
    """Yield in words what of a plan was never measured.

    >>> list(reasons_outside(20480.0, 8.0, 8192.0, 8.0))
    ['20,480 accelerators (measured: up to 16,384)']
    """
    if gpus > MOST_GPUS:
        yield f"{gpus:,.0f} accelerators (measured: up to {MOST_GPUS:,.0f})"
    if sequence > LONGEST_SEQUENCE:
        yield f"sequences of {sequence:,.0f} tokens (measured: up to {LONGEST_SEQUENCE:,.0f})"
    if tensor > fast_domain:
        yield f"tensor groups of {tensor:,.0f} over fast domains of {fast_domain:,.0f}"
    elif tensor > WIDEST_TENSOR:
        yield f"tensor groups of {tensor:,.0f} (measured: up to {WIDEST_TENSOR:,.0f})"
