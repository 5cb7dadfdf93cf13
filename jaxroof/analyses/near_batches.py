"""A batch near the one that is asked for which divides better, and so trains faster."""

from collections.abc import Callable, Iterator

import xarray as xr

from jaxroof.errors import InputError

MULTIPLES = (64, 16)  # sequences: batches of which most degrees divide
WORTH = 1.05  # times as many sequences a second that are worth a sentence


def near_batches(batch: int) -> Iterator[int]:
    """Yield the nearest multiples to a batch that divides badly, none if it divides well.

    >>> list(near_batches(1023)), list(near_batches(1024)), list(near_batches(48))
    ([1024, 1008], [], [])
    """
    if any(batch % size == 0 for size in MULTIPLES):
        return
    for size in MULTIPLES:
        near = max(round(batch / size), 1) * size
        yield near if size == MULTIPLES[0] or near % MULTIPLES[0] else near - size


def better_batch(
    best: xr.Dataset, batch: int, ask: Callable[[int], xr.Dataset]
) -> tuple[int, float] | None:
    """Return the near batch that trains most sequences a second, and how many times as many.

    Arguments: ``best`` are the fastest plans at ``batch``, ``ask`` returns those at another. None
    if no near batch is worth it.
    """
    found: dict[int, float] = {}
    for near in near_batches(batch):
        try:
            found[near] = float(ask(near).throughput[0] / best.throughput[0])
        except InputError:  # no plan is legal or fits there
            continue
    most = max(found, key=lambda near: found[near], default=None)
    return (most, found[most]) if most is not None and found[most] >= WORTH else None
