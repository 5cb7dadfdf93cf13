"""How far a predicted step time is to be trusted: half widths of its interval by regime.

Source: docs/models/training_step_today.md, section 12; docs/models/layers_2026.md, section 8.
"""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.rates import chip_of
from jaxroof.formulas.arithmetic import exp, larger, smaller, where
from jaxroof.records import Number, value_or

LEVEL = 80  # per cent of measurements inside an interval


class Regime(NamedTuple):
    """A kind of run, and the half widths of ln(time) that hold 50, 80, 90 and 95 % of them."""

    words: str
    half_widths: tuple[float, float, float, float]


WORDS = (  # of each regime, one word
    *("dense_16_bit", "dense_8_or_4_bit", "experts", "not_calibrated"),
    *("hybrid", "not_dense_not_calibrated", "LoRA_not_calibrated"),
    *("maxtext_dense", "maxtext_experts", "maxtext_dense_not_measured"),
    "maxtext_experts_not_measured",
)
LEVELS = (50, 80, 90, 95)
ROUNDING = 1e-9  # of a half width
NORMAL = statistics.NormalDist()
_below = np.vectorize(NORMAL.cdf, otypes=[np.float64])
EXPERTS = (0.10, 0.20, 0.31, 0.40)
REGIMES = (  # quantiles of |ln(predicted / measured)|, one source or one model left out of the fit
    Regime("dense, 16 bit", (0.048, 0.116, 0.159, 0.209)),
    Regime("dense, 8 or 4 bit", (0.048, 0.123, 0.166, 0.218)),
    Regime("experts", EXPERTS),
    Regime("not calibrated", (0.15, 0.25, 0.30, 0.35)),
    Regime("hybrid", EXPERTS),  # Mamba-2 layers beside attention, without experts
    Regime("not dense, not calibrated", (0.15, 0.30, 0.40, 0.50)),  # believed
    # ten runs of two sources: quantiles 0.22, 0.24, 0.25 and 0.25, and believed to be wider
    Regime("LoRA, not calibrated", (0.21, 0.28, 0.35, 0.45)),
    # under MaxText on TPUs: whole families of chip and model left out of the fit
    Regime("MaxText, dense", (0.071, 0.111, 0.137, 0.160)),
    Regime("MaxText, experts", (0.183, 0.486, 0.658, 0.676)),
    Regime("MaxText, dense, not measured", (0.15, 0.25, 0.30, 0.35)),  # believed, as of GPUs
    Regime("MaxText, experts, not measured", (0.30, 0.60, 0.70, 0.75)),  # believed
)
# at 80 %, where runs of the same software are known
WITHIN_SOURCE = (0.085, 0.085, 0.13, 0.085, 0.13, 0.26, 0.13, 0.07, 0.13, 0.085, 0.26)
MAXTEXT = 7  # the first place of MaxText's regimes: dense, experts, and both where not measured


class Interval(NamedTuple):
    """The bounds between which 80 % of measurements of a step lie, and whose errors they have."""

    low: Number  # [s]
    high: Number  # [s]
    place: Number  # in ``REGIMES``


def regime(
    model: Architecture,
    low_precision: Number,
    calibrated: Number,
    rank: Number | None = None,
) -> Number:
    """Return the place in ``REGIMES`` of runs of a model; numbers above 0 mean yes.

    Arguments: whether layer products have inputs of 8 or 4 bits, whether runs like it took part in
    the fit: of the software, of the chip, without offload, inside the envelope of what was
    measured; the rank of adapters, if there are any.

    Assumes: no run of gated DeltaNet, of Kimi Delta Attention, of an indexer or with adapters took
    part in it; of adapters in layers that are not dense none was measured.
    """
    routed, hybrid = model.experts > 0.0, model.mamba_layers > 0.0
    dense = where(low_precision > 0.0, 1.0, 0.0)
    known = where(routed, 2.0, where(hybrid, 4.0, dense))
    found = where(calibrated > 0.0, known, where(routed | hybrid, 5.0, 3.0))
    found = where(model.delta_layers + model.kda_layers + model.index_layers > 0.0, 5.0, found)
    if rank is None:
        return found
    dense = (found < 1.5) | (found == 3.0)
    return where(rank > 0.0, where(dense, 6.0, 5.0), found)


def half_width(place: Number) -> Number:
    """Return the half width of ln(time) in a regime at 80 %."""
    return _of_regime(place, [one.half_widths[LEVELS.index(LEVEL)] for one in REGIMES])


def half_width_within_source(place: Number) -> Number:
    """Return the half width at 80 % where a run of the same software and chip is known.

    Assumes: the prediction was divided by the ratio of predicted to measured of such runs.
    """
    return _of_regime(place, WITHIN_SOURCE)


def _of_regime(place: Number, values: Sequence[Number]) -> Number:
    found = values[0]
    for number, value in enumerate(values[1:]):
        found = where(place > number + 0.5, value, found)
    return found


class OwnRuns(NamedTuple):
    """Half widths of ln(time) at 80 % that one's own runs support, by kind; 0 without such runs."""

    dense_16_bit: Number
    dense_8_or_4_bit: Number
    experts: Number


def interval(inputs: TrainingInputs, step_time: Number) -> Interval:
    """Return the bounds between which 80 % of measured runs lie.

    low = t exp(-h), high = t exp(h)

    Assumes: offload was not measured, nor was an uneven load of experts, nor was a chip whose
    constants are another's, nor what lies outside the envelope of measured runs. What runs of one's
    own support goes before the half width of the regime for plans of their kind alone, where runs
    like them were measured.
    """
    chip, software, plan = chip_of(inputs), inputs.software, inputs.plan
    assert plan is not None
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    extent = inside(gpus, plan.tensor, inputs.model.sequence, inputs.system.innermost)
    measured = where(plan.offload_optimizer > 0.0, 0.0, extent)
    measured = where(inputs.activations.routing_imbalance > 1.0, 0.0, measured)
    few_bits = larger(software.fp8, software.fp4)
    own = (chip.own_dense_16_bit, chip.own_dense_8_or_4_bit, chip.own_experts, 0.0, 0.0, 0.0, 0.0)
    rank = value_or(inputs.lora_rank, None)
    theirs = _of_regime(regime(inputs.model, few_bits, 1.0, rank), own) * measured
    place = regime(inputs.model, few_bits, larger(chip.calibrated * measured, theirs), rank)
    half = where(theirs > 0.0, theirs, half_width(place))
    return Interval(step_time * exp(-half), step_time * exp(half), place)


def of_own_runs(low: Any, high: Any, place: Any) -> Any:
    """Return whether bounds at 80 % are those of one's own runs, not those of their regime."""
    width = np.log(np.asarray(high) / np.asarray(low))
    return np.abs(width - 2.0 * np.asarray(half_width(place))) > ROUNDING


class Uncertain(NamedTuple):
    """A step time, the half width of its interval at 80 %, and its place in ``REGIMES``."""

    time: Number  # [s]
    half: Number
    place: Number


def chance_sooner(one: Uncertain, other: Uncertain) -> Any:
    """Return the probability that one step is sooner than another, both run by one software.

    P = Phi(1.2816 ln(T' / T) / sqrt(h^2 + h'^2 - 2 min(h^2 - w^2, h'^2 - w'^2)))

    Assumes: ln(measured / predicted) is normal. w is its half width within a source, where runs of
    the same software are known; what the whole one has more is the software's error, the same for
    both steps as far as both have it, and cancels. Of 4,079 pairs of packaged rows of one source
    and model on different chips or at different precisions, 84 % lie inside the 80 % of this.

    >>> round(float(chance_sooner(Uncertain(9.0, 0.116, 0.0), Uncertain(10.0, 0.116, 0.0))), 2)
    0.87
    """
    whole = [each.half**2 for each in (one, other)]
    within = [half_width_within_source(each.place) ** 2 for each in (one, other)]
    software = [larger(h - w, 0.0) for h, w in zip(whole, within, strict=True)]
    spread = np.sqrt(sum(whole) - 2.0 * smaller(*software)) / NORMAL.inv_cdf(0.9)
    return _below(np.log(other.time / one.time) / spread)


# ---- The envelope of what was measured -----------------------------------------------------------

MOST_GPUS = 16384.0  # accelerators: Llama 3.1 405B on H100s (papers_and_automodel)
LONGEST_SEQUENCE = 1048576.0  # tokens: Llama 3 8B on H100s (nemo_releases)
WIDEST_TENSOR = 8.0  # ranks of a tensor group in one fast domain, on any chip


def inside(gpus: Number, tensor: Number, sequence: Number, fast_domain: Number) -> Number:
    """Return 1 for plans within the extent of what was measured, else 0.

    Plans outside of it have the interval of no measured kind.

    Assumes: a tensor group that leaves its fast domain was not measured with messages that
    overlap (four runs of vTrain on A100s, without overlap, are all there are).
    """
    narrow = (tensor <= fast_domain) & (tensor <= WIDEST_TENSOR)
    measured = (gpus <= MOST_GPUS) & (sequence <= LONGEST_SEQUENCE) & narrow
    return where(measured, 1.0, 0.0)


KINDS = {  # layers of a model that were counted and never measured
    "delta_layers": "gated DeltaNet",
    "kda_layers": "Kimi Delta Attention",
    "index_layers": "sparse attention",
}


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
