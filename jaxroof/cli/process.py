"""Set-up of the command-line process: one device per core, streams and signals."""

import _thread
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from jaxroof.io.history import of_command


def start() -> None:
    """Let JAX have one device per core, once it is imported."""
    from jaxroof.lazy_jax import with_jax

    with_jax(lambda jax: jax.config.update("jax_num_cpu_devices", _cores()))


def act(command: str, options: Mapping[str, Any]) -> NoReturn:
    """Import the action of a command's module, set up JAX, act, and exit with the status."""
    name = command.rpartition(".")[2]
    action = importlib.import_module(f"jaxroof.cli.actions.{name}")
    start()
    _settle_arrays()
    with of_command(click.get_current_context().obj or ""):
        sys.exit(getattr(action, f"{name}_command")(**options) or 0)


def _settle_arrays() -> None:
    """Let xarray find out now, without dask, which arrays there are.

    It would import the arrays of dask, if that is installed, for the first of our variables, none
    of which is one of them. Whoever needs dask later imports it as usual.
    """
    if "xarray" not in sys.modules or "dask" in sys.modules:
        return
    sys.modules["dask"] = None  # type: ignore[assignment]  # an import of it fails
    try:
        sys.modules["xarray"].Variable((), 0.0)
    finally:
        del sys.modules["dask"]


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)
    return len(usable(0)) if usable else os.cpu_count() or 1


def prepare_streams() -> None:
    """Print what a stream can encode; exit on a closed pipe like other tools; lose no Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    before = sys.unraisablehook
    if before.__module__ == __name__:  # called before in this process
        return

    def again(what: Any) -> None:
        """Raise the interrupt again if a callback of a library swallowed the first Ctrl-C."""
        if what.exc_type is None or not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)
            return
        timer = threading.Timer(0.02, _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    sys.unraisablehook = again


def outlive_connections() -> None:
    """Let a server go on when a browser leaves: a closed connection is an error, not the end."""
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def silence(stream: Any) -> None:
    """Make a stream that cannot be written end silently."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
