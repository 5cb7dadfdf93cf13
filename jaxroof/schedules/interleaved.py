"""Interleaved 1F1B: a device holds several stages, so the pipeline fills in smaller steps."""

import numpy as np

from jaxroof.errors import refusal
from jaxroof.schedules.gpipe_1f1b import chain
from jaxroof.schedules.table import BACKWARD, FORWARD, Schedule, Visit, schedule_table


def interleaved(devices: int, microbatches: int, chunks: int) -> Schedule:
    """Return interleaved 1F1B with stage s on device s mod P, ``chunks`` stages per device.

    A device passes groups of P microbatches through its stages: forwards from its first stage to
    its last, backwards from its last to its first. Device i runs 2 (P - i - 1) + (v - 1) P forwards
    before it alternates one forward with one backward.

    Assumes: the devices divide the microbatches; at least two stages per device.
    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.2 and Figure 4.
    Raises: InputError for numbers of microbatches or chunks that are not allowed.

    >>> interleaved(2, 2, 2).stage.T.tolist()[0]
    [0, 0, 2, 2, 0, 2, 0, 2, 0, 0]
    """
    if chunks < 2:
        said = f"chunks: expected 2 stages a device or more, given {chunks}"
        raise refusal("interleaved", f"{said}; one is the schedule '1f1b'")
    if microbatches % devices:
        said = f"microbatches: expected a multiple of the {devices} devices, given {microbatches}"
        raise refusal("interleaved", said)
    stages = devices * chunks
    orders = [_order(device, devices, microbatches, chunks) for device in range(devices)]
    return schedule_table(
        "interleaved", microbatches, np.arange(stages) % devices, chain(stages), orders
    )


def _order(device: int, devices: int, microbatches: int, chunks: int) -> list[Visit]:
    """Return the visits of one device: warmup forwards, alternating pairs, final backwards."""
    up = range(device, devices * chunks, devices)
    forwards = _visits(FORWARD, up, devices, microbatches)
    backwards = _visits(BACKWARD, up[::-1], devices, microbatches)
    ahead = min(len(forwards), 2 * (devices - device - 1) + (chunks - 1) * devices)
    pairs = zip(forwards[ahead:], backwards, strict=False)
    steady = [visit for pair in pairs for visit in pair]
    return [*forwards[:ahead], *steady, *backwards[len(forwards) - ahead :]]


def _visits(kind: int, stages: range, devices: int, microbatches: int) -> list[Visit]:
    """Return all visits of one kind: group by group of microbatches, each through every stage."""
    return [
        (kind, stage, first + k)
        for first in range(0, microbatches, devices)
        for stage in stages
        for k in range(devices)
    ]
