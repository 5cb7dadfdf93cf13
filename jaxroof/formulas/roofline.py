"""Roofline time of one operation: arithmetic, and the traffic that it cannot hide."""

from jaxroof.formulas.arithmetic import larger
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
