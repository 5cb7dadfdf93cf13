"""An estimator of one's own, of one function: how long does a ring all-reduce take?"""

from typing import Any

import jaxroof as jr


@jr.record
class Ring:
    """A message to sum over a ring of accelerators."""

    message: float = jr.quantity("B", "Bytes to sum.")
    ranks: float = jr.quantity("1", "Accelerators on the ring.", whole=True)
    bandwidth: float = jr.quantity("B/s", "Bandwidth of one link, one direction.")
    latency: float = jr.quantity("s", "Latency of one hop.", default=5e-6, zero=True)


@jr.record
class AllReduce:
    """What a sum over the ring takes."""

    time: float = jr.quantity("s", "Time of the all-reduce.")
    bus_bandwidth: float = jr.quantity("B/s", "Bytes a second each link carries.", better="higher")


def all_reduce(inputs: Ring, recipe: Any) -> AllReduce:
    """Return the time of a reduce-scatter and an all-gather, 2 (n - 1) hops."""
    hops = 2.0 * (inputs.ranks - 1.0)
    sent = hops / inputs.ranks * inputs.message
    time = hops * inputs.latency + sent / inputs.bandwidth
    return AllReduce(time=time, bus_bandwidth=sent / time)


estimator = jr.Estimator(step=all_reduce, inputs=Ring, name="ring")
