"""The parts of a chip (lanes, clocks, tensor cores, registers) and the rates that follow."""

from jaxroof.records import Number


def vector_lanes(processors: Number, partitions: Number, width: Number) -> Number:
    """Return the vector lanes of a chip.

    l = S q w

    Assumes: S processors of q partitions, each w lanes wide.
    Units: all [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(vector_lanes(132.0, 4.0, 32.0))
    16896.0
    """
    return processors * partitions * width


def vector_rate(lanes: Number, clock: Number, per_cycle: Number) -> Number:
    """Return the vector rate of a chip.

    C = l f x, x = 2 where a multiply and an add count as two, 1 where an instruction counts

    Assumes: every lane starts one instruction a cycle.
    Units: lanes [1], clock [1/s], per_cycle [FLOP] -> [FLOP/s].
    Source: docs/models/op_rooflines.md, sections 8 and 9.

    >>> float(vector_rate(100.0, 2.0, 2.0))
    400.0
    """
    return lanes * clock * per_cycle


def vector_clock(lanes: Number, vector_flops: Number) -> Number:
    """Return the clock that a quoted vector rate implies, a multiply and an add counted as two.

    f = C / (2 l)

    Assumes: as ``vector_rate``, whose inverse this is.
    Units: lanes [1], vector_flops [FLOP/s] -> [1/s].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(vector_clock(100.0, 400.0))
    2.0
    """
    return vector_flops / (2.0 * lanes)


def tensor_core_flops(
    processors: Number, partitions: Number, clock: Number, matrix_flops: Number
) -> Number:
    """Return the arithmetic of one tensor core in one cycle.

    F = C / (S q f)

    Assumes: one tensor core in each of q partitions of S processors; a dense rate.
    Units: processors, partitions [1], clock [1/s], matrix_flops [FLOP/s] -> [FLOP].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(tensor_core_flops(2.0, 4.0, 10.0, 800.0))
    10.0
    """
    return matrix_flops / (processors * partitions * clock)


def resident_warps(register_file: Number, width: Number, registers: Number) -> Number:
    """Return the number of warps whose registers fit in a processor at once.

    n = R / (4 w r)

    Assumes: 4-byte registers, r of each of a warp's w threads; not rounded, no other limit.
    Units: register_file [B], width, registers [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(resident_warps(262144.0, 32.0, 256.0))
    8.0
    """
    return register_file / (4.0 * width * registers)


def dense_rate(sparsity: Number, matrix_flops: Number) -> Number:
    """Return the dense rate, from a quoted rate that counts the zeros of a sparse format.

    C = C_quoted / s, s = 2 on sheets that quote sparse rates

    Assumes: the quoted rate leaves out a fixed share of the products.
    Units: sparsity [1], matrix_flops [FLOP/s] -> [FLOP/s].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(dense_rate(2.0, 1979e12))
    989500000000000.0
    """
    return matrix_flops / sparsity


def rate_per_price(price: Number, matrix_flops: Number) -> Number:
    """Return the rate per hourly price.

    r = C / p, in FLOP/s per dollar an hour: one dollar pays for 3600 r FLOP

    Assumes: the peak rate.
    Units: price [USD/h], matrix_flops [FLOP/s] -> [FLOP/s per USD/h].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(rate_per_price(2.0, 8.0))
    4.0
    """
    return matrix_flops / price
