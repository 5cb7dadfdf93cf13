"""Locks of the system: one run at a time writes a file or a store; a lock dies with its run."""

import io
import os
from typing import TYPE_CHECKING

from jaxroof.errors import refusal

if TYPE_CHECKING:
    from filelock import BaseFileLock

Path = str | os.PathLike[str]
TAKEN = "another run is writing it"


def acquired(lock: Path, path: Path) -> "BaseFileLock":
    """Return the lock of what ``path`` names, by a lock file that no other run holds.

    Raises: InputError where another run holds it; OSError.
    """
    from filelock import FileLock, Timeout

    try:
        return FileLock(lock).acquire(timeout=0).lock
    except Timeout:
        raise refusal(os.fspath(path), TAKEN) from None


def open_locked(path: Path) -> io.FileIO:
    """Return a file, made where there is none, that no other run has; closing it frees it.

    Raises: InputError where another run has it; OSError.
    """
    from filelock import lock_descriptor

    while True:
        stream = io.FileIO(os.fspath(path), "a+")
        try:
            free = lock_descriptor(stream.fileno(), blocking=False)
            if free and in_place(stream, path):
                return stream
        except BaseException:
            stream.close()
            raise
        stream.close()  # if it was free, whoever had it took it away: there is another, or none
        if not free:
            raise refusal(os.fspath(path), TAKEN)


def in_place(stream: io.FileIO, path: Path) -> bool:
    """Return whether a path still names the file that is open."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
