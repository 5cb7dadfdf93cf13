"""The one place that keeps lists of plans for the next question, bounded by their bytes."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

MOST_BYTES = 1 << 28  # of all lists that are kept; the latest stays, however long it is


class Sized(Protocol):
    """A list of plans that knows its bytes."""

    @property
    def nbytes(self) -> int:
        """Return the bytes that it keeps."""


Found = TypeVar("Found", bound=Sized)


class KeptLists:
    """The latest results of functions of hashable arguments, as many as the bytes allow."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.found: OrderedDict[Any, Sized] = OrderedDict()
        self.lock = threading.Lock()

    def __call__(self, function: Callable[..., Found]) -> Callable[..., Found]:
        """Return a function that lists anew only what is not kept."""

        @functools.wraps(function)
        def once(*asked: Any) -> Found:
            key = (function, *asked)
            with self.lock:
                if key in self.found:
                    self.found.move_to_end(key)
                    return self.found[key]  # type: ignore[return-value]
            new = function(*asked)
            with self.lock:
                self.found[key] = new
                while len(self.found) > 1 and self.nbytes > self.most:
                    self.found.popitem(last=False)
            return new

        return once

    @property
    def nbytes(self) -> int:
        """Return the bytes of all lists that are kept."""
        return sum(some.nbytes for some in self.found.values())


kept = KeptLists()
