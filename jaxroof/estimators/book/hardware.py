"""Machines by their parts: chips, clusters, switches, systolic units, chains of transfers.

Source: docs/models/op_rooflines.md, sections 1, 8 and 9.
"""

from typing import Any

from jaxroof.catalog.system import System
from jaxroof.estimators.answers import answers, higher, optional
from jaxroof.estimators.book.common import rounded_up, value_or
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number, quantity, record


@record
class ChipInputs:
    """The units of a chip of many equal processors."""

    system: System
    processors: Number = quantity("1", "Processors, such as streaming multiprocessors.", whole=True)
    clock: Number = quantity("1/s", "Clock of the processors.")
    partitions: Number = quantity("1", "Parts of a processor, a tensor core in each.", default=4.0)
    width: Number = quantity("1", "Vector lanes of a part, and threads of a warp.", default=32.0)
    register_file: Number = quantity("B", "Registers of a processor.", default=262144.0)
    registers: Number = quantity("1", "4-byte registers of one thread.", default=256.0)
    shared_memory: Number = quantity("B", "Shared memory of a processor.", default=256e3)
    sparsity: Number = quantity(
        "1", "What the matrix rate counts for one product: 2 if it counts zeros.", default=1.0
    )


@record
class Chip:
    """Rates and capacities that follow from a chip's units."""

    lanes: Number = quantity("1", "Vector lanes.", better="higher")
    vector_rate: Number = higher("FLOP/s", "Vector rate, one operation a lane and cycle.")
    fused_vector_rate: Number = quantity(
        "FLOP/s", "Vector rate, a multiply and an add a lane and cycle.", better="higher"
    )
    fused_clock: Number = quantity(
        "1/s", "Clock that the machine's vector rate implies, a multiply and an add a cycle."
    )
    dense_flops: Number = quantity("FLOP/s", "Matrix rate, dense.", better="higher")
    tensor_core_flops: Number = quantity("FLOP", "Arithmetic of a tensor core in one cycle.")
    warps: Number = quantity("1", "Warps whose registers fit in a processor.", better="higher")
    total_shared_memory: Number = quantity("B", "Shared memory of all processors.", better="higher")


@answers("h100-sxm", processors=132.0, clock=1.76e9)
def chip(inputs: ChipInputs, recipe: None) -> Chip:
    """Return what follows from a chip's units.

    S processors of q partitions, each w lanes wide and with a tensor core: lanes S q w, vector rate
    f lanes, twice that if a multiply and an add count as two; a warp of w threads with r 4-byte
    registers takes 4 w r bytes
    """
    i = inputs
    lanes = i.processors * i.partitions * i.width
    fused = lanes * i.clock * 2.0
    dense = i.system.matrix_flops / i.sparsity
    return Chip(
        lanes=lanes,
        vector_rate=lanes * i.clock,
        fused_vector_rate=fused,
        fused_clock=value_or(i.system.vector_flops, lambda: fused) / (2.0 * lanes),
        dense_flops=dense,
        tensor_core_flops=dense / (i.processors * i.partitions * i.clock),
        warps=i.register_file / (4.0 * i.width * i.registers),
        total_shared_memory=i.processors * i.shared_memory,
    )


@record
class ClusterInputs:
    """Equal accelerators and what they are to hold; chips count, or fill the sides of a slice."""

    system: System
    chips: Number = quantity(
        "1", "Accelerators; the sides of the slice multiplied if not given.", default=None,
        symbol="n"
    )  # fmt: skip
    length: Number = quantity(
        "1", "First side of a slice; that of a whole pod in one line if not given.", default=None
    )
    width: Number = quantity("1", "Second side of a slice.", default=1.0)
    height: Number = quantity("1", "Third side of a slice.", default=1.0)
    host: Number = optional("1", "Accelerators of one host; the machine's if not given.")
    parameters: Number = quantity("1", "Parameters held.", default=0.0, zero=True, symbol="P")
    weight_width: Number = quantity("B", "Bytes of one weight.", default=2.0)
    weights: Number = optional("B", "Bytes of weights; parameters times their width if not given.")
    optimizer: Number = quantity("B", "Bytes of optimizer state.", default=0.0, zero=True)
    caches: Number = quantity("B", "Bytes of caches.", default=0.0, zero=True)
    activations: Number = quantity("B", "Bytes of activations.", default=0.0, zero=True)
    price: Number = quantity("USD/h", "Price of one accelerator.", default=1.0)
    sparsity: Number = quantity(
        "1", "What the matrix rate counts for one product: 2 if it counts zeros.", default=1.0
    )
    on_chip_ratio: Number = quantity(
        "1", "Bandwidth of the memory on the chip over that of HBM.", default=22.0
    )


@record
class Cluster:
    """Sums over all accelerators, and how what they hold fits."""

    total_chips: Number = quantity("1", "Accelerators.")
    hosts: Number = quantity("1", "Hosts, unrounded.")
    dense_flops: Number = quantity("FLOP/s", "Dense rate of one accelerator.", better="higher")
    on_chip_bandwidth: Number = higher("B/s", "Bandwidth of the memory on one chip.")
    total_flops: Number = quantity("FLOP/s", "Dense rate of all.", better="higher")
    total_bandwidth: Number = quantity("B/s", "Memory bandwidth of all.", better="higher")
    total_memory: Number = quantity("B", "Memory of all.", better="higher")
    held: Number = quantity("B", "Bytes that all hold together.")
    held_per_chip: Number = quantity("B", "Bytes that one holds.")
    chips_needed: Number = quantity("1", "Accelerators that hold it, unrounded.")
    chips_needed_whole: Any = quantity("1", "Accelerators that hold it.", whole=True)
    free: Number = quantity("B", "Memory left over.", better="higher")
    fits: Any = quantity("1", "The accelerators hold it.")
    flops_per_price: Number = quantity(
        "FLOP/s h/USD", "Dense rate of one accelerator over its price.", better="higher"
    )
    cost: Number = quantity("USD/h", "Price of all.")


@answers("tpu-v5e-book", chips=16.0, parameters=70e9, caches=42e9)
def cluster(inputs: ClusterInputs, recipe: None) -> Cluster:
    """Return the sums over all accelerators."""
    i, system = inputs, inputs.system
    chips = value_or(
        i.chips, lambda: value_or(i.length, lambda: system.pod * 1.0) * i.width * i.height
    )
    weights = value_or(i.weights, lambda: i.parameters * i.weight_width)
    held = weights + i.optimizer + i.caches + i.activations
    dense = system.matrix_flops / i.sparsity
    return Cluster(
        total_chips=chips,
        hosts=chips / value_or(i.host, lambda: system.host),
        dense_flops=dense,
        on_chip_bandwidth=i.on_chip_ratio * system.hbm_bandwidth,
        total_flops=chips * dense,
        total_bandwidth=chips * system.hbm_bandwidth,
        total_memory=chips * system.hbm_capacity,
        held=held,
        held_per_chip=held / chips,
        chips_needed=held / system.hbm_capacity,
        chips_needed_whole=rounded_up(held, system.hbm_capacity),
        free=larger(chips * system.hbm_capacity - held, 0.0),
        fits=held <= chips * system.hbm_capacity,
        flops_per_price=dense / i.price,
        cost=chips * i.price,
    )


# ---- Switches, systolic units, chains -----------------------------------------------------------


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
    bisection: Number = higher("B/s", "Between two halves of all ports, both directions.")
    node_bandwidth: Number = quantity("B/s", "Each node's share, one direction.", better="higher")


@answers(port_bandwidth=25e9, ports=64.0, switches=4.0, nodes=8.0)
def fabric(inputs: FabricInputs, recipe: None) -> Fabric:
    """Return the bandwidth of switches that do not block, and what each node gets of it."""
    i = inputs
    total = i.switches * i.ports * i.links * i.port_bandwidth
    return Fabric(bandwidth=total, bisection=total, node_bandwidth=total / i.nodes)


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


@answers(clock=1.5e9, units=4.0)
def systolic(inputs: SystolicInputs, recipe: None) -> Systolic:
    """Return u f 2 r d c / n, the rate of units that are always busy."""
    i = inputs
    return Systolic(rate=i.units * i.clock * 2.0 * i.rows * i.depth * i.columns / i.cycles)


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


@answers(host_time=0.07, link_time=0.2, memory_time=0.02, math_time=0.01)
def chain(inputs: ChainInputs, recipe: None) -> Chain:
    """Return the time of stages that overlap, and of stages that do not."""
    i = inputs
    least = larger(larger(i.math_time, i.memory_time), i.link_time)
    return Chain(
        time=larger(i.host_time, least),
        serial_time=i.host_time + i.math_time + i.memory_time + i.link_time,
    )
