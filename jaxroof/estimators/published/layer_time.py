"""The time of each operation of one transformer layer, and the sums over the layer.

Source: docs/models/transformer_model.md, sections 3 and 6.
"""

from typing import Any, NamedTuple

from jaxroof.catalog.system import System
from jaxroof.catalog.system import network as network_of
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer import LayerOperation, Message, Messages
from jaxroof.estimators.published.operations import operations
from jaxroof.estimators.published.recipe import Recipe
from jaxroof.formulas import roofline
from jaxroof.formulas.ledger import Work
from jaxroof.records import Number


class Timing(NamedTuple):
    """Seconds of one operation in one direction; the sum of the exposed parts is its time."""

    compute: Number
    memory: Number
    communication: Number


def message_time(message: Message, system: System, panels: Number = 1.0) -> Number:
    """Return the seconds of a collective, or of its part for one panel."""
    volume = message.volume / panels
    return message.collective(volume, message.group, message.fast, network_of(system))


def timing(
    work: Work, messages: Messages, matrix: bool, panels: Number | None, system: System
) -> Timing:
    """Return the exposed seconds of one operation in one direction.

    Assumes: M7, only the panels of a SUMMA product overlap.
    """
    rate = system.matrix_flops if matrix else system.vector_flops
    compute = roofline.compute_time(
        work.flops, rate, system.matrix_efficiency, system.launch_latency
    )
    memory = roofline.exposed_memory_time(work.traffic, compute, system.hbm_bandwidth)
    if panels is None:
        return Timing(compute, memory, sum((message_time(m, system) for m in messages), 0.0))
    panel = sum((message_time(m, system, panels) for m in messages), 0.0)
    return Timing(compute, memory, roofline.exposed_panels(panel, panels, compute + memory))


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
    """Return the sums over one layer's operations.

    Units: degrees and panels [1], microbatch [sequence] -> Block.
    Source: docs/models/transformer_model.md, section 6.
    """
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
    passes: list[tuple[Timing, ...]] = []
    flops: list[Number] = []
    for operation in layer.values():
        forward, backward = timings(operation, inputs.system)
        again = (forward,) if operation.recomputed else ()
        passes.append((forward, backward, *again))
        runs = 2.0 if operation.recomputed else 1.0
        flops.append(runs * operation.work.forward.flops + operation.work.backward.flops)

    def total(field: str, direction: slice) -> Any:
        return sum(getattr(t, field) for times in passes for t in times[direction])

    ways = (slice(0, 1), slice(1, None))
    parts = {f: tuple(total(f, way) for way in ways) for f in Timing._fields}
    compute, memory, communication = (parts[f] for f in Timing._fields)
    return LayerTimes(
        work_forward=compute[0] + memory[0],
        work_backward=compute[1] + memory[1],
        links_forward=communication[0],
        links_backward=communication[1],
        compute=compute[0] + compute[1],
        memory=memory[0] + memory[1],
        flops=sum(flops),
        parameters=sum(operation.work.parameters for operation in layer.values()),
        kept=sum(operation.work.kept for operation in layer.values()),
    )
