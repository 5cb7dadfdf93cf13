"""One chip by its units, and many chips by their sums."""

from typing import Any

from jaxroof.catalog import lookup as named
from jaxroof.catalog.system import System
from jaxroof.estimator import Estimator
from jaxroof.estimators.operators.defaults import counted, value_or
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas import chip as costs
from jaxroof.formulas.serving import free_memory, whole_up
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
    vector_rate: Number = quantity(
        "FLOP/s", "Vector rate, one operation a lane and cycle.", better="higher"
    )
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


def chip_of(inputs: ChipInputs, recipe: None) -> Chip:
    """Return what follows from a chip's units."""
    i = inputs
    lanes = costs.vector_lanes(i.processors, i.partitions, i.width)
    fused = costs.vector_rate(lanes, i.clock, 2.0)
    dense = costs.dense_rate(i.sparsity, i.system.matrix_flops)
    return Chip(
        lanes=lanes,
        vector_rate=costs.vector_rate(lanes, i.clock, 1.0),
        fused_vector_rate=fused,
        fused_clock=costs.vector_clock(lanes, value_or(i.system.vector_flops, lambda: fused)),
        dense_flops=dense,
        tensor_core_flops=costs.tensor_core_flops(i.processors, i.partitions, i.clock, dense),
        warps=costs.resident_warps(i.register_file, i.width, i.registers),
        total_shared_memory=i.processors * i.shared_memory,
    )


@record
class ClusterInputs:
    """Equal accelerators and what they are to hold; chips count, or fill the sides of a slice."""

    system: System
    chips: Number = quantity(
        "1", "Accelerators; the sides of the slice multiplied if not given.", default=None,
        symbol="n",
    )  # fmt: skip
    length: Number = quantity(
        "1", "First side of a slice; that of a whole pod in one line if not given.", default=None
    )
    width: Number = quantity("1", "Second side of a slice.", default=1.0)
    height: Number = quantity("1", "Third side of a slice.", default=1.0)
    host: Number = quantity(
        "1", "Accelerators of one host; the machine's if not given.", default=None
    )
    parameters: Number = quantity("1", "Parameters held.", default=0.0, zero=True, symbol="P")
    weight_width: Number = quantity("B", "Bytes of one weight.", default=2.0)
    weights: Number = quantity(
        "B", "Bytes of weights; parameters times their width if not given.", default=None
    )
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
    on_chip_bandwidth: Number = quantity(
        "B/s", "Bandwidth of the memory on one chip.", better="higher"
    )
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


def total(inputs: ClusterInputs, recipe: None) -> Cluster:
    """Return the sums over all accelerators."""
    i, system = inputs, inputs.system
    chips = value_or(
        i.chips, lambda: value_or(i.length, lambda: system.pod * 1.0) * i.width * i.height
    )
    weights = value_or(i.weights, lambda: i.parameters * i.weight_width)
    held = weights + i.optimizer + i.caches + i.activations
    dense = costs.dense_rate(i.sparsity, system.matrix_flops)
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
        chips_needed_whole=counted(whole_up(held, system.hbm_capacity)),
        free=free_memory(held, chips, system.hbm_capacity),
        fits=held <= chips * system.hbm_capacity,
        flops_per_price=costs.rate_per_price(i.price, dense),
        cost=chips * i.price,
    )


chip = Estimator(
    step=chip_of,
    inputs=ChipInputs,
    name="chip",
    names={"system": named.labelled_system},
    example=lambda: ChipInputs(system=named.system("h100-sxm"), processors=132.0, clock=1.76e9),
    about=QUESTIONS["chip"],
)
cluster = Estimator(
    step=total,
    inputs=ClusterInputs,
    name="cluster",
    names={"system": named.labelled_system},
    example=lambda: ClusterInputs(
        system=named.system("tpu-v5e"), chips=16.0, parameters=70e9, caches=42e9
    ),
    about=QUESTIONS["cluster"],
)
