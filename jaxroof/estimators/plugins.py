"""Estimators by name, including user-defined ones, whose modules are code that is run."""

import contextlib
import importlib
import importlib.util
import os
import pathlib
import re
import sys
import types
from collections.abc import Iterator

from jaxroof.errors import InputError, brief, nearest, refusal, shown
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator

WORD = r"[A-Za-z_][A-Za-z0-9_]*"
OWN = re.compile(rf"({WORD}(?:\.{WORD})*):({WORD})")  # MODULE:NAME, words and dots only
TRUST = "the file runs the code of {} beside it; read it, then use --trust (trust=True in Python)"


def estimator_of(spelled: str, folder: pathlib.Path, trust: bool = False) -> Estimator:
    """Return an estimator by name, or a user-defined ``module:name``.

    The module is the file of that name in the folder, which is imported only with ``trust``, or
    else an installed one. The current folder is not searched.
    Raises: InputError that suggests the nearest name or says why the import failed.
    """
    if ":" not in spelled:
        return estimator(spelled)
    match = OWN.fullmatch(spelled)
    if match is None:
        what = "expected MODULE:NAME of words and dots, such as ring:estimator"
        raise refusal("", f"{shown(spelled)}: no module and name; {what}")
    home, attribute = match.groups()
    module = _imported(home, folder.resolve(), trust)
    found = getattr(module, attribute, None)
    if not isinstance(found, Estimator):
        what = "no such name there" if found is None else f"a {type(found).__name__}"
        own = (name for name, value in vars(module).items() if isinstance(value, Estimator))
        near = nearest(attribute, own)
        remedy = f". Did you mean {near!r}?" if near else "; expected a jaxroof.Estimator"
        raise InputError(f"{brief(spelled)} is {what}{remedy}")
    return found


def _imported(home: str, folder: pathlib.Path, trust: bool) -> types.ModuleType:
    """Return the module beside a file, if that is trusted, or the installed one."""
    path = folder.joinpath(*home.split(".")).with_suffix(".py")
    package = (folder / home.partition(".")[0]).is_dir()
    if (path.is_file() or package) and not trust and not _is_installed(home, path):
        raise InputError(TRUST.format(path.name))
    try:
        return (
            _beside(path, folder) if trust and path.is_file() else _installed(home, folder, trust)
        )
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == home.partition(".")[0]:
            near = nearest(home, [path.stem for path in folder.glob("*.py")])
            reason = f"no such file in {folder}, and no such module is installed"
            reason += f". Did you mean {near!r}?" if near else f"; expected {path.name} there"
        raise InputError(f"{brief(home)} cannot be imported: {reason}") from error


def _is_installed(home: str, path: pathlib.Path) -> bool:
    """Return whether a module is installed: that very file, where there is one."""
    try:
        with _searched(_safe()):
            spec = importlib.util.find_spec(home)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    return not path.is_file() or (spec.origin is not None and path.samefile(spec.origin))


def _beside(path: pathlib.Path, folder: pathlib.Path) -> types.ModuleType:
    """Return the module of a file, which its full path identifies; it may import its neighbours."""
    spec = importlib.util.spec_from_file_location(str(path), path)
    assert spec is not None
    assert spec.loader is not None
    with _searched([str(folder), *sys.path]):
        module = sys.modules[str(path)] = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[str(path)]
            raise
    return module


def _installed(home: str, folder: pathlib.Path, trust: bool) -> types.ModuleType:
    """Return an installed module, or with ``trust`` one of a package beside the file."""
    with _searched([*([str(folder)] if trust else []), *_safe()]):
        return importlib.import_module(home)


def _safe() -> list[str]:
    """Return where installed modules are: not the current folder, which Python may put first."""
    here = os.getcwd()
    places = enumerate(sys.path)
    return [some for at, some in places if some and (at or os.path.realpath(some) != here)]


@contextlib.contextmanager
def _searched(places: list[str]) -> Iterator[None]:
    """Search other places for modules during the block."""
    before = sys.path[:]
    sys.path[:] = places
    try:
        yield
    finally:
        sys.path[:] = before
