"""What a worker process of a local cluster does first (dask imports it by name)."""

import signal
from typing import Any


def dask_setup(worker: Any) -> None:
    """Leave Ctrl-C to the client: it keeps what is finished, and then ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
