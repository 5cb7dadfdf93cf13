"""Published figures of the schedules: the microbatches that each device holds at once."""

import numpy as np


def in_flight(name: str, devices: int, microbatches: int, chunks: int = 1) -> np.ndarray:
    """Return the peak number of unreleased forwards on each device.

    gpipe  M                       1f1b         min(M, P - i)
    zb-h1  min(M, P)               1f1b-greedy  min(M, 2 (P - i) - 1)
    dualpipe  P + 1                interleaved  min(M v, 2 (P - i - 1) + (v - 1) P + 1)

    Assumes: a forward is one microbatch in one stage. Its backward releases it, or its weight
    gradient where that is a separate visit. Each overlapping pair of dualpipe holds both of its
    microbatches.
    Units: [1].
    Source: as ``bubble``; Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.3, for
    interleaved: (1 + (P - 1) / (P v)) P v on the first device; docs/models/distir_model.md,
    section 4,
    for 1f1b-greedy.
    """
    i, every = np.arange(devices), np.ones(devices, np.int64)
    behind = devices - 1 - i
    most = {
        "gpipe": microbatches * every,
        "1f1b-greedy": np.minimum(microbatches, 2 * behind + 1),
        "1f1b": np.minimum(microbatches, behind + 1),
        "interleaved": np.minimum(microbatches * chunks, 2 * behind + (chunks - 1) * devices + 1),
        "zb-h1": np.minimum(microbatches, devices) * every,
        "dualpipe": (devices + 1) * every,
    }
    return most[name]
