"""A searched estimator of one's own: how should an all-reduce climb a network of two levels?

A plan says how many ranks of a node form one ring, how many such rings there are (their ranks sum
over the network), and in how many pieces the message goes: a piece must fit in a staging buffer.
"""

from typing import Any

import numpy as np

import jaxroof as jr


@jr.record
class Network:
    """Links inside a node, and one network interface a rank between nodes."""

    inside_bandwidth: float = jr.quantity("B/s", "Link inside a node.", resource="links")
    across_bandwidth: float = jr.quantity("B/s", "Interface of one rank.", resource="network")
    inside_latency: float = jr.quantity("s", "One hop inside a node.", resource="latency")
    across_latency: float = jr.quantity("s", "One hop between nodes.", resource="latency")
    node: float = jr.quantity("1", "Ranks of one node.", whole=True)
    staging: float = jr.quantity("B", "Staging buffer of one rank.", resource="capacity")


@jr.record
class Plan:
    """How the ranks are grouped and the message is cut."""

    inner: float = jr.quantity("1", "Ranks of a ring inside a node.", whole=True, symbol="in")
    outer: float = jr.quantity("1", "Such rings, joined by the network.", whole=True, symbol="out")
    pieces: float = jr.quantity("1", "Pieces of the message.", whole=True)


@jr.record
class Inputs:
    """A message to sum over the ranks of a network."""

    message: float = jr.quantity("B", "Bytes to sum.")
    ranks: float = jr.quantity("1", "Ranks that hold a summand.", whole=True)
    network: Network
    plan: Plan | None = None


@jr.record
class Report:
    """What the all-reduce takes: three parts that sum to the time, and a buffer."""

    time: float = jr.quantity("s", "Time of the all-reduce.")
    inside: float = jr.quantity("s", "Bytes inside nodes.", part_of="time", words="links inside")
    across: float = jr.quantity("s", "Bytes across nodes.", part_of="time", words="the network")
    hops: float = jr.quantity("s", "Latency of all hops.", part_of="time", words="hops")
    bandwidth: float = jr.quantity("B/s", "Message over time.", better="higher")
    buffer: float = jr.quantity("B", "Staging for two pieces.", resource="capacity")
    buffer_fits: bool = jr.quantity("1", "The buffer holds two pieces.")
    feasible: bool = jr.quantity("1", "Every verdict holds.")


def step(inputs: Inputs, recipe: Any) -> Report:
    """Return what reduce-scatter inside, all-reduce across and all-gather inside take.

    t = 2 (i - 1) / i m / b_in + 2 (o - 1) / o m / i / b_out + pieces x hops
    """
    plan, network = inputs.plan, inputs.network
    assert plan is not None
    inside = 2.0 * (plan.inner - 1.0) / plan.inner * inputs.message / network.inside_bandwidth
    shard = inputs.message / plan.inner
    across = 2.0 * (plan.outer - 1.0) / plan.outer * shard / network.across_bandwidth
    once = (plan.inner - 1.0) * network.inside_latency + (plan.outer - 1.0) * network.across_latency
    hops = 2.0 * plan.pieces * once
    time = inside + across + hops
    buffer = 2.0 * inputs.message / plan.pieces
    fits = buffer <= limit(inputs)
    return Report(
        time=time,
        inside=inside,
        across=across,
        hops=hops,
        bandwidth=inputs.message / time,
        buffer=buffer,
        buffer_fits=fits,
        feasible=fits,
    )


def limit(inputs: Inputs) -> Any:
    """Return what the plans may need: the whole staging buffer."""
    return inputs.network.staging


def candidates(inputs: Inputs, recipe: Any) -> jr.Candidates:
    """Return every plan: rings that fit in a node and divide the ranks, pieces by powers of two."""
    ranks, node = int(inputs.ranks), int(inputs.network.node)
    inner = np.arange(1, min(node, ranks) + 1)
    whole = (ranks % inner == 0) & (node % inner == 0)
    pieces = 2 ** np.arange(11)
    columns = np.meshgrid(inner[whole], pieces, indexing="ij")
    rings, cut = (column.ravel() for column in columns)
    plans = {"inner": rings, "outer": ranks // rings, "pieces": cut}
    return jr.Candidates(plans, {"rings_divide": int((~whole).sum())})


def example() -> Inputs:
    """Return 1 GB over 256 ranks, eight a node."""
    network = Network(
        inside_bandwidth=450e9,
        across_bandwidth=50e9,
        inside_latency=1e-6,
        across_latency=5e-6,
        node=8.0,
        staging=64e6,
    )
    plan = Plan(inner=8.0, outer=32.0, pieces=32.0)
    return Inputs(message=1e9, ranks=256.0, network=network, plan=plan)


estimator = jr.Estimator(
    name="two_level",
    about="How should an all-reduce climb a network of two levels?",
    inputs=Inputs,
    plan=Plan,
    step=step,
    candidates=candidates,
    structural=("ranks", "network.node"),
    objective="time",
    need="buffer",
    limit=limit,
    machine="network",
    example=example,
)
