"""Roofline time of one operation: arithmetic, and the traffic that it cannot hide."""

from typing import Any

import numpy as np

from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number


def compute_time(flops: Number, rate: Number, efficiency: Number, launch_latency: Number) -> Number:
    """Return the time of the arithmetic of an operation, including its launch.

    t = l + F / (e P)

    Assumes: Q13, one launch per operation and direction, within the roofline.
    Units: flops [FLOP], rate [FLOP/s], efficiency [1], launch_latency [s] -> [s].
    Source: docs/models/transformer_model.md, section 3.

    >>> float(compute_time(8.0, 10.0, 0.8, 1.0))
    2.0
    """
    return launch_latency + flops / (efficiency * rate)


def exposed_memory_time(traffic: Number, compute: Number, hbm_bandwidth: Number) -> Number:
    """Return the exposed memory time: the traffic that arithmetic does not hide.

    t = max(Y / W - t_compute, 0), so that arithmetic plus exposed traffic is the roofline's larger.

    Assumes: traffic and arithmetic overlap perfectly; the full bandwidth is reached (M6).
    Units: traffic [B], compute [s], hbm_bandwidth [B/s] -> [s].
    Source: docs/models/transformer_model.md, section 3.

    >>> float(exposed_memory_time(6.0, 1.0, 2.0))
    2.0
    """
    return larger(traffic / hbm_bandwidth - compute, 0.0)


def exposed_panels(panel: Number, panels: Number, work: Number) -> Number:
    """Return the communication that the panels of a product cannot hide behind its work.

    t = p + max(n p - w, 0)

    Assumes: Q4, the first panel's messages are exposed, and count once more where links bind.
    Units: panel (the messages of one panel) [s], panels [1], work [s] -> [s].
    Source: docs/models/transformer_model.md, section 3.

    >>> float(exposed_panels(2.0, 4.0, 5.0))
    5.0
    """
    return panel + larger(panels * panel - work, 0.0)


def lower_bound(math_time: Number, memory_time: Number, link_time: Number) -> Number:
    """Return a lower bound on the time of an operation: arithmetic and all transfers overlap.

    t = max(t_math, t_memory, t_link)

    Assumes: nothing waits for anything else.
    Units: three times [s] -> [s].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(lower_bound(1.0, 3.0, 2.0))
    3.0
    """
    return larger(larger(math_time, memory_time), link_time)


def upper_bound(math_time: Number, memory_time: Number, link_time: Number) -> Number:
    """Return an upper bound on the time of an operation: arithmetic and transfers in sequence.

    t = t_math + t_memory + t_link, at most twice the lower bound if two of them take time, and
    three times if all do.

    Assumes: nothing overlaps.
    Units: three times [s] -> [s].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(upper_bound(1.0, 3.0, 2.0))
    6.0
    """
    return math_time + memory_time + link_time


def intensity(flops: Number, traffic: Number) -> Number:
    """Return the intensity of an operation: FLOP per byte moved.

    I = F / n

    Assumes: an operation that moves no bytes counts as if it moved one.
    Units: flops [FLOP], traffic [B] -> [FLOP/B].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(intensity(1e12, 1e9))
    1000.0
    """
    return flops / where(traffic > 0.0, traffic, 1.0)


def balance(rate: Number, bandwidth: Number) -> Number:
    """Return the balance of a machine: the FLOP per byte at which both its limits are equal.

    beta = C / W

    Assumes: peak rates.
    Units: rate [FLOP/s], bandwidth [B/s] -> [FLOP/B].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(balance(9.89e14, 1e10))
    98900.0
    """
    return rate / bandwidth


def reachable_rate(amount: Number, rate: Number, bandwidth: Number) -> Number:
    """Return the roofline: the highest FLOP rate of an operation of a given intensity.

    r = min(C, W I)

    Assumes: arithmetic and transfers overlap.
    Units: amount (the intensity) [FLOP/B], rate [FLOP/s], bandwidth [B/s] -> [FLOP/s].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(reachable_rate(100.0, 1e6, 1e3)), float(reachable_rate(1e4, 1e6, 1e3))
    (100000.0, 1000000.0)
    """
    return smaller(bandwidth * amount, rate)


def critical_rows(
    fixed_traffic: Number,
    row_flops: Number,
    row_traffic: Number,
    rate: Number,
    bandwidth: Number,
) -> Number:
    """Return the rows from which an operation is compute bound: 0 if none or any number is enough.

    B* = (w / W) / (f / C - a / W), the batch at which B f / C = (w + B a) / W

    Assumes: w bytes move once, a bytes and f FLOP a row; without a finite positive solution, 0.
    Units: fixed_traffic [B], row_flops [FLOP], row_traffic [B], rate [FLOP/s], bandwidth [B/s] ->
    [1].
    Source: docs/models/op_rooflines.md, section 9.

    >>> float(critical_rows(8.0, 4.0, 1.0, 2.0, 1.0))
    8.0
    >>> float(critical_rows(8.0, 4.0, 2.0, 2.0, 1.0))
    0.0
    """
    gain = row_flops / rate - row_traffic / bandwidth
    rows = fixed_traffic / bandwidth / where(gain > 0.0, gain, 1.0)
    return where(gain > 0.0, rows, 0.0)


def rows_can_bind(row_flops: Number, row_traffic: Number, rate: Number, bandwidth: Number) -> Any:
    """Return whether an operation is compute bound for enough rows.

    f / C > a / W

    Assumes: as critical_rows.
    Units: row_flops [FLOP], row_traffic [B], rate [FLOP/s], bandwidth [B/s] -> boolean.
    Source: docs/models/op_rooflines.md, section 9.

    >>> bool(rows_can_bind(4.0, 1.0, 2.0, 1.0)), bool(rows_can_bind(4.0, 2.0, 2.0, 1.0))
    (True, False)
    """
    return np.True_ & (row_flops / rate > row_traffic / bandwidth)


def critical_rows_small(
    fixed_traffic: Number, row_flops: Number, rate: Number, bandwidth: Number
) -> Number:
    """Return the rows from which an operation is compute bound if their own bytes are negligible.

    B* = w C / (f W)

    Assumes: the bytes of the rows are small compared with the fixed ones.
    Units: fixed_traffic [B], row_flops [FLOP], rate [FLOP/s], bandwidth [B/s] -> [1].
    Source: docs/models/op_rooflines.md, section 1.

    >>> float(critical_rows_small(8.0, 4.0, 2.0, 1.0))
    4.0
    """
    return fixed_traffic * rate / (row_flops * bandwidth)
