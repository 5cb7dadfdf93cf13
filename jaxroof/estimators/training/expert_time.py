"""Seconds of the routed experts of one layer, and of the exchange that feeds them.

Source: docs/models/training_step_today.md, section 11.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.product_times import Both, Directions
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.software import Software
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.formulas.kernel_times import (
    grouped_product,
    grouped_weight_gradient,
    matmul,
    stream,
)
from jaxroof.formulas.ring_times import all_to_all, distinct_targets, gather
from jaxroof.records import Number


class ExpertTime(NamedTuple):
    """Seconds of the routed experts of a layer that routes, by operation."""

    up: Directions
    down: Directions
    router: Both
    scores: Number  # of the router, in either direction
    permutation: Number  # in either direction
    activation: Both
    cast: Both


def routed_experts(model: MemoryModel, tokens: Number, plan: Any, rates: Rates) -> ExpertTime:
    """Return the seconds of router, permutation and the experts of a rank, evenly loaded.

    Assumes: the ranks that share an expert have its width in parts and one another's tokens.
    Arguments: ``tokens`` of a rank, those of its tensor group shared.
    """
    expert, shared = plan.expert, plan.expert_tensor
    hidden, width = model.hidden, model.expert_feedforward / shared
    gates = 1.0 + model.gated
    routed = tokens * model.active_experts
    rows = shared * routed
    local = larger(model.experts / expert, 1.0)
    unit, plain = rates.layer, rates.plain
    unit = unit._replace(rate=unit.rate * rates.constants.grouped)

    def product(columns: Number, inner: Number) -> Number:
        return grouped_product(
            rows, columns, inner, local, rates.constants.expert_rows, unit, rates.read
        )

    def directions(columns: Number, inner: Number) -> Directions:
        return Directions(
            product(columns, inner),
            product(inner, columns),
            grouped_weight_gradient(rows, columns, inner, local, unit, rates.read),
        )

    low = where(rates.low > 0.0, 1.0, 0.0)
    return ExpertTime(
        up=directions(gates * width, hidden),
        down=directions(hidden, width),
        router=Both(
            matmul(tokens, model.experts, hidden, plain, 2.0, 2.0),
            matmul(tokens, hidden, model.experts, plain, 2.0, 2.0)
            + matmul(hidden, model.experts, tokens, plain, 2.0, 8.0),
        ),
        scores=stream(24.0 * tokens * model.experts, 8.0, plain),
        permutation=rates.experts * stream(rates.permute * routed * hidden, 4.0, plain),
        activation=Both(
            stream((2.0 + 2.0 * gates) * rows * width, 1.0, plain),
            stream((2.0 + 4.0 * gates) * rows * width, 1.0, plain),
        ),
        cast=Both(
            low * stream(rates.cast * rows * (hidden + width), 2.0, plain),
            low * stream(rates.cast * rows * (hidden + gates * width), 2.0, plain),
        ),
    )


def whole_experts(time: ExpertTime) -> Both:
    """Return the seconds of all operations of the routed experts."""
    up, down, router, scores, permutation, activation, cast = time
    return Both(
        up.forward
        + down.forward
        + (router.forward + scores)
        + permutation
        + activation.forward
        + cast.forward,
        up.inputs
        + down.inputs
        + up.weights
        + down.weights
        + (router.backward + scores)
        + permutation
        + activation.backward
        + cast.backward,
    )


def expert_exchange(
    model: MemoryModel,
    tokens: Number,
    plan: Any,
    rates: Rates,
    software: Software,
) -> Number:
    """Return the seconds of dispatch and return of one layer, in one direction.

    Assumes: ranks that share an expert are neighbours, gather what each was sent and scatter the
    sums of what they return; nothing was measured of that, and with one rank it takes no time.
    """
    expert, shared = plan.expert, plan.expert_tensor
    inside = smaller(larger(rates.fast_domain / shared, 1.0), expert)
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
    gathered = gather(
        each * model.active_experts * shared,
        shared,
        smaller(rates.fast_domain, shared),
        rates.links,
    )
    return rates.experts * (2.0 * (time * rates.exchange + gathered) + rates.sync)
