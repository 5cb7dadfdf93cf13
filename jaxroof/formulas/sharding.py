"""Arrays and products sharded over a mesh: sizes, FLOP and messages."""

from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number


def mesh_devices(x: Number, y: Number, z: Number) -> Number:
    """Return the devices of a mesh, or the shards over the axes that are used.

    n = X Y Z, with 1 for an unused axis

    Assumes: nothing.
    Units: sizes of the axes [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> mesh_devices(4.0, 8.0, 2.0)
    64.0
    """
    return x * y * z


def copies(devices: Number, shards: Number) -> Number:
    """Return how many copies of an array a mesh holds: the product of its unused axes.

    c = n / s

    Assumes: the array is sharded over whole axes of the mesh.
    Units: devices, shards [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> copies(64.0, 4.0)
    16.0
    """
    return devices / shards


def axis_size(size: Number, share: Number) -> Number:
    """Return the size of a mesh axis if it is used, 1 if it is not.

    X^u = 1 + u (X - 1), u = 0 or 1

    Assumes: a used axis is used entirely.
    Units: size, share [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> axis_size(4.0, 1.0), axis_size(4.0, 0.0)
    (4.0, 1.0)
    """
    return 1.0 + share * (size - 1.0)


def gather_message(first: Number, second: Number) -> Number:
    """Return the bytes of the smaller of two arrays, the one to gather.

    V = min(V_1, V_2)

    Assumes: case 4, both operands are sharded over one axis, and gathering either resolves this.
    Units: two arrays [B] -> [B].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(gather_message(3.0, 2.0))
    2.0
    """
    return smaller(first, second)


def gather_time(message: Number, bandwidth: Number) -> Number:
    """Return the bandwidth time of a gather, or of a reduce-scatter, over mesh axes.

    t = V / W; the caller must exclude groups of one device

    Assumes: W is the rate of all axes in use, both directions; V is the gathered array.
    Units: message [B], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> gather_time(4.0, 2.0)
    2.0
    """
    return message / bandwidth


def reduce_time(message: Number, bandwidth: Number) -> Number:
    """Return the bandwidth time of an all-reduce over mesh axes: a scatter and a gather.

    t = 2 V / W

    Assumes: as gather_time.
    Units: message [B], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> reduce_time(4.0, 2.0)
    4.0
    """
    return 2.0 * gather_time(message, bandwidth)


def strategy_time(math_time: Number, link_time: Number) -> Number:
    """Return the time of a sharded product by one strategy.

    t = max(t_math, t_link)

    Assumes: messages and arithmetic overlap; memory traffic does not count.
    Units: two times [s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(strategy_time(1.0, 2.0))
    2.0
    """
    return larger(math_time, link_time)


def critical_contraction(
    out_width: Number, passes: Number, shards: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return the contraction width from which multiplying first and reducing is compute bound.

    D* = p s_o X C / (2 W), at which 2 B D F / (X C) = p s_o B F / W

    Assumes: p = 2 passes for an all-reduce, 1 for a reduce-scatter; neither B nor F matters.
    Units: out_width [B], passes, shards [1], rate [FLOP/s], bandwidth [B/s] -> [1].
    Source: docs/models/op_rooflines.md, sections 1 and 9.

    >>> round(critical_contraction(2.0, 2.0, 2.0, 1.97e14, 9e10))
    8756
    """
    return passes * out_width * shards * rate / (2.0 * bandwidth)


def critical_shards(
    hidden: Number, out_width: Number, passes: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return the shards up to which multiplying first and reducing is compute bound.

    X* = 2 D W / (p s_o C), which is D / (2 alpha) for 2 bytes and an all-reduce, alpha = C / W

    Assumes: as critical_contraction, solved for X.
    Units: hidden [1], out_width [B], passes [1], rate [FLOP/s], bandwidth [B/s] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> critical_shards(8192.0, 2.0, 2.0, 2048.0, 1.0)
    2.0
    """
    return 2.0 * hidden * bandwidth / (passes * out_width * rate)


def exchange_width(
    batch: Number,
    feedforward: Number,
    gathered: Number,
    out_width: Number,
    passes: Number,
    rate: Number,
    bandwidth: Number,
) -> Number:
    """Return the contraction width from which multiplying first beats gathering.

    D* = p s_o B F / max(2 B F W / C, g), at which the larger of the gather's 2 B D F / C and
    g D / W is the reduction's p s_o B F / W; g = s_w F where the weights are gathered

    Assumes: the sharded product itself is never slower than the whole one; g bytes are gathered
    for every unit of D.
    Units: batch, feedforward [1], gathered, out_width [B], passes [1], rate [FLOP/s], bandwidth
    [B/s] -> [1].
    Source: docs/models/op_rooflines.md, section 3, which gives the limit of a large batch.

    >>> float(exchange_width(1e9, 1.0, 2.0, 2.0, 2.0, 2550.0, 1.0))
    5100.0
    """
    whole_product = 2.0 * batch * feedforward * bandwidth / rate
    return passes * out_width * batch * feedforward / larger(whole_product, gathered)


def exchange_width_large(
    out_width: Number, passes: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return exchange_width for a large batch, where the gathered product is compute bound.

    D* = p s_o C / (2 W), which is 2 C / W for 2 bytes and an all-reduce

    Assumes: as exchange_width, B beyond the batch at which the gather is hidden.
    Units: out_width [B], passes [1], rate [FLOP/s], bandwidth [B/s] -> [1].
    Source: docs/models/op_rooflines.md, sections 3 and 9.

    >>> exchange_width_large(2.0, 2.0, 2550.0, 1.0)
    5100.0
    """
    return passes * out_width * rate / (2.0 * bandwidth)


def message_ratio(gathered: Number, scattered: Number) -> Number:
    """Return the ratio of the bytes to gather an operand and to scatter the result.

    r = V_gather / V_scatter, D / F for [B, D] gathered and [B, F] scattered at equal widths

    Assumes: both over the same mesh axes.
    Units: two arrays [B] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> message_ratio(4096.0, 1024.0)
    4.0
    """
    return gathered / scattered


def shared(devices: Number) -> Number:
    """Return 0 for a group of one device, which sends nothing, and 1 for any other.

    Assumes: nothing.
    Units: devices [1] -> [1].
    Source: docs/models/op_rooflines.md, section 3: a collective of one member moves no byte.

    >>> float(shared(1.0)), float(shared(2.0))
    (0.0, 1.0)
    """
    return where(devices > 1.0, 1.0, 0.0)
