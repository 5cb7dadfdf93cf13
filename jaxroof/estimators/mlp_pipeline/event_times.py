"""When every operation of an MLP's program runs, on every device that takes part in it."""

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from jaxroof.estimators.mlp_pipeline import costs
from jaxroof.estimators.mlp_pipeline.cold_start import SPLIT
from jaxroof.estimators.mlp_pipeline.costs import Prices
from jaxroof.estimators.mlp_pipeline.program import NONE, Network, Operation
from jaxroof.formulas.schedule import exposed_sync


class Event(NamedTuple):
    """What one device did, when and for how long [s]; -1 where there is no such place."""

    name: str
    kind: str
    phase: str
    device: int
    replica: int
    tensor: int
    stage: int
    microbatch: int
    start: float
    duration: float


def events(
    operations: Iterable[Operation], network: Network, asked: Prices, posted: bool = False
) -> list[Event]:
    """Return an event for every operation and device that takes part, in program order.

    Who takes part in an operation waits until all are free, then is kept for its whole duration.
    Sends that are ``posted`` keep nobody: they are no events, the visit that needs them waits.
    Source: docs/models/distir_model.md, section 5.
    """

    @functools.cache
    def seconds(name: str, *sizes: Any) -> float:
        return float(COSTS[name](asked, *sizes))

    clocks: dict[int, float] = collections.defaultdict(float)
    there: dict[tuple[int, str, int], float] = {}  # messages, by receiver and visit
    found = []
    for name, kind, phase, members, microbatch, cost in operations:
        devices = [device_of(network, member) for member in members]
        duration = seconds(*cost)
        if posted and kind == "send":
            there[devices[1], phase, microbatch] = clocks[devices[0]] + duration
            continue
        waits = [there.pop((device, phase, microbatch), 0.0) for device in devices]
        start = max(*(clocks[device] for device in devices), *waits)
        for device, (replica, rank, stage) in zip(devices, members, strict=True):
            place = (device, replica, rank, stage, microbatch)
            found.append(Event(name, kind, phase, *place, start, duration))
            clocks[device] = start + duration
    return found


def device_of(network: Network, member: tuple[int, int, int]) -> int:
    """Return the number of a device: stages innermost, replicas outermost, 0 is the root.

    >>> device_of(Network((8.0,) * 9, 4.0, 2, 2, 2, 2), (1, 0, 1))
    6
    """
    replica, rank, stage = member
    if stage == NONE:
        return 0
    return 1 + (replica * network.tensor + rank) * network.pipeline + stage


def _weight_gradient(asked: Prices, m: float, k: float, n: float) -> Any:
    return costs.product(asked, k, m, n)


def _product_gradient(asked: Prices, m: float, k: float, n: float) -> Any:
    return costs.product(asked, m, n, k) + _weight_gradient(asked, m, k, n)


def _loss(asked: Prices, elements: float) -> Any:
    return costs.elementwise(asked, elements, asked.loss_operands)


def _exposed(asked: Prices, backward: Sequence[Any], sums: Sequence[Any]) -> Any:
    """Return what is left of a stage's sums where each hides behind the backward of a layer."""
    each = [sum(COSTS[name](asked, *sizes) for name, *sizes in some) for some in (sums, backward)]
    count = float(len(sums))
    return exposed_sync(each[0] / count, each[1] / count, count)


COSTS: dict[str, Callable[..., Any]] = {
    "product": costs.product,
    "product_gradient": _product_gradient,
    "weight_gradient": _weight_gradient,
    "elementwise": costs.elementwise,
    "loss": _loss,
    "send": costs.send,
    "all_reduce": costs.all_reduce,
    "gather": costs.gather,
    "exposed": _exposed,
    "join": lambda asked: asked.join,
    "cut": lambda asked: SPLIT,
    "free": lambda asked: 0.0,
}
