"""ZB-H1: delayed weight gradients let input gradients finish sooner and fill the drain phase."""

import numpy as np

from jaxroof.schedules.gpipe_1f1b import chain
from jaxroof.schedules.table import BACKWARD, FORWARD, WEIGHT, Schedule, Visit, schedule_table


def zero_bubble(devices: int, microbatches: int) -> Schedule:
    """Return ZB-H1: 1F1B with weight gradients delayed by i backwards on device i.

    Device i runs P - 1 - i forwards, then alternates one forward and one backward (of the input
    only). The weight gradient of a microbatch runs i backwards later, and the remaining ones run at
    the end. So every device holds at most P microbatches, like the first device of 1F1B.

    Source: Qi et al. 2023 (arXiv 2401.10241), section 2.1.

    >>> zero_bubble(2, 2).kind.T.tolist()
    [[1, 1, 0, 2, 3, 2, 3], [0, 1, 2, 1, 2, 3, 3]]
    """
    orders = [_order(device, devices, microbatches) for device in range(devices)]
    return schedule_table("zb-h1", microbatches, np.arange(devices), chain(devices), orders)


def _order(device: int, devices: int, microbatches: int) -> list[Visit]:
    ahead, lag = min(microbatches, devices - 1 - device), device
    order: list[Visit] = [(FORWARD, device, k) for k in range(ahead)]
    for k in range(microbatches + lag):
        steps = ((FORWARD, k + ahead), (BACKWARD, k), (WEIGHT, k - lag))
        order += [(kind, device, at) for kind, at in steps if 0 <= at < microbatches]
    return order
