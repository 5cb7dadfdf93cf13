"""One layer of a training step, operation by operation: seconds and FLOP.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer.operation import Passes, Work, on_rank
from jaxroof.estimators.training.layer.sums import mean_weights
from jaxroof.estimators.training.layer_time import (
    LayerTime,
    OperationTime,
    Sharded,
    layer_time,
    layer_work,
    recomputed,
    with_fsdp,
)
from jaxroof.estimators.training.plan_time import timed
from jaxroof.estimators.training.recipe import TrainingRecipe, modules_of
from jaxroof.records import Number, quantity, record


class Operation(NamedTuple):
    """Seconds and FLOP of one operation, of one layer and microbatch on one accelerator."""

    time: Passes
    flops: Passes = Passes(0.0, 0.0)


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


def layer_operations(inputs: TrainingInputs, recipe: TrainingRecipe) -> Operations:
    """Return every operation of an average layer; their times sum to the layer's.

    Assumes: a layer is the mean of dense and routing ones, so that what one of the kinds has counts
    with its share of the layers; ``launch_limit`` is what waiting for the host adds, ``fsdp`` what
    of its messages nothing hides.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    work = timed(inputs, recipe)
    done = layer_work(work, modules_of(recipe))
    software, parts, time = work.software, done.parts, layer_time(done)
    named = {n: o for n, o in done.operations.items() if o.operation.time != "elementwise"}
    found = {name: Operation(one.time, _flops(one, work)) for name, one in named.items()}
    again = sum(one.flops.forward for one in found.values())
    if "down" in found:
        again = again - software.early_stop * found["down"].flops.forward
    some = sum(found[name].flops.forward for name in done.repeated if name in found)
    whole, modules_again = recomputed(work)
    again = whole * again + modules_again * some
    sharded = with_fsdp(work, time, mean_weights(work.model, work.plan))
    return found | {
        "elementwise": Operation(parts["elementwise"]),
        "cast": Operation(parts["cast"]),
        "tensor": Operation(parts["tensor_comm"]),
        "context": Operation(parts["context_comm"]),
        "exchange": Operation(parts["expert_comm"]),
        "recompute": Operation(Passes(0.0, done.again), Passes(0.0, again)),
        "launch_limit": Operation(_less(time, done.busy)),
        "fsdp": Operation(_less(sharded, time)),
    }


def _flops(one: OperationTime, work: Work) -> Passes:
    """Return the FLOP of an operation; gradients of a product take twice those of its forward."""
    operation, tokens = one.operation, work.tokens
    if operation.flops is not None:
        return operation.flops(work)
    if operation.matrix is None:
        return Passes(0.0, 0.0)
    columns, inner = on_rank(operation.matrix, work.plan)
    rows = tokens.group
    if operation.time == "experts":  # as many as if no rank shared an expert
        rows = tokens.rank * operation.matrix.met
        columns, inner = operation.matrix.outputs, operation.matrix.inputs
    forward = one.share * 2.0 * rows * columns * inner
    return Passes(forward, 2.0 * forward)


def _less(whole: LayerTime | Sharded | Passes, part: LayerTime | Passes) -> Passes:
    return Passes(whole.forward - part.forward, whole.backward - part.backward)
