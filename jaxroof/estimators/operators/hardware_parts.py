"""Parts of machines by their counts: switches and links, systolic units, chains of transfers."""

from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import matmul as products
from jaxroof.formulas import roofline
from jaxroof.formulas import switched_networks as trees
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number, quantity, record


@record
class FabricInputs:
    """Switches, or groups, with equal ports, and who shares them."""

    port_bandwidth: Number = quantity("B/s", "Rate of one link of a port, one direction.")
    ports: Number = quantity("1", "Ports, or members, of one switch or group.")
    switches: Number = quantity("1", "Switches, or groups.", default=1.0)
    links: Number = quantity("1", "Links of one port.", default=1.0)
    nodes: Number = quantity("1", "Nodes that share it all.", default=1.0)


@record
class Fabric:
    """Bandwidth of switches."""

    bandwidth: Number = quantity("B/s", "All links, one direction.", better="higher")
    bisection: Number = quantity(
        "B/s", "Between two halves of all ports, both directions.", better="higher"
    )
    node_bandwidth: Number = quantity("B/s", "Each node's share, one direction.", better="higher")


@record
class SystolicInputs:
    """Matrix units, each of which multiplies one [rows, depth] x [depth, columns] at a time."""

    clock: Number = quantity("1/s", "Clock of the units.")
    units: Number = quantity("1", "Units.", default=1.0)
    rows: Number = quantity("1", "Rows of one product.", default=8.0)
    depth: Number = quantity("1", "Width of one product that is summed over.", default=128.0)
    columns: Number = quantity("1", "Columns of one product.", default=128.0)
    cycles: Number = quantity("1", "Cycles of one product.", default=8.0)


@record
class Systolic:
    """Rate of matrix units."""

    rate: Number = quantity("FLOP/s", "Arithmetic rate of all units.", better="higher")


@record
class ChainInputs:
    """Times of the stages that data streams through."""

    host_time: Number = quantity("s", "Time from the host.", default=0.0, zero=True)
    link_time: Number = quantity("s", "Time over the links.", default=0.0, zero=True)
    memory_time: Number = quantity("s", "Time from the memory.", default=0.0, zero=True)
    math_time: Number = quantity("s", "Time of the arithmetic.", default=0.0, zero=True)


@record
class Chain:
    """Time of a chain of stages."""

    time: Number = quantity("s", "Least time: the slowest stage, all overlap.", headline=True)
    serial_time: Number = quantity("s", "Most time: one stage after the other.")


def fabric_step(inputs: FabricInputs, recipe: None) -> Fabric:
    """Return the bandwidth of switches and what each node gets of it."""
    i = inputs
    total = trees.switch_bandwidth(i.switches, i.ports, i.links, i.port_bandwidth)
    return Fabric(
        bandwidth=total,
        bisection=trees.bisection_bandwidth(i.switches * i.ports, i.links * i.port_bandwidth),
        node_bandwidth=total / i.nodes,
    )


def systolic_step(inputs: SystolicInputs, recipe: None) -> Systolic:
    """Return the arithmetic rate of matrix units that are always busy."""
    i = inputs
    return Systolic(
        rate=products.systolic_rate(i.rows, i.depth, i.columns, i.cycles, i.units, i.clock)
    )


def chain_step(inputs: ChainInputs, recipe: None) -> Chain:
    """Return the time of stages that overlap, and of stages that do not."""
    i = inputs
    most = roofline.upper_bound(i.math_time, i.memory_time, i.link_time)
    least = roofline.lower_bound(i.math_time, i.memory_time, i.link_time)
    return Chain(time=larger(i.host_time, least), serial_time=i.host_time + most)


fabric = Estimator(
    step=fabric_step,
    inputs=FabricInputs,
    name="fabric",
    example=lambda: FabricInputs(port_bandwidth=25e9, ports=64.0, switches=4.0, nodes=8.0),
    about=QUESTIONS["fabric"],
)
systolic = Estimator(
    step=systolic_step,
    inputs=SystolicInputs,
    name="systolic",
    example=lambda: SystolicInputs(clock=1.5e9, units=4.0),
    about=QUESTIONS["systolic"],
)
chain = Estimator(
    step=chain_step,
    inputs=ChainInputs,
    name="chain",
    example=lambda: ChainInputs(host_time=0.07, link_time=0.2, memory_time=0.02, math_time=0.01),
    about=QUESTIONS["chain"],
)
