"""Closed-form schedules with one stage per device and two kinds of visits."""

import numpy as np

from jaxroof.schedules.table import BACKWARD, FORWARD, Schedule


def chain(stages: int) -> np.ndarray:
    """Return the stage that receives the output of each stage, for one route through all stages.

    >>> chain(3).tolist()
    [1, 2, -1]
    """
    return np.append(np.arange(1, stages), -1)


def gpipe(devices: int, microbatches: int) -> Schedule:
    """Return GPipe: all forwards, then all backwards, in the same order of microbatches.

    forward at i + k, backward at M + 2 (P - 1) - i + k, of microbatch k on device i

    Source: Huang et al. 2018 (arXiv 1811.06965), section 2.3 (there the backwards run in
    reverse order, in the same number of timesteps); docs/models/distir_model.md, section 4.

    >>> gpipe(2, 3).kind.T.tolist()
    [[1, 1, 1, 0, 0, 2, 2, 2], [0, 1, 1, 1, 2, 2, 2, 0]]
    """
    i, k = _cells(devices, microbatches)
    return _placed("gpipe", i + k, microbatches + 2 * (devices - 1) - i + k)


def greedy(devices: int, microbatches: int) -> Schedule:
    """Return greedy 1F1B: a device starts any visit that is ready, alternating if both kinds are.

    w = min(M, 2 (P - i) - 1) forwards before the first backward; backward at 2 P - 1 - i + 2 k,
    forward at i + k for k < w, then at 2 P - i + 2 (k - w), of microbatch k on device i

    Source: docs/models/distir_model.md, section 4.

    >>> greedy(2, 3).kind.T.tolist()
    [[1, 1, 1, 2, 0, 2, 0, 2], [0, 1, 2, 1, 2, 1, 2, 0]]
    """
    i, k = _cells(devices, microbatches)
    first = np.minimum(microbatches, 2 * (devices - i) - 1)
    forward = np.where(k < first, i + k, 2 * devices - i + 2 * (k - first))
    return _placed("1f1b-greedy", forward, 2 * devices - 1 - i + 2 * k)


def one_forward_one_backward(devices: int, microbatches: int) -> Schedule:
    """Return 1F1B with the fewest microbatches in flight that keep the pipeline busy.

    w = min(M, P - i) forwards before the first backward; backward at 2 P - 1 - i + 2 k, forward at
    i + k for k < w, then at i + 2 k, of microbatch k on device i

    Source: Narayanan et al. 2021 (arXiv 2104.04473), section 2.2.1; docs/models/distir_model.md,
    section 10, row 9.

    >>> one_forward_one_backward(2, 3).kind.T.tolist()
    [[1, 1, 0, 2, 1, 2, 0, 2], [0, 1, 2, 1, 2, 1, 2, 0]]
    """
    i, k = _cells(devices, microbatches)
    forward = np.where(k < np.minimum(microbatches, devices - i), i + k, i + 2 * k)
    return _placed("1f1b", forward, 2 * devices - 1 - i + 2 * k)


def _cells(devices: int, microbatches: int) -> tuple[np.ndarray, np.ndarray]:
    """Return device and microbatch as arrays [devices, 1] and [1, microbatches]."""
    return np.arange(devices)[:, None], np.arange(microbatches)[None, :]


def _placed(name: str, forward: np.ndarray, backward: np.ndarray) -> Schedule:
    """Return the schedule with visits at the given timesteps [devices, microbatches]."""
    devices, microbatches = forward.shape
    i, k = (np.broadcast_to(cell, forward.shape) for cell in _cells(devices, microbatches))
    shape = (int(max(forward.max(), backward.max())) + 1, devices)
    kind, stage, microbatch = (np.zeros(shape, np.int64) for _ in range(3))
    for what, timestep in ((FORWARD, forward), (BACKWARD, backward)):
        kind[timestep, i], stage[timestep, i], microbatch[timestep, i] = what, i, k
    return Schedule(name, microbatches, np.arange(devices), chain(devices), kind, stage, microbatch)
