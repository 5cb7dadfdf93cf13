"""Collectives on a torus: one or several axes of links, each of which carries data both ways.

V is the whole array (after a gather, before a scatter), tau the latency of a hop, W1 the rate of
one link one way. An axis of one device has no links and does not count. Without any axes,
nothing is sent and all times are 0.
"""

from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.formulas.sharding import shared
from jaxroof.records import Number


def used_axes(x: Number, y: Number, z: Number) -> Number:
    """Return how many axes hold more than one device.

    a = sum of [X_i > 1]

    Assumes: nothing.
    Units: sizes of the axes [1] -> [1].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(used_axes(4.0, 4.0, 1.0))
    2.0
    """
    return shared(x) + shared(y) + shared(z)


def ring_hops(x: Number, y: Number, z: Number) -> Number:
    """Return the hops of data on axes that wrap around, half of each axis.

    h = sum X_i / 2 over the axes used

    Assumes: both directions at once.
    Units: sizes of the axes [1] -> [1].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(ring_hops(4.0, 8.0, 1.0))
    6.0
    """
    return (x * shared(x) + y * shared(y) + z * shared(z)) / 2.0


def line_hops(x: Number, y: Number, z: Number) -> Number:
    """Return the hops from end to end of axes that do not wrap around.

    h = sum (X_i - 1)

    Assumes: data must cross every axis; the same for rings that run one way.
    Units: sizes of the axes [1] -> [1].
    Source: docs/models/op_rooflines.md, section 3.

    >>> line_hops(4.0, 4.0, 1.0)
    6.0
    """
    return (x - 1.0) + (y - 1.0) + (z - 1.0)


def far_hops(x: Number, y: Number, z: Number) -> Number:
    """Return the hops to the farthest device where axes wrap around.

    h = sum floor(X_i / 2)

    Assumes: the shorter way on each axis.
    Units: sizes of the axes [1] -> [1].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(far_hops(4.0, 5.0, 1.0))
    4.0
    """
    return whole(x, 2.0) + whole(y, 2.0) + whole(z, 2.0)


def ring_gather(message: Number, axes: Number, bandwidth: Number) -> Number:
    """Return the bandwidth time of a gather, or reduce-scatter, on axes that wrap around.

    t = V / (a W)

    Assumes: W counts both directions of an axis; a device's own shard counts, too (large axes).
    Units: message [B], axes [1], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(ring_gather(8.0, 2.0, 2.0)), float(ring_gather(8.0, 0.0, 2.0))
    (2.0, 0.0)
    """
    return where(axes > 0.0, message, 0.0) / (larger(axes, 1.0) * bandwidth)


def line_gather(message: Number, devices: Number, axes: Number, link: Number) -> Number:
    """Return the bandwidth time of a gather on axes without wraparound, or rings that run one way.

    t = V (1 - 1 / X) / (a W1), on one axis (X - 1) steps of a shard

    Assumes: a device at the end receives over one link per axis.
    Units: message [B], devices, axes [1], link [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3; several axes share the load equally (ours).

    >>> float(line_gather(8.0, 4.0, 1.0, 2.0))
    3.0
    """
    return message * (1.0 - 1.0 / devices) / (larger(axes, 1.0) * link)


def ring_all_to_all(message: Number, devices: Number, longest: Number, bandwidth: Number) -> Number:
    """Return the bandwidth time of an all-to-all on axes that wrap around.

    t = V X / (4 n W), on one axis V / (4 W)

    Assumes: n devices in all, X on the longest axis, which binds; W counts both directions.
    Units: message [B], devices, longest [1], bandwidth [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3; several axes: the same count of bytes that cross
    the middle of the longest one (ours).

    >>> float(ring_all_to_all(8.0, 4.0, 4.0, 2.0))
    1.0
    """
    return shared(devices) * message * longest / (4.0 * devices * bandwidth)


def line_all_to_all(message: Number, devices: Number, longest: Number, link: Number) -> Number:
    """Return the bandwidth time of an all-to-all on axes without wraparound.

    t = V X / (4 n W1): the middle link of an axis carries a quarter of what its devices hold

    Assumes: as ring_all_to_all, with one link at the middle instead of two.
    Units: message [B], devices, longest [1], link [B/s] -> [s].
    Source: the count of section 3 of docs/models/op_rooflines.md, without the second link (ours).

    >>> float(line_all_to_all(8.0, 4.0, 4.0, 2.0))
    1.0
    """
    return shared(devices) * message * longest / (4.0 * devices * link)


def one_way_all_to_all(message: Number, devices: Number, longest: Number, link: Number) -> Number:
    """Return the bandwidth time of an all-to-all on rings that run one way.

    t = V (X - 1) / (2 n W1), on one axis half of a gather's V (1 - 1 / X) / W1

    Assumes: a chunk takes (X - 1) / 2 hops on average.
    Units: message [B], devices, longest [1], link [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(one_way_all_to_all(8.0, 4.0, 4.0, 2.0))
    1.5
    """
    return message * (longest - 1.0) / (2.0 * devices * link)


def shift(message: Number, devices: Number, link: Number) -> Number:
    """Return the bandwidth time of a permutation in which each device sends to its neighbour.

    t = V / (n W1)

    Assumes: every device sends its shard over one link.
    Units: message [B], devices [1], link [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3 (point to point).

    >>> float(shift(8.0, 4.0, 2.0))
    1.0
    """
    return shared(devices) * message / (devices * link)


def send(message: Number, ports: Number, link: Number) -> Number:
    """Return the bandwidth time from one device to another, over all ports that lead there.

    t = V / (p W1)

    Assumes: the paths are disjoint; p = a from corner to corner without wraparound, 2 a with it.
    Units: message [B], ports [1], link [B/s] -> [s].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(send(8.0, 2.0, 2.0)), float(send(8.0, 0.0, 2.0))
    (2.0, 0.0)
    """
    return where(ports > 0.0, message, 0.0) / (larger(ports, 1.0) * link)


def critical_message(message: Number, latency_time: Number, bandwidth_time: Number) -> Number:
    """Return the array size below which latency takes longer than bandwidth.

    V* = V t_latency / t_bandwidth

    Assumes: the bandwidth time is proportional to the array; 0 where nothing is sent.
    Units: message [B], two times [s] -> [B].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(critical_message(8.0, 1.0, 2.0))
    4.0
    """
    sent = bandwidth_time > 0.0
    return where(sent, message * latency_time / where(sent, bandwidth_time, 1.0), 0.0)


def time_ratio(first: Number, second: Number) -> Number:
    """Return the ratio of two times, such as a gather and an all-to-all (4 on a ring).

    r = t_1 / t_2

    Assumes: the ratio is 0 if the second time is 0.
    Units: two times [s] -> [1].
    Source: docs/models/op_rooflines.md, section 3.

    >>> float(time_ratio(4.0, 1.0)), float(time_ratio(0.0, 0.0))
    (4.0, 0.0)
    """
    some = second > 0.0
    return where(some, first / where(some, second, 1.0), 0.0)


def hop_message(link: Number, latency: Number) -> Number:
    """Return the buffer that one link carries in the latency of one hop.

    b = W1 tau: 45 kB at 45 GB/s and 1 us

    Assumes: smaller buffers are latency bound hop by hop.
    Units: link [B/s], latency [s] -> [B].
    Source: docs/models/op_rooflines.md, section 3.

    >>> round(hop_message(4.5e10, 1e-6))
    45000
    """
    return link * latency


def chunks(devices: Number) -> Number:
    """Return the number of chunks that each device of a two-way ring sends or forwards.

    c = floor(N^2 / 4), the sum of min(d, N - d) over all distances d

    Assumes: an all-to-all, one chunk for every device, the shorter way.
    Units: devices [1] -> [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(chunks(8.0)), float(chunks(5.0))
    (16.0, 6.0)
    """
    return whole(devices * devices, 4.0)
