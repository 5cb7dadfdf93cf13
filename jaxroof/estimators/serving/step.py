"""One step of a serving engine: twelve parts, for a batch that decodes and a chunk of prompts.

Source: docs/models/serving.md, sections 2 to 4; letters as there.
"""

import math
from typing import Any, NamedTuple

from jaxroof.catalog.serving_software import ServingSoftware
from jaxroof.estimators.serving.inputs import ServingInputs, Split
from jaxroof.estimators.serving.model_numbers import Numbers, keys, numbers
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import ceiling, chosen, expm1, larger, log, log1p, smaller, where
from jaxroof.formulas.smooth import NOTHING, smooth_larger, smooth_smaller
from jaxroof.records import Number, value_or

WIDTHS = (2.0, 1.0, 0.5625, 0.53125, 0.53125)  # [B] of a weight in each of FORMATS
CERTAIN = 1.0 - 1e-12  # the largest share of experts or domains that a token meets
OUT, BACK = 1.0, 2.0  # [B] of a number that goes to its expert, and that comes back


class Machine(NamedTuple):
    """Rates of one accelerator that software reaches, and bytes of weights in their formats."""

    plain: Number  # [FLOP/s] in 16 bits
    attention: Number  # [FLOP/s] of its projections
    mlp: Number  # [FLOP/s]
    scores: Number  # [FLOP/s] of scores and values
    weights: Number  # [B/s] of weights that stream
    cache: Number  # [B/s] of a paged cache
    domain: Number  # S, accelerators that share the fast links
    fast: Number  # [B/s] of an all-reduce inside
    exchange: Number  # [B/s] of an exchange inside
    slow: Number  # [B/s] between domains
    attention_width: Number  # [B]
    mlp_width: Number  # [B]


class Parts(NamedTuple):
    """The seconds of one step, part by part."""

    attention: Number
    cache: Number
    scores: Number
    mlp: Number
    experts: Number
    elementwise: Number
    all_reduce: Number
    exchange: Number
    head: Number
    launch: Number
    pipeline: Number
    host: Number


class Step(NamedTuple):
    """The seconds of one step: its parts, and their sum, which is all that a search reads."""

    parts: Parts
    total: Number


def machine(inputs: ServingInputs) -> Machine:
    """Return the rates that work runs at: peak of the format, times the software's share.

    Where a machine states no rate of a format, or between domains, a rule refuses the plans that
    need it; another of its rates then stands here, which nothing answered depends on.
    """
    system, software, precision = inputs.system, inputs.software, inputs.precision
    plain = system.matrix_flops
    fp8 = value_or(system.fp8_flops, plain)
    rates = (plain, fp8, value_or(system.fp4_flops, plain), plain, fp8)
    fast = system.fast_bandwidth
    attention, mlp = precision.attention_format, precision.mlp_format
    return Machine(
        plain=plain * software.matrix,
        attention=chosen(attention, rates) * software.matrix,
        mlp=chosen(mlp, rates) * software.matrix,
        scores=plain * software.attend,
        weights=system.hbm_bandwidth * software.hbm,
        cache=system.hbm_bandwidth * software.cache,
        domain=system.fast_domain,
        fast=fast * software.link,
        exchange=fast * software.exchange,
        slow=value_or(system.slow_bandwidth, fast) * software.far,
        attention_width=chosen(attention, WIDTHS),
        mlp_width=chosen(mlp, WIDTHS),
    )


# ---- Elementary times ---------------------------------------------------------------------------


def product(tokens: Number, rate: Number, width: Number, hbm: Number) -> Number:
    """Return the seconds of a product for each of its weights: smax(2 (m + tile) / rate, s / hbm).

    ``tokens`` include those that the ends of the product are worth.
    """
    return smooth_larger(2.0 * tokens / rate, width / hbm)


def touched(model: Numbers, tokens: Number, skew: Number) -> Number:
    """Return the experts of a layer that any of the tokens meets.

    E (1 - exp(-alpha min(M, 1) - ln(1 + alpha skew max(M - 1, 0)) / skew)),
    alpha = -ln(1 - k / E)
    """
    alpha = -log1p(-smaller(model.active / model.experts, CERTAIN))
    more = log1p(alpha * skew * larger(tokens - 1.0, 0.0)) / skew
    return -model.experts * expm1(-alpha * smaller(tokens, 1.0) - more)


def all_reduce(moved: Number, ranks: Number, machine: Machine, software: ServingSoftware) -> Number:
    """Return the seconds of an all-reduce over i ranks of a domain and o domains.

    2 (i - 1) / i y / fast + 2 (o - 1) / o (y / i) / slow + hop log2 i + hop_far log2 o
    """
    inside = smaller(ranks, machine.domain)
    outside = ranks / inside
    near = 2.0 * (inside - 1.0) / inside * moved / machine.fast
    far = 2.0 * (outside - 1.0) / outside * (moved / inside) / machine.slow
    hops = software.hop * log(inside) + software.hop_far * log(outside)
    return near + far + hops / math.log(2.0)


def exchange(
    moved: Number, ranks: Number, model: Numbers, machine: Machine, software: ServingSoftware
) -> Number:
    """Return the seconds of an exchange of experts, out and back.

    2 (exchange_latency + exchange_latency_far (1 - 1 / A)) + smax(out y / slow, in y / fast),
    over A domains of i ranks; 0 on one rank
    """
    inside = smaller(ranks, machine.domain)
    domains = ranks / inside
    leave, forward, active = 1.0 - 1.0 / domains, software.forward, model.active
    once = -domains * expm1(active * log1p(-smaller(1.0 / domains, CERTAIN)))
    out = (forward * once + (1.0 - forward) * active) * leave
    near = forward * (1.0 - 1.0 / inside) + (1.0 - forward) * (inside - 1.0) / ranks
    start = 2.0 * (software.exchange_latency + software.exchange_latency_far * leave)
    moving = smooth_larger(out * moved / machine.slow, active * near * moved / machine.exchange)
    return where(ranks > 1.0, start + moving, 0.0)


# ---- The step -----------------------------------------------------------------------------------


def step(
    inputs: ServingInputs,
    recipe: Recipe,
    split: Split,
    chunk: Number,
    batch: Number = 0.0,
    output: Number = 0.0,
) -> Step:
    """Return the seconds of one step, part by part.

    ``chunk`` tokens are of prompts; ``batch`` sequences decode 1 + g tokens each of an ``output``,
    in whose middle they are. Every part of a layer is stretched by ceil(L / p) p / L, since the
    fullest stage sets the pace.
    """
    model, chip, software = numbers(inputs.model, recipe), machine(inputs), inputs.software
    tensor, data, stages = split.tensor, split.data, split.pipeline
    decoding = batch * (1.0 + inputs.workload.drafts)
    tokens = (decoding + chunk) / (data * stages)  # m, of an attention rank
    stretch = ceiling(model.layers, stages) * stages / model.layers
    every, dense, routed = (n * stretch for n in (model.layers, model.dense, model.routed))
    ends, hbm = tokens + software.tile, chip.weights
    heads = decoding / (data * stages) + smaller(chunk, 1.0) + software.tile
    projected = product(ends, chip.attention, chip.attention_width, hbm)
    attention = model.attention / tensor * projected
    cache, scores = _scores(inputs, model, chip, split, chunk, batch, output)
    experts = _experts(model, chip, software, split, tokens * data)
    spread = where(data > 1.0, 1.0, 0.0)
    exchanged = exchange((OUT + BACK) * tokens * model.hidden, tensor * data, model, chip, software)
    beside = attention + cache + scores + experts * model.routed / model.layers
    hidden = software.overlap * smooth_smaller(exchanged + NOTHING, beside + NOTHING)
    reduced = all_reduce(2.0 * tokens * model.hidden, tensor, chip, software)
    device = {
        "attention": every * attention,
        "cache": every * cache,
        "scores": every * scores,
        "mlp": (dense * model.mlp + routed * model.shared)
        / tensor
        * product(ends, chip.mlp, chip.mlp_width, hbm),
        "experts": routed * experts,
        "elementwise": stretch * _elementwise(model, chip, software, split, tokens),
        "all_reduce": (every + dense + routed * (1.0 - spread)) * reduced,
        "exchange": routed * spread * (exchanged - hidden),
        "head": model.hidden * model.vocabulary / tensor * product(heads, chip.plain, 2.0, hbm),
        "launch": every * (software.layer + model.latent * software.latent_layer)
        + routed * software.expert_layer,
    }
    computed = sum(device.values())
    late = smooth_larger(computed, model.layers * software.host_layer) - computed
    host = stages * software.host_step + software.request * batch / data
    sent = _sent(model, chip, software, split, tokens)
    parts = Parts(**device, pipeline=sent, host=late + host)
    return Step(parts, sum(parts[1:], parts[0]))


def _scores(
    inputs: ServingInputs,
    model: Numbers,
    chip: Machine,
    split: Split,
    chunk: Number,
    batch: Number,
    output: Number,
) -> tuple[Number, Number]:
    """Return the seconds of a layer's scores and values, of the batch and of prompts.

    smax(b / (D p) K_b w cache_width / (min(t, kappa') cache), b (1 + g) / (D p) K_b q_d / (t rate))
    and c / (D p) K_c q_p / (t rate), K_b = keys(I, I + O), K_c = keys(h I, I)
    """
    work = inputs.workload
    ranks, rate = split.data * split.pipeline, chip.scores * split.tensor
    seen = batch / ranks * keys(model, work.prompt, work.prompt + output)
    read = seen * model.cached * inputs.precision.cache_width
    shards = smaller(split.tensor, model.cache_shards)
    computed = (1.0 + work.drafts) * seen * model.decode_flops / rate
    new = chunk / ranks * keys(model, work.hit * work.prompt, work.prompt)
    prompts = new * model.prompt_flops / rate
    return smooth_larger(read / (shards * chip.cache), computed), prompts


def _experts(
    model: Numbers, chip: Machine, software: ServingSoftware, split: Split, tokens: Number
) -> Number:
    """Return the seconds of the routed experts of a layer, of the fullest rank.

    smax(2 (M k + tile touched) P_e / (t D) iota / rate, touched P_e s / (t D) iota / hbm)
    """
    fullest = 1.0 + split.whole * (software.imbalance - 1.0)
    met = touched(model, tokens, software.skew)
    each = model.expert / (split.tensor * split.data) * fullest
    computed = 2.0 * (tokens * model.active + software.tile * met) * each / chip.mlp
    read = met * each * chip.mlp_width / chip.weights
    return smooth_larger(computed, read)


def _elementwise(
    model: Numbers, chip: Machine, software: ServingSoftware, split: Split, tokens: Number
) -> Number:
    """Return the seconds of norms, rotation and activations of all layers.

    m (2 L elementwise h + 2 G (L_d f + L_e (k f_e + f_s)) / t) / hbm
    """
    routed = model.active * model.expert_feedforward + model.shared_feedforward
    inner = model.dense * model.feedforward + model.routed * routed
    vectors = model.layers * software.elementwise * model.hidden
    return tokens * 2.0 * (vectors + model.matrices * inner / split.tensor) / chip.weights


def _sent(
    model: Numbers, chip: Machine, software: ServingSoftware, split: Split, tokens: Number
) -> Number:
    """Return the seconds of messages between stages; 0 with one stage."""
    moved = 2.0 * tokens * model.hidden / split.tensor
    far, near = software.hop_far + moved / chip.slow, software.hop + moved / chip.fast
    apart = where(split.accelerators > chip.domain, far, near)
    return where(split.pipeline > 1.0, split.pipeline * apart, 0.0)


# ---- Parts that a search evaluates on distinct rows ---------------------------------------------


def decode(
    inputs: Any, recipe: Recipe, *, tensor: Any, data: Any, pipeline: Any, whole: Any, batch: Any
) -> Step:
    """Return a step of a batch without prompts."""
    split = Split(tensor=tensor, data=data, pipeline=pipeline, whole=whole)
    return step(inputs, recipe, split, 0.0, batch, inputs.workload.output)


def prompt(
    inputs: Any, recipe: Recipe, *, tensor: Any, data: Any, pipeline: Any, whole: Any, chunk: Any
) -> Step:
    """Return a step of prompts alone."""
    split = Split(tensor=tensor, data=data, pipeline=pipeline, whole=whole)
    return step(inputs, recipe, split, chunk)


def both(
    inputs: Any,
    recipe: Recipe,
    *,
    tensor: Any,
    data: Any,
    pipeline: Any,
    whole: Any,
    batch: Any,
    chunk: Any,
) -> Step:
    """Return a step of a batch with prompts."""
    split = Split(tensor=tensor, data=data, pipeline=pipeline, whole=whole)
    return step(inputs, recipe, split, chunk, batch, inputs.workload.output)
