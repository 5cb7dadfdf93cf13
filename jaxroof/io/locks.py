"""File locks: one run at a time writes a file or a store; the system frees a dead run's lock."""

import io
import os
from typing import TYPE_CHECKING

from jaxroof.errors import refusal

if TYPE_CHECKING:
    from filelock import BaseFileLock

Path = str | os.PathLike[str]
TAKEN = "another run is writing it"


def acquired(lock: Path, path: Path) -> "BaseFileLock":
    """Acquire the lock file ``lock`` and return the lock; errors name ``path``.

    Raises: InputError if another run has locked it; OSError.
    """
    from filelock import FileLock, Timeout

    try:
        return FileLock(lock).acquire(timeout=0).lock
    except Timeout:
        raise refusal(os.fspath(path), TAKEN) from None


def in_place(stream: io.FileIO, path: Path) -> bool:
    """Return whether a path still names the open file."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except FileNotFoundError:
        return False
