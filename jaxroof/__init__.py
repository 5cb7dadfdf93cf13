"""jaxroof: analytical performance modelling of transformer training, on arrays.

Names load on first use, so importing the package does not import JAX. The public names and their
modules are listed only in ``__init__.pyi``, which editors and type checkers read too.
"""

import ast
import functools
import importlib
import pathlib
from typing import Any

__version__ = "0.1.0"
_EXTRA = {"plot"}  # a module that needs matplotlib, so ``import *`` leaves it out


@functools.cache
def _homes() -> dict[str, tuple[str, str]]:
    """Return, for every public name, its module and its name there, as read from the stub."""
    stub = pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = (node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom))
    names = ((node.module or "", alias) for node in imports for alias in node.names)
    return {alias.asname or alias.name: (home, alias.name) for home, alias in names}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*_homes()} - _EXTRA)
    if name.startswith("_") or name not in _homes():
        raise _no_attribute(name)
    home, inside = _homes()[name]
    if name in _EXTRA:
        return importlib.import_module(f"{home}.{inside}")
    value = getattr(importlib.import_module(home), inside)
    globals()[name] = value
    return value


def _no_attribute(name: str) -> AttributeError:
    """Return the error for a name that is not public, with the nearest public name."""
    from jaxroof.errors import nearest

    near = None if name.startswith("_") else nearest(name, _homes())
    meant = f". Did you mean {near!r}?" if near else ""
    # `name` is set, so that Python adds no suggestion of its own to the traceback
    return AttributeError(f"module 'jaxroof' has no attribute {name!r}{meant}", name=name)


def __dir__() -> list[str]:
    return sorted(_homes())
