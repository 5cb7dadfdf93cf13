"""The published bubble of every schedule."""

from jaxroof.errors import unknown
from jaxroof.formulas.arithmetic import larger, smaller
from jaxroof.records import Number
from jaxroof.schedules import NAMES


def bubble(
    name: str,
    devices: Number,
    microbatches: Number,
    forward: Number,
    backward: Number,
    weight: Number,
    chunks: Number = 1.0,
) -> Number:
    """Return the bubble: the step time minus the work of one device, T - M (F + B + W).

    gpipe, 1f1b, 1f1b-greedy  (P - 1) (F + B + W)
    interleaved               (P - 1) (F + B + W) / v
    zb-h1                     (P - 1) (F + B) - (min(M, P) - 1) min(F, B, W)
    dualpipe                  (P / 2 - 1) (F + max(F, B) + max(B - W, 0))

    Papers print (P - 1) (F + B - W) for zb-h1, which holds for M >= P, W <= F and W <= B, and
    (P / 2 - 1) (F&B + B' - 3 W) for dualpipe, with the whole backward B' = B + W and a pair that
    takes F&B = F + B', which holds for F <= B and W <= B. Outside these ranges, the formulas
    above are the times of these orders.

    Assumes: equal stages, free sends; T is from the start of the first visit to the end of the
    last, with weight gradients and without the optimizer.
    Arguments: seconds of one microbatch on one device, over all stages of that device: forward F,
    input gradient B, weight gradient W (0 where B is the whole backward).
    Units: devices P, microbatches M, chunks v [1]; forward, backward, weight [s] -> [s].
    Source: Huang et al. 2018 (arXiv 1811.06965), section 2.3; Narayanan et al. 2021 (arXiv
    2104.04473), sections 2.2.1 and 2.2.2; Qi et al. 2023 (arXiv 2401.10241), section 2.3;
    DeepSeek-AI 2024 (arXiv 2412.19437), Table 2.
    Raises: InputError for a schedule that has no closed form.

    >>> float(bubble("1f1b", 4.0, 8.0, 1.0, 1.0, 1.0))
    9.0
    >>> float(bubble("zb-h1", 4.0, 8.0, 1.0, 1.0, 1.0))
    3.0
    """
    if name == "zb-h1":
        least = smaller(smaller(forward, backward), weight)
        filled = smaller(microbatches, devices) - 1.0
        return (devices - 1.0) * (forward + backward) - filled * least
    if name == "dualpipe":
        late = forward + larger(forward, backward) + larger(backward - weight, 0.0)
        return (devices / 2.0 - 1.0) * late
    if name not in NAMES:
        raise unknown("", name, "schedule", NAMES)
    parts = chunks if name == "interleaved" else 1.0
    return (devices - 1.0) * (forward + backward + weight) / parts
