"""The time of each operation of one transformer layer, and the sums over the layer.

Source: docs/models/transformer_model.md, sections 3 and 6.
"""

from collections.abc import Iterable
from typing import NamedTuple

from jaxroof.catalog.system import System
from jaxroof.catalog.system import network as network_of
from jaxroof.estimators.published.inputs import Inputs, Recipe
from jaxroof.estimators.published.ledger import Work
from jaxroof.estimators.published.operations import LayerOperation, Messages, Operations, operations
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number


class Timing(NamedTuple):
    """Seconds of one operation in one direction; the sum of the exposed parts is its time."""

    compute: Number
    memory: Number
    communication: Number

    @property
    def work(self) -> Number:
        """Return the seconds of the accelerator itself."""
        return self.compute + self.memory


def compute_time(work: Work, matrix: bool, system: System) -> Number:
    """Return the time of the arithmetic of an operation with its launch, l + F / (e P).

    Assumes: Q13, one launch per operation and direction, within the roofline.
    """
    rate = system.matrix_flops if matrix else system.vector_flops
    return system.launch_latency + work.flops / (system.matrix_efficiency * rate)


def timing(
    work: Work, messages: Messages, matrix: bool, panels: Number | None, system: System
) -> Timing:
    """Return the exposed seconds of one operation in one direction.

    memory = max(Y / W - t_compute, 0);  communication of n panels of p seconds: p + max(n p - w, 0)

    Assumes: M6, traffic and arithmetic overlap perfectly at the full bandwidth; M7, only the panels
    of a SUMMA product overlap; Q4, the first panel's messages are exposed, and count once more
    where links bind.
    """
    compute = compute_time(work, matrix, system)
    memory = larger(work.traffic / system.hbm_bandwidth - compute, 0.0)
    links, parts = network_of(system), 1.0 if panels is None else panels
    sent = sum((m.collective(m.volume / parts, m.group, m.fast, links) for m in messages), 0.0)
    if panels is not None:
        sent = sent + larger(panels * sent - (compute + memory), 0.0)
    return Timing(compute, memory, sent)


def timings(operation: LayerOperation, system: System) -> tuple[Timing, Timing]:
    """Return an operation's seconds forward and backward, without recomputation."""
    work, matrix, panels = operation.work, operation.matrix, operation.panels
    forward = timing(work.forward, operation.forward, matrix, panels, system)
    backward = timing(work.backward, operation.backward, matrix, panels, system)
    return forward, backward


class LayerTimes(NamedTuple):
    """One layer and one microbatch on one accelerator.

    Link time is separate from accelerator time, because other parts of the machine determine it.
    """

    work_forward: Number  # [s]: arithmetic and exposed memory traffic
    work_backward: Number
    links_forward: Number  # [s]
    links_backward: Number
    compute: Number  # [s], both directions
    memory: Number
    flops: Number  # [FLOP], both directions
    parameters: Number  # [1]
    kept: Number  # [B]

    @property
    def forward(self) -> Number:
        """Return the seconds of the forward pass."""
        return self.work_forward + self.links_forward

    @property
    def backward(self) -> Number:
        """Return the seconds of the backward pass."""
        return self.work_backward + self.links_backward


def layer_times(
    inputs: Inputs,
    recipe: Recipe,
    *,
    tensor: Number,
    context: Number,
    microbatch: Number,
    panels: Number,
    fast_tensor: Number,
    fast_context: Number,
) -> LayerTimes:
    """Return the sums over one layer's operations."""
    layer = operations(
        inputs,
        recipe,
        tensor=tensor,
        context=context,
        microbatch=microbatch,
        panels=panels,
        fast_tensor=fast_tensor,
        fast_context=fast_context,
    )
    return summed(layer, inputs.system)


def summed(layer: Operations, system: System) -> LayerTimes:
    """Return the sums over operations; what is recomputed runs forward again on the way back."""
    ahead: list[Timing] = []
    back: list[Timing] = []
    flops: Number = 0.0
    for operation in layer.values():
        forward, backward = timings(operation, system)
        again = (forward,) if operation.recomputed else ()
        ahead.append(forward)
        back.extend((backward, *again))
        flops = flops + (1.0 + len(again)) * operation.work.forward.flops
        flops = flops + operation.work.backward.flops
    compute = [_total(t.compute for t in times) for times in (ahead, back)]
    memory = [_total(t.memory for t in times) for times in (ahead, back)]
    return LayerTimes(
        work_forward=compute[0] + memory[0],
        work_backward=compute[1] + memory[1],
        links_forward=_total(t.communication for t in ahead),
        links_backward=_total(t.communication for t in back),
        compute=compute[0] + compute[1],
        memory=memory[0] + memory[1],
        flops=flops,
        parameters=_total(operation.work.parameters for operation in layer.values()),
        kept=_total(operation.work.kept for operation in layer.values()),
    )


def weight_gradient(layer: Operations, system: System) -> Number:
    """Return the time of one layer's weight gradients, which no other stage waits for.

    t_W = sum of (t_compute + t_memory) / 2 over the operations that have parameters

    Assumes: the weight gradient is half of the backward of such an operation, in arithmetic,
    launch and exposed traffic. (This is exact for a product: both gradients multiply the same
    three sizes.) The rest belongs to the gradient of the input: collectives, operations without
    parameters, and recomputation.
    Source: Qi et al. 2023 (arXiv 2401.10241), section 2: B and W apart, about equal for a product.
    """
    return _total(
        where(operation.work.parameters > 0.0, 0.5, 0.0) * timings(operation, system)[1].work
        for operation in layer.values()
    )


def _total(values: Iterable[Number]) -> Number:
    return sum(values, 0.0)
