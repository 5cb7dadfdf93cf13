"""Set-up of the command-line process: one device per core, streams and signals."""

import _thread
import contextlib
import importlib
import importlib.machinery
import io
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Mapping
from typing import Any, NoReturn

import click

from jaxroof.cli.stored_question import arguments
from jaxroof.io.history import of_command

SHOW_CURSOR = "\x1b[?25h"
SOON, PATIENCE = 0.05, 10.0  # seconds


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
    context = click.get_current_context()
    with of_command(context.obj or "", arguments(context)):
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
    if threading.current_thread() is threading.main_thread():
        if hasattr(signal, "SIGPIPE"):
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        now = signal.getsignal(signal.SIGINT)
        usual = now in (signal.default_int_handler, signal.SIG_DFL)
        if usual or isinstance(now, Interrupts):  # not where a shell said to ignore it
            signal.signal(signal.SIGINT, Interrupts())
    before = sys.unraisablehook
    if before.__module__ == __name__:  # called before in this process
        return

    def unraisable(what: Any) -> None:
        """Say nothing of an interrupt that a callback of a library swallows: another follows."""
        if what.exc_type is None or not issubclass(what.exc_type, KeyboardInterrupt):
            before(what)

    sys.unraisablehook = unraisable


class Interrupts:
    """What Ctrl-C does: it interrupts what runs, again and again until the command has ended.

    Libraries swallow some interrupts, as a callback from compiled code does. None comes while a
    compiled module is set up, which calls Python, and aborts the process if that is refused; nor
    while what an interrupt ended is cleaned up, however often Ctrl-C is pressed.
    """

    def __init__(self) -> None:
        self.first, self.over = 0.0, False

    def __call__(self, number: int, frame: types.FrameType | None) -> None:
        """Raise KeyboardInterrupt, unless that would break what runs and is over soon."""
        if self.over:
            return
        now = time.monotonic()
        if not self.first:
            self.first = now
            _thread.start_new_thread(self._repeat, ())  # plain, as the locks of others may be held
        if now - self.first < PATIENCE and (_cleans_up() or _sets_up(frame)):
            return
        signal.default_int_handler(number, frame)

    def _repeat(self) -> None:
        """Interrupt the main thread again until the command has ended."""
        while True:
            time.sleep(SOON)
            if self.over:
                return
            _thread.interrupt_main()


def restore_interrupts(before: Any) -> None:
    """Let Ctrl-C do what it did before the command."""
    now = signal.getsignal(signal.SIGINT)
    if isinstance(now, Interrupts):
        now.over = True
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)


def interrupted() -> bool:
    """Return whether Ctrl-C was seen, whatever a library made of it."""
    now = signal.getsignal(signal.SIGINT)
    return isinstance(now, Interrupts) and now.first > 0.0


def interrupt_once() -> None:
    """Let no further interrupt follow; show the cursor that a spinner hides."""
    now = signal.getsignal(signal.SIGINT)
    if isinstance(now, Interrupts):
        now.over = True
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)


def leave(code: int) -> NoReturn:
    """End the process at once, whatever its threads still do."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _cleans_up() -> bool:
    """Return whether what an interrupt ended is being cleaned up: its error is handled now."""
    error = sys.exc_info()[1]
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _sets_up(frame: types.FrameType | None) -> bool:
    """Return whether a compiled module is being imported in a frame or in those that called it."""
    while frame is not None:
        if frame.f_code.co_name in ("create_module", "exec_module") and isinstance(
            frame.f_locals.get("self"), importlib.machinery.ExtensionFileLoader
        ):
            return True
        frame = frame.f_back
    return False


def outlive_connections() -> None:
    """Let a server go on when a browser leaves: a closed connection is an error, not the end."""
    if hasattr(signal, "SIGPIPE") and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def silence(stream: Any) -> None:
    """Make a stream that cannot be written end silently."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
