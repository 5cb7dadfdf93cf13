"""JAX is imported where it is first needed; what it must know of jaxroof is told to it then."""

import importlib.abc
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Act = Callable[[Any], None]  # gets the module jax
PLAIN = frozenset({bool, int, float, np.bool_, np.float64, np.ndarray})  # known at a glance


class _OnImport(importlib.abc.MetaPathFinder):
    """Wait for the import of JAX, by anyone; then run what waits for it."""

    def __init__(self) -> None:
        self.waiting: list[Act] | None = []  # None once JAX is there
        self.lock = threading.Lock()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> Any:
        """Return how to import JAX, with our part after it; nothing for other modules."""
        if name != "jax" or self.waiting is None:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            self.imported(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def imported(self, jax: Any) -> None:
        """Run what waits, in its order."""
        with self.lock:
            waiting, self.waiting = self.waiting or [], None
        for act in waiting:
            act(jax)

    def add(self, act: Act) -> None:
        """Run something now if JAX is there, else after its import."""
        with self.lock:
            if self.waiting is not None:
                self.waiting.append(act)
                return
        act(sys.modules["jax"])


_on_import = _OnImport()
if "jax" in sys.modules:
    _on_import.imported(sys.modules["jax"])
else:
    sys.meta_path.insert(0, _on_import)


def with_jax(act: Act) -> None:
    """Call a function with the module jax: now if it is imported, else right after its import."""
    _on_import.add(act)


def namespace(*values: Any) -> Any:
    """Return ``jax.numpy`` if any of the values is an array of JAX, else ``numpy``.

    >>> namespace(1.0, np.ones(2)).__name__
    'numpy'
    """
    kind: Any = getattr(sys.modules.get("jax"), "Array", ())
    for value in values:  # not a generator, which takes longer than the question
        if type(value) not in PLAIN and isinstance(value, kind):
            return sys.modules["jax.numpy"]
    return np


def is_traced(value: Any) -> bool:
    """Return whether a number is one that JAX traces, which has no value yet.

    >>> is_traced(1.0)
    False
    """
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)
