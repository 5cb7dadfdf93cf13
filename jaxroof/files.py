"""Sweep files: a question in TOML, checked line by line and run."""

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import sys
import tomllib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.axes import Spacing, Values
from jaxroof.engine.best import Progress
from jaxroof.engine.search import search
from jaxroof.engine.tabulate import tabulate
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.inputs import Inputs
from jaxroof.estimators.training.step import training
from jaxroof.named import model, system
from jaxroof.records import is_quantity
from jaxroof.settings import settle
from jaxroof.units import parse

KEYS = (
    "title", "estimator", "model", "system", "format", "plan", "set", "inputs", "search", "axes",
)  # fmt: skip
SEARCH_KEYS = {"top": int, "where": str, "objective": str, "placements": bool}
SPACING_KEYS = {"from": (int, float, str), "to": (int, float, str), "count": int, "spacing": str}
SPACINGS = ("linear", "log")


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep file, read and checked."""

    title: str
    estimator: Estimator
    inputs: Any
    recipe: Any
    axes: dict[str, Any]
    options: dict[str, Any]
    searched: bool


def run(path: str | os.PathLike[str], progress: Progress | None = None) -> xr.Dataset:
    """Return the Dataset of a sweep file: a search, or a table where it gives a plan.

    Raises: InputError, led by the file's name, for whatever is wrong with it.
    """
    sweep = read_sweep(path)
    act = search if sweep.searched else tabulate
    with named(path):
        data = act(
            sweep.estimator,
            sweep.inputs,
            sweep.recipe,
            axes=sweep.axes,
            progress=progress,
            **sweep.options,
        )
    return data.assign_attrs(title=sweep.title)


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Lead every refusal in the block with the file's name."""
    try:
        yield
    except InputError as error:
        raise refusal(os.fspath(path), str(error)) from error


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Return the checked contents of a sweep file.

    Raises: InputError, led by the file's name, for a missing or damaged file, an unknown key
    (with the nearest), a wrong type or unit, or a name that is not in the catalogue.
    """
    with named(path):
        return _sweep(_load(path), pathlib.Path(path))


def _sweep(written: dict[str, Any], path: pathlib.Path) -> Sweep:
    _known("", written, KEYS)
    estimator = _estimator(written, path.parent)
    start = _training_inputs if estimator is training else _own_inputs
    inputs = start(written, path.parent, estimator)
    settings = _settings(written)
    given = set(estimator.plan_fields) & set(settings)
    if estimator.plan is not None and given:
        inputs = dataclasses.replace(inputs, plan=_plan(estimator.plan, settings, given))
    rest = {k: v for k, v in settings.items() if k not in given}
    inputs, recipe = settle(inputs, estimator.recipe, rest, estimator.names)
    searched = estimator.candidates is not None and not given
    options = _table(written, "search")
    if options and not searched:
        why = "a plan of your own is given" if given else "this estimator has no plans to choose"
        raise refusal("search", f"nothing to search: {why}; expected no [search]")
    _typed("search", options, SEARCH_KEYS)
    return Sweep(
        title=_text(written, "title", path.stem),
        estimator=estimator,
        inputs=inputs,
        recipe=recipe,
        axes=_axes(_table(written, "axes")),
        options=options,
        searched=searched,
    )


def _settings(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return what [plan] and [set] change together, each field once."""
    plan, changes = _table(written, "plan"), _table(written, "set")
    for key in changes:
        if key in plan:
            raise refusal(f"set.{key}", "given in plan too; expected it once")
    return {**plan, **changes}


def _load(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        return tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError("no such file") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}") from error
    except RecursionError:
        raise InputError("not valid TOML: nested too deeply") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not valid TOML: {error}") from None


def _estimator(written: Mapping[str, Any], folder: pathlib.Path) -> Estimator:
    """Return the training estimator, or the user's own, ``module:name``, found beside the file."""
    spelled = _text(written, "estimator", "training")
    if spelled == "training":
        return training
    home, _, attribute = spelled.partition(":")
    if not home or not attribute:
        raise unknown("estimator", spelled, "estimator", ["training", "MODULE:NAME"])
    try:
        found = getattr(_module(home, folder.resolve()), attribute, None)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise refusal("estimator", f"{home} cannot be imported: {reason}") from error
    if not isinstance(found, Estimator):
        what = "no such name there" if found is None else f"a {type(found).__name__}"
        raise refusal("estimator", f"{spelled} is {what}; expected a jaxroof.Estimator")
    return found


def _module(home: str, folder: pathlib.Path) -> types.ModuleType:
    """Return a module beside the sweep file, known by its whole path, or an installed one."""
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


def _training_inputs(
    written: Mapping[str, Any], folder: pathlib.Path, estimator: Estimator
) -> Inputs:
    for key in ("model", "system"):
        if key not in written:
            raise refusal(key, "missing; expected a name of the catalogue or a TOML file")
    if "inputs" in written:
        raise refusal("inputs", "only for an estimator of your own; use [set] for fields")
    return Inputs(
        model=model(_entry(written, "model", folder)),
        system=system(_entry(written, "system", folder), _text(written, "format", "") or None),
    )


def _entry(written: Mapping[str, Any], key: str, folder: pathlib.Path) -> str:
    """Return a catalogue name, or the path of a TOML file as seen from the sweep file."""
    text = _text(written, key, "")
    return str(folder / text) if text.endswith(".toml") else text


def _own_inputs(written: Mapping[str, Any], folder: pathlib.Path, estimator: Estimator) -> Any:
    for key in ("model", "system", "format"):
        if key in written:
            raise refusal(key, "not of this estimator; expected its fields in [inputs]")
    given = dict(_table(written, "inputs"))
    fields = {f.name: f for f in dataclasses.fields(estimator.inputs)}
    _known("inputs", given, fields, f"field of {estimator.inputs.__name__}")
    for key, field in fields.items():
        missing = field.default is dataclasses.MISSING and key not in given
        if missing and key in _table(written, "axes"):
            given[key] = 1.0  # the axis gives its values
        elif missing:
            raise refusal(f"inputs.{key}", f"missing; expected {field.metadata.get('doc', '')}")
        elif key in given and is_quantity(field):
            given[key] = parse(given[key], field.metadata["unit"], f"inputs.{key}")
    return estimator.inputs(**given)


def _plan(kind: type[Any], settings: Mapping[str, Any], given: set[str]) -> Any:
    """Return a plan with the fields given, every other degree 1."""
    units = {f.name: f.metadata["unit"] for f in dataclasses.fields(kind)}
    values = dict.fromkeys(units, np.float64(1.0))
    for key in given:
        values[key] = np.float64(parse(settings[key], units[key], f"plan.{key}"))
    return kind(**values)


def _axes(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes; a table without ``from`` moves several paths together."""
    read: dict[str, Any] = {}
    for key, values in written.items():
        together = isinstance(values, dict) and values and "from" not in values
        if together and not set(values) & set(SPACING_KEYS):
            read[key] = {path: _values(path, v) for path, v in values.items()}
        else:
            read[key] = _values(key, values)
    return read


def _values(path: str, written: Any) -> Values:
    if isinstance(written, list):
        return written
    if not isinstance(written, dict):
        raise refusal(f"axes.{path}", "expected a list or a table with from, to and count")
    _typed(f"axes.{path}", written, SPACING_KEYS)
    for key in ("from", "to", "count"):
        if key not in written:
            raise refusal(f"axes.{path}", f"{key} is missing; expected from, to and count")
    spacing = written.get("spacing", "linear")
    if spacing not in SPACINGS:
        raise unknown(f"axes.{path}.spacing", spacing, "spacing", SPACINGS)
    return Spacing(written["from"], written["to"], written["count"], log=spacing == "log")


def _table(written: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = written.get(key, {})
    if not isinstance(found, dict):
        raise refusal(key, f"expected a table, given {found!r}")
    return found


def _text(written: Mapping[str, Any], key: str, default: str) -> str:
    found = written.get(key, default)
    if not isinstance(found, str):
        raise refusal(key, f"expected a text, given {found!r}")
    return found


def _known(
    table: str, written: Mapping[str, Any], keys: Any, what: str = "key of a sweep file"
) -> None:
    for key in written:
        if key not in keys:
            raise unknown("", f"{table}.{key}" if table else key, what, keys)


def _typed(table: str, written: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    _known(table, written, kinds)
    for key, value in written.items():
        kind = kinds[key]
        flag = isinstance(value, bool) and kind is not bool
        if flag or not isinstance(value, kind):
            raise refusal(f"{table}.{key}", f"expected {_kind_words(kind)}, given {value!r}")


def _kind_words(kind: Any) -> str:
    words = {int: "a whole number", str: "a text", bool: "true or false"}
    return words.get(kind, "a number or a text with a unit")
