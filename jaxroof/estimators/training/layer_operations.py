"""One layer of a training step, operation by operation: seconds and FLOP.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from typing import Any, NamedTuple

from jaxroof.estimators.training.expert_time import ExpertTime
from jaxroof.estimators.training.layer_kernels import attention_flops
from jaxroof.estimators.training.layer_time import limited, with_fsdp, without_host
from jaxroof.estimators.training.layer_work import LayerWork, layer_work
from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.plan_time import Timed
from jaxroof.estimators.training.product_times import (
    Both,
    Directions,
    Product,
    Products,
    flops,
    seconds,
)
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.recipe import modules_of, repeats
from jaxroof.records import Number, quantity, record


class Operation(NamedTuple):
    """Seconds and FLOP of one operation, of one layer and microbatch on one accelerator."""

    time: Both
    flops: Both = Both(0.0, 0.0)


Operations = dict[str, Operation]


@record
class OperationReport:
    """One operation of an average layer, for one microbatch on one accelerator."""

    time_forward: Number = quantity("s", "Time of the forward pass.")
    time_backward: Number = quantity("s", "Time of the backward pass.")
    flops_forward: Number = quantity("FLOP", "Operations of the forward pass.")
    flops_backward: Number = quantity("FLOP", "Operations of the backward pass.")
    share: Number = quantity("1", "Share of the layer's time, both passes.")
    peak_share: Number = quantity(
        "1", "Rate over the 16-bit peak, both passes; missing where nothing is multiplied."
    )


def layer_operations(sequence: Number, asked: Timed) -> Operations:
    """Return every operation of an average layer; their times sum to the layer's.

    Assumes: a layer is the mean of dense and routing ones, so that what one of the kinds has counts
    with its share of the layers; ``launch_limit`` is what waiting for the host adds, ``fsdp`` what
    of its messages nothing hides.
    Units: -> [s], [FLOP].
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    model, plan, rates, software, choices = asked
    work = layer_work(model, sequence, plan, rates, software, modules_of(choices))
    busy, time = without_host(work), limited(work)
    sharded = with_fsdp(model, plan, rates, software, time)
    core = attention_flops(
        model, sequence, plan.microbatch, plan.tensor, plan.context, rates, software
    )
    columns, rows = (
        _products(some, rates) for some in (work.products.by_columns, work.products.by_rows)
    )
    found: Operations = {
        **columns,
        "attention": Operation(work.attention, core),
        **rows,
        **_routed(model, work),
        "elementwise": Operation(work.elementwise),
        "cast": Operation(work.cast),
    }
    forward = sum((operation.flops.forward for operation in found.values()), start=0.0)
    stopped = software.early_stop * rows["down"].flops.forward
    again = software.recompute_full * (forward - stopped)
    some = (found[name].flops.forward for name in repeats(modules_of(choices)) if name in found)
    again = again + software.recompute_selective * sum(some)
    return found | {
        "tensor": Operation(work.tensor),
        "context": Operation(work.context),
        "exchange": Operation(Both(work.exchange, work.exchange)),
        "recompute": Operation(Both(0.0, work.again), Both(0.0, again)),
        "launch_limit": Operation(_less(time, busy)),
        "fsdp": Operation(_less(sharded, time)),
    }


def _products(products: Products, rates: Rates) -> Operations:
    return {
        name: _operation(seconds(product, rates), flops(product))
        for name, product in products.items()
    }


def _operation(time: Directions, forward: Number) -> Operation:
    """Return a product, whose gradients take twice the FLOP of its forward pass."""
    return Operation(Both(time.forward, time.inputs + time.weights), Both(forward, 2.0 * forward))


def _routed(model: MemoryModel, work: LayerWork) -> Operations:
    """Return the operations of the routed experts, as the average layer has them."""
    time: ExpertTime = work.routed
    share, hidden, width = work.routing, model.hidden, model.expert_feedforward
    tokens = work.tokens.rank
    rows = tokens * model.active_experts

    def part(time: Both, forward: Number = 0.0) -> Operation:
        weighted = Both(share * time.forward, share * time.backward)
        return Operation(weighted, Both(forward, 2.0 * forward))

    def product(time: Directions, columns: Number, inner: Number) -> Operation:
        return part(
            Both(time.forward, time.inputs + time.weights),
            flops(Product(rows, columns, inner, share)),
        )

    return {
        "router": part(time.router, flops(Product(tokens, model.experts, hidden, share))),
        "router_scores": part(Both(time.scores, time.scores)),
        "permutation": part(Both(time.permutation, time.permutation)),
        "routed_up": product(time.up, (1.0 + model.gated) * width, hidden),
        "routed_activation": part(time.activation),
        "routed_down": product(time.down, hidden, width),
        "routed_cast": part(time.cast),
    }


def _less(whole: Any, part: Any) -> Both:
    return Both(whole.forward - part.forward, whole.backward - part.backward)
