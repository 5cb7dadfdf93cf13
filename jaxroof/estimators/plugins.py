"""Estimators by name, including user-defined ones."""

import importlib
import importlib.util
import os
import pathlib
import sys
import types

from jaxroof.errors import InputError, nearest, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import estimator, names


def estimator_of(spelled: str, folder: pathlib.Path) -> Estimator:
    """Return an estimator by name, or a user-defined ``module:name`` from the folder of the file.

    Raises: InputError that suggests the nearest name or says why the import failed.
    """
    home, colon, attribute = spelled.partition(":")
    if not colon:
        return estimator(spelled)
    if not home or not attribute:
        raise unknown("", spelled, "estimator", ["MODULE:NAME", *names()])
    try:
        module = _module(home, folder.resolve())
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        if isinstance(error, ModuleNotFoundError) and error.name == home.partition(".")[0]:
            near = nearest(home, [path.stem for path in folder.glob("*.py")])
            reason = f"no such file in {folder.resolve()}, in the current folder or on sys.path"
            reason += f". Did you mean {near!r}?" if near else f"; expected {home}.py there"
        raise InputError(f"{home} cannot be imported: {reason}") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Estimator):
        what = "no such name there" if found is None else f"a {type(found).__name__}"
        own = (name for name, value in vars(module).items() if isinstance(value, Estimator))
        near = nearest(attribute, own)
        remedy = f". Did you mean {near!r}?" if near else "; expected a jaxroof.Estimator"
        raise InputError(f"{spelled} is {what}{remedy}")
    return found


def _module(home: str, folder: pathlib.Path) -> types.ModuleType:
    """Return an installed module, or one beside the sweep file, which its full path identifies."""
    path = folder.joinpath(*home.split(".")).with_suffix(".py")
    sys.path[:0] = [str(folder), os.getcwd()]
    try:
        if not path.is_file():
            return importlib.import_module(home)
        spec = importlib.util.spec_from_file_location(str(path), path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[str(path)] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        del sys.path[:2]
