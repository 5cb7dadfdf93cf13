"""Limits of this process that stand for a disk that fills."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Refuse to let a file grow beyond some bytes, as a full disk does."""
    resource = pytest.importorskip("resource", reason="limits of a process")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
