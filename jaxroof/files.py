"""Sweep files: a question in TOML, checked line by line and run."""

import dataclasses
import importlib
import os
import pathlib
import sys
import tomllib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.engine.axes import Spacing, Values, replace_all, settle
from jaxroof.engine.best import Progress
from jaxroof.engine.search import search
from jaxroof.engine.tabulate import tabulate
from jaxroof.errors import InputError, refusal, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.training.inputs import Inputs, Plan
from jaxroof.estimators.training.step import training
from jaxroof.named import model, system
from jaxroof.records import field_at, is_quantity
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
    try:
        data = act(
            sweep.estimator,
            sweep.inputs,
            sweep.recipe,
            axes=sweep.axes,
            progress=progress,
            **sweep.options,
        )
    except InputError as error:
        raise refusal(os.fspath(path), str(error)) from error
    return data.assign_attrs(title=sweep.title)


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Return the checked contents of a sweep file.

    Raises: InputError, led by the file's name, for a missing or damaged file, an unknown key
    (with the nearest), a wrong type or unit, or a name that is not in the catalogue.
    """
    written = _load(path)
    name = os.fspath(path)
    _known(name, "", written, KEYS)
    folder = pathlib.Path(path).parent
    estimator = _estimator(name, written, folder)
    start = _training_inputs(name, written, folder) if estimator is training else None
    inputs = start if start is not None else _own_inputs(name, written, estimator)
    settings = {**_table(name, written, "plan"), **_table(name, written, "set")}
    given = {f.name for f in dataclasses.fields(Plan)} & set(settings)
    if given and estimator is training:
        inputs = dataclasses.replace(inputs, plan=_plan(name, settings, given))
    rest = {k: v for k, v in settings.items() if k not in given}
    inputs, recipe = settle(inputs, estimator.recipe, rest, where=name)
    searched = estimator.candidates is not None and not given
    options = _table(name, written, "search")
    if options and not searched:
        raise refusal(name, "search: not with a plan of your own; expected no [search] or no plan")
    _typed(name, "search", options, SEARCH_KEYS)
    return Sweep(
        title=_text(name, written, "title", pathlib.Path(path).stem),
        estimator=estimator,
        inputs=inputs,
        recipe=recipe,
        axes=_axes(name, _table(name, written, "axes")),
        options=options,
        searched=searched,
    )


def _load(path: str | os.PathLike[str]) -> dict[str, Any]:
    name = os.fspath(path)
    try:
        with open(path, "rb") as stream:
            return tomllib.load(stream)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{name}: not valid TOML: {error}") from None


def _estimator(name: str, written: Mapping[str, Any], folder: pathlib.Path) -> Estimator:
    """Return the training estimator, or the user's own, ``module:name``, found beside the file."""
    spelled = _text(name, written, "estimator", "training")
    if spelled == "training":
        return training
    home, _, attribute = spelled.partition(":")
    if not home or not attribute:
        raise unknown(f"{name}: estimator", spelled, "estimator", ["training", "MODULE:NAME"])
    places = [str(folder.resolve()), os.getcwd()]
    sys.path[:0] = places
    try:
        found = getattr(importlib.import_module(home), attribute, None)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise refusal(name, f"estimator: {home} cannot be imported: {reason}") from error
    finally:
        for place in places:
            sys.path.remove(place)
    if not isinstance(found, Estimator):
        what = "no such name there" if found is None else f"a {type(found).__name__}"
        raise refusal(name, f"estimator: {spelled} is {what}; expected a jaxroof.Estimator")
    return found


def _training_inputs(name: str, written: Mapping[str, Any], folder: pathlib.Path) -> Inputs:
    for key in ("model", "system"):
        if key not in written:
            raise refusal(name, f"{key}: missing; expected a name of the catalogue or a TOML file")
    if "inputs" in written:
        raise refusal(name, "inputs: only for an estimator of your own; use [set] for fields")
    try:
        return Inputs(
            model=model(_entry(name, written, "model", folder)),
            system=system(
                _entry(name, written, "system", folder), _text(name, written, "format", "") or None
            ),
        )
    except InputError as error:
        raise refusal(name, str(error)) from None


def _entry(name: str, written: Mapping[str, Any], key: str, folder: pathlib.Path) -> str:
    """Return a catalogue name, or the path of a TOML file as seen from the sweep file."""
    text = _text(name, written, key, "")
    return str(folder / text) if text.endswith(".toml") else text


def _own_inputs(name: str, written: Mapping[str, Any], estimator: Estimator) -> Any:
    for key in ("model", "system", "format"):
        if key in written:
            raise refusal(name, f"{key}: not of this estimator; expected its fields in [inputs]")
    given = dict(_table(name, written, "inputs"))
    fields = {f.name: f for f in dataclasses.fields(estimator.inputs)}
    for key in given:
        if key not in fields:
            raise unknown(f"{name}: inputs", key, f"field of {estimator.inputs.__name__}", fields)
    for key, field in fields.items():
        missing = field.default is dataclasses.MISSING and key not in given
        if missing and key in _table(name, written, "axes"):
            given[key] = 1.0  # the axis gives its values
        elif missing:
            raise refusal(name, f"inputs.{key}: missing; expected {field.metadata.get('doc', '')}")
        elif key in given and is_quantity(field):
            given[key] = parse(given[key], field.metadata["unit"], f"{name}: inputs.{key}")
    return estimator.inputs(**given)


def _plan(name: str, settings: Mapping[str, Any], given: set[str]) -> Plan:
    start = Plan(data=1.0, tensor=1.0, pipeline=1.0, microbatch=1.0)
    values = {}
    for key in given:
        unit = field_at(start, key).metadata["unit"]
        values[key] = np.float64(parse(settings[key], unit, f"{name}: plan.{key}"))
    return replace_all(start, values)


def _axes(name: str, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the axes; a table without ``from`` moves several paths together."""
    read: dict[str, Any] = {}
    for key, values in written.items():
        together = isinstance(values, dict) and values and "from" not in values
        if together and not set(values) & set(SPACING_KEYS):
            read[key] = {path: _values(name, path, v) for path, v in values.items()}
        else:
            read[key] = _values(name, key, values)
    return read


def _values(name: str, path: str, written: Any) -> Values:
    if isinstance(written, list):
        return written
    if not isinstance(written, dict):
        raise refusal(name, f"axes.{path}: expected a list or a table with from, to and count")
    _typed(name, f"axes.{path}", written, SPACING_KEYS)
    for key in ("from", "to", "count"):
        if key not in written:
            raise refusal(name, f"axes.{path}: {key} is missing; expected from, to and count")
    spacing = written.get("spacing", "linear")
    if spacing not in SPACINGS:
        raise unknown(f"{name}: axes.{path}.spacing", spacing, "spacing", SPACINGS)
    return Spacing(written["from"], written["to"], written["count"], log=spacing == "log")


def _table(name: str, written: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = written.get(key, {})
    if not isinstance(found, dict):
        raise refusal(name, f"{key}: expected a table, given {found!r}")
    return found


def _text(name: str, written: Mapping[str, Any], key: str, default: str) -> str:
    found = written.get(key, default)
    if not isinstance(found, str):
        raise refusal(name, f"{key}: expected a text, given {found!r}")
    return found


def _known(name: str, table: str, written: Mapping[str, Any], keys: Any) -> None:
    for key in written:
        if key not in keys:
            raise unknown(name, f"{table}.{key}" if table else key, "key of a sweep file", keys)


def _typed(name: str, table: str, written: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    _known(name, table, written, kinds)
    for key, value in written.items():
        kind = kinds[key]
        flag = isinstance(value, bool) and kind is not bool
        if flag or not isinstance(value, kind):
            raise refusal(name, f"{table}.{key}: expected {_kind_words(kind)}, given {value!r}")


def _kind_words(kind: Any) -> str:
    words = {int: "a whole number", str: "a text", bool: "true or false"}
    return words.get(kind, "a number or a text with a unit")
