"""Set-up of the command-line process: one device per core, streams and signals."""

import contextlib
import io
import math
import os
import signal
import sys
import threading
import time
import types
from typing import Any, NoReturn

SHOW_CURSOR = "\x1b[?25h"
AGAIN = 1.0  # seconds in which a second Ctrl-C is the first one, which is being cleaned up after


def start() -> None:
    """Let JAX have one device per core, once it is imported; do not import dask with xarray."""
    from jaxroof.lazy_jax import with_jax

    with_jax(lambda jax: jax.config.update("jax_num_cpu_devices", _cores()))
    if "dask" in sys.modules:
        return
    sys.modules["dask"] = None  # type: ignore[assignment]  # which imports for a second
    try:
        import xarray as xr

        xr.Variable((), 0.0)  # finds out now which arrays there are
    finally:
        del sys.modules["dask"]


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def prepare_streams() -> None:
    """Print what a stream can encode; exit on a closed pipe like other tools."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if threading.current_thread() is threading.main_thread():
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        now = signal.getsignal(signal.SIGINT)
        usual = now in (signal.default_int_handler, signal.SIG_DFL)
        if usual or isinstance(now, Interrupts):  # not where a shell said to ignore it
            signal.signal(signal.SIGINT, Interrupts())


class Interrupts:
    """What Ctrl-C does: it interrupts what runs, but not what is cleaned up after the last one."""

    def __init__(self) -> None:
        self.last = 0.0

    def __call__(self, number: int, frame: types.FrameType | None) -> None:
        """Raise KeyboardInterrupt, unless one was raised a moment ago."""
        before, now = self.last, time.monotonic()
        self.last = max(before, now)
        if now - before > AGAIN or not before:
            signal.default_int_handler(number, frame)


def restore_interrupts(before: Any) -> None:
    """Let Ctrl-C do what it did before the command."""
    if isinstance(signal.getsignal(signal.SIGINT), Interrupts):
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def interrupted() -> bool:
    """Return whether Ctrl-C was seen, whatever a library made of it."""
    now = signal.getsignal(signal.SIGINT)
    return isinstance(now, Interrupts) and now.last > 0.0


def interrupt_once() -> None:
    """Let no further interrupt follow; show the cursor that a spinner hides."""
    now = signal.getsignal(signal.SIGINT)
    if isinstance(now, Interrupts):
        now.last = math.inf
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)


def leave(code: int) -> NoReturn:
    """End the process at once, whatever its threads still do."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def outlive_connections() -> None:
    """Let a server go on when a browser leaves: a closed connection is an error, not the end."""
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def silence(stream: Any) -> None:
    """Make a stream that cannot be written end silently."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
