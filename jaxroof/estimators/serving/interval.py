"""How far a predicted server is to be trusted: half widths of its intervals by regime.

Source: docs/models/serving.md, section 12.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.serving_software import MEASURED, ServingSoftware
from jaxroof.estimators.serving.inputs import ServingInputs
from jaxroof.formulas.arithmetic import chosen, larger, where, whole
from jaxroof.records import Number

LEVEL = 80  # per cent of measurements inside an interval
LEVELS = (50, 80, 90, 95)


class Regime(NamedTuple):
    """A kind of server, and the half widths of ln(time) that hold 50, 80, 90 and 95 % of them."""

    words: str
    half_widths: tuple[float, float, float, float]


WORDS = (  # of each regime, one word
    *("dense", "experts_measured", "experts_not_measured", "disaggregated"),
    *("dense_not_calibrated", "experts_not_calibrated"),
    "no_graphs_AMD_of_2024_or_TPU",
)
DENSE, SAME, OTHER, POOL, DENSE_START, EXPERTS_START, ROUGH = map(float, range(len(WORDS)))
REGIMES = (  # of a step, tpot and latency: whole families of model and chip left out of the fit
    Regime("dense", (0.08, 0.17, 0.24, 0.36)),
    Regime("experts, the same model measured", (0.09, 0.19, 0.32, 0.73)),
    Regime("experts, model or plan not measured", (0.22, 0.44, 0.54, 0.62)),
    # set on the hidden rows, so that their coverage is no test
    Regime("disaggregated decode pool", (0.18, 0.36, 0.56, 0.72)),
    Regime("dense, not calibrated", (0.13, 0.24, 0.34, 0.48)),
    Regime("experts, not calibrated", (0.23, 0.47, 0.58, 0.71)),
    # engines without graphs, AMD of 2024; TPUs are believed to be no better known
    Regime("AMD of 2024, no graphs, TPU", (0.24, 0.83, 1.2, 1.4)),
)
RATE = {  # of tokens a second at maximum load, by whether a model has experts
    False: (0.13, 0.27, 0.44, 0.74),
    True: (0.26, 0.45, 0.56, 0.69),
}
TTFT = (0.29, 0.65, 0.93, 1.2)  # aggregated, of software whose times to the first were fitted
TTFT_ELSE = tuple(2.0 * half for half in TTFT)  # believed: pools, other software, long queues
WITHIN_SOURCE = (0.10, 0.12, 0.14, 0.20, 0.10, 0.14, 0.36)  # at 80 %
MOST_BUSY = 0.8  # share of the time with prompts up to which times to the first were compared


def measured_model(model: Architecture, software: ServingSoftware) -> Any:
    """Return 1 for a model with experts that was measured with a software on such chips, else 0.

    >>> from jaxroof.catalog.lookup import architecture
    >>> from jaxroof.catalog.serving_software import serving_software
    >>> found = architecture("gpt-oss-120b")
    >>> float(measured_model(found, serving_software("vllm-2026", "h200-141-sxm")))
    1.0
    >>> float(measured_model(found, serving_software("sglang-2025", "h200-141-sxm")))
    0.0
    """
    found: Any = 0.0
    for place, (layers, hidden, experts) in enumerate(MEASURED.values()):
        like = (model.layers == layers) & (model.hidden == hidden) & (model.experts == experts)
        bits = whole(software.experts_measured, 2.0**place)
        bit = bits - 2.0 * whole(bits, 2.0)
        found = found + where(like, bit, 0.0)
    return found


def regime(inputs: ServingInputs, pool: bool = False) -> Number:
    """Return the place in ``REGIMES`` of a server, or of a decode pool.

    A pool is known no better than a server on the same software, a server with data-parallel
    attention no better than another model where no such server was measured.
    """
    model, software = inputs.model, inputs.software
    routed = model.experts > 0.0
    same = (measured_model(model, software) > 0.5) & _ranks_measured(inputs, pool)
    known = where(same, SAME, OTHER)
    found = where(routed, known, DENSE)
    start = where(routed, EXPERTS_START, DENSE_START)
    found = where(software.rough > 0.5, ROUGH, where(software.calibrated > 0.5, found, start))
    return where(half_width(found) > half_width(POOL), found, POOL) if pool else found


def _ranks_measured(inputs: ServingInputs, pool: bool) -> Any:
    """Return whether a plan has one attention rank, or servers with several were measured."""
    ranks = 1.0 if pool or inputs.plan is None else inputs.plan.data
    return (inputs.software.data_measured > 0.5) | (ranks < 1.5)


def half_width(place: Number, level: int = LEVEL) -> Number:
    """Return the half width of ln(time) in a regime."""
    return chosen(place, [one.half_widths[LEVELS.index(level)] for one in REGIMES])


def half_width_within_source(place: Number) -> Number:
    """Return the half width at 80 % between runs of one model, chip and software.

    Assumes: about the middle of what was left of visible families after their median ratio.
    """
    return chosen(place, WITHIN_SOURCE)


def token_half_width(inputs: ServingInputs, pool: bool = False) -> Number:
    """Return the half width of ln(time of an output token): t exp(-h) to t exp(h) hold 80 %.

    Assumes: what one's own runs support, of dense models or of those with experts, goes before,
    unless they and all others are without the plan's data-parallel attention.
    """
    software = inputs.software
    theirs = where(inputs.model.experts > 0.0, software.own_experts, software.own_dense)
    own = (theirs > 0.0) & _ranks_measured(inputs, pool)
    return where(own, theirs, half_width(regime(inputs, pool)))


def first_half_width(
    inputs: ServingInputs, busy: Number, pool: bool = False, level: int = LEVEL
) -> Number:
    """Return the half width of ln(time to the first token).

    ``busy`` is the share of the time with prompts; ``pool``: of a prefill pool.
    Assumes: pools, software whose times to the first were not fitted, and queues above a share of
    0.8 were not compared; they have twice the half width, believed.
    """
    fitted = inputs.software.ttft_fitted * inputs.software.calibrated
    known = (fitted > 0.5) & (busy < MOST_BUSY) & (not pool)
    at = LEVELS.index(level)
    return where(known, TTFT[at], TTFT_ELSE[at])


def rate_half_width(inputs: ServingInputs, level: int = LEVEL) -> Number:
    """Return the half width of ln(tokens a second) at maximum load.

    Assumes: software that was not calibrated, and rough ones, are known no better than their steps.
    """
    at = LEVELS.index(level)
    routed = where(inputs.model.experts > 0.0, RATE[True][at], RATE[False][at])
    return larger(routed, half_width(regime(inputs), level))


WHAT_IFS = {  # what of a server was never compared with a measured one, where it is above 0
    "workload.drafts": "speculation ({:g} drafted tokens a step)",
    "workload.hit": "hits of a prefix cache ({:.3g} of a prompt)",
    "software.overlap": "an exchange of experts hidden by two half batches",
    "software.forward": "one copy a domain in the exchange of experts",
}


def reasons_outside(asked: Mapping[str, float], pipeline: float = 1.0) -> Iterator[str]:
    """Yield in words what of a server, by path, was never compared with a measured one.

    >>> list(reasons_outside({"workload.drafts": 3.0}, pipeline=2.0))
    ['speculation (3 drafted tokens a step)', '2 pipeline stages']
    """
    given = {path: asked.get(path, 0.0) for path in WHAT_IFS}
    yield from (WHAT_IFS[path].format(value) for path, value in given.items() if value > 0.0)
    if pipeline > 1.0:
        yield f"{pipeline:g} pipeline stages"
