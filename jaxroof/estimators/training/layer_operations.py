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
from jaxroof.estimators.training.recipe import TrainingRecipe, modules_of
from jaxroof.estimators.training.step_time import timed
from jaxroof.records import Number, quantity, record


class Operation(NamedTuple):
    """Seconds and FLOP of one operation, of one layer and microbatch on one accelerator."""

    kind: str
    time: Passes
    flops: Passes = Passes(0.0, 0.0)


Operations = dict[str, Operation]
KERNEL, MESSAGE = "kernel", "message"


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
    with its share of the layers; the launch limit is what waiting for the host adds, messages are
    what nothing hides of them.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    work = timed(inputs, recipe)
    done = layer_work(work, modules_of(recipe))
    software, parts, time = work.software, done.parts, layer_time(done)
    named = {n: o for n, o in done.operations.items() if o.operation.time != "elementwise"}
    found = {name: _alone(one, work) for name, one in named.items()}
    again = sum(one.flops.forward for one in found.values())
    if "MLP down" in found:
        again = again - software.early_stop * found["MLP down"].flops.forward
    some = sum(found[name].flops.forward for name in done.repeated if name in found)
    whole, modules_again = recomputed(work)
    again = whole * again + modules_again * some
    sharded = with_fsdp(work, time, mean_weights(work.model, work.plan))
    return found | {
        "element-wise kernels": Operation(KERNEL, parts["elementwise"]),
        "casts": Operation(KERNEL, parts["cast"]),
        "tensor messages": Operation(MESSAGE, parts["tensor_comm"]),
        "context messages": Operation(MESSAGE, parts["context_comm"]),
        "expert messages": Operation(MESSAGE, parts["expert_comm"]),
        "recomputation": Operation("computed again", Passes(0.0, done.again), Passes(0.0, again)),
        "launch limit": Operation("wait", _less(time, done.busy)),
        "FSDP messages": Operation(MESSAGE, _less(sharded, time)),
    }


def _alone(one: OperationTime, work: Work) -> Operation:
    """Return one operation; gradients of a product take twice the FLOP of its forward pass."""
    operation, tokens = one.operation, work.tokens
    if operation.flops is not None:
        return Operation(KERNEL, one.time, operation.flops(work))
    if operation.matrix is None:
        return Operation(KERNEL, one.time)
    columns, inner = on_rank(operation.matrix, work.plan)
    rows = tokens.group
    if operation.time == "experts":  # as many as if no rank shared an expert
        rows = tokens.rank * operation.matrix.met
        columns, inner = operation.matrix.outputs, operation.matrix.inputs
    forward = one.share * 2.0 * rows * columns * inner
    return Operation("matrix product", one.time, Passes(forward, 2.0 * forward))


def _less(whole: LayerTime | Sharded | Passes, part: LayerTime | Passes) -> Passes:
    return Passes(whole.forward - part.forward, whole.backward - part.backward)
