"""Seconds of the routed experts of one layer, and of the exchange that feeds them.

Source: docs/models/training_step_today.md, section 11.
"""

from typing import Any

from jaxroof.estimators.training.layer_kernels import Both
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.kernel_times import (
    grouped_product,
    grouped_weight_gradient,
    matmul,
    stream,
)
from jaxroof.formulas.ring_times import all_to_all, distinct_targets
from jaxroof.records import Number


def routed_experts(model: Any, tokens: Number, expert: Number, rates: Rates) -> Both:
    """Return the seconds of router, permutation and the experts of a rank, evenly loaded.

    Arguments: ``tokens`` of a rank, those of its tensor group shared.
    """
    hidden, width = model.hidden, model.expert_feedforward
    rows = tokens * model.active_experts
    local = larger(model.experts / expert, 1.0)
    unit, plain = rates.layer, rates.plain
    unit = unit._replace(rate=unit.rate * rates.constants.grouped)

    def product(columns: Number, inner: Number) -> Number:
        return grouped_product(
            rows, columns, inner, local, rates.constants.expert_rows, unit, rates.read
        )

    def gradient(columns: Number, inner: Number) -> Number:
        return grouped_weight_gradient(rows, columns, inner, local, unit, rates.read)

    move = rates.experts * stream(rates.permute * rows * hidden, 4.0, plain)
    scores = stream(24.0 * tokens * model.experts, 8.0, plain)
    router = matmul(tokens, model.experts, hidden, plain, 2.0, 2.0) + scores
    routed_back = (
        matmul(tokens, hidden, model.experts, plain, 2.0, 2.0)
        + matmul(hidden, model.experts, tokens, plain, 2.0, 8.0)
        + scores
    )
    low = where(rates.low > 0.0, 1.0, 0.0)
    forward = (
        product(2.0 * width, hidden)
        + product(hidden, width)
        + router
        + move
        + stream(6.0 * rows * width, 1.0, plain)
        + low * stream(rates.cast * rows * (hidden + width), 2.0, plain)
    )
    backward = (
        product(hidden, 2.0 * width)
        + product(width, hidden)
        + gradient(2.0 * width, hidden)
        + gradient(hidden, width)
        + routed_back
        + move
        + stream(10.0 * rows * width, 1.0, plain)
        + low * stream(rates.cast * rows * (hidden + 2.0 * width), 2.0, plain)
    )
    return Both(forward, backward)


def expert_exchange(
    model: Any,
    tokens: Number,
    expert: Number,
    rates: Rates,
    software: Software,
) -> Number:
    """Return the seconds of dispatch and return of one layer, in one direction."""
    inside = smaller(rates.fast_domain, expert)
    nodes = expert / inside
    once = software.dedup > 0.0
    ranks, domains = (
        where(once, distinct_targets(places, model.active_experts), model.active_experts)
        for places in (expert, nodes)
    )
    each = 2.0 * tokens * model.hidden
    time = all_to_all(
        each * ranks, each * domains, expert, inside, rates.links, rates.constants.scatter_rate
    )
    return rates.experts * (2.0 * time * rates.exchange + rates.sync)
