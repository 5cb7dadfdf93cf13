"""The options --workers and --scheduler."""

import sys

from jaxroof.engine.runs.cluster import Cluster


def cluster_of(workers: int | None, scheduler: str | None) -> Cluster | None:
    """Return who evaluates, None for this process alone."""
    if workers is None and scheduler is None:
        return None
    return Cluster(workers, scheduler, lambda said: print(said, file=sys.stderr, flush=True))
