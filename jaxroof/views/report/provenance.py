"""Where a result comes from: its command, versions, checksums, inputs and choices."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from jaxroof.analyses.rerun import is_answered
from jaxroof.errors import InputError, shown
from jaxroof.estimators import estimator as named
from jaxroof.io.history import ARGUMENTS, HISTORY, parts_of
from jaxroof.io.stored_format import FORMAT, QUESTION, RESULTS, checksums
from jaxroof.records import is_quantity
from jaxroof.settings import paths_of
from jaxroof.units import show

Row = tuple[str, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Result:
    """One Dataset of a report, and what its file says about itself."""

    name: str  # of the file
    data: xr.Dataset
    stamps: Mapping[str, Any]
    written: str = ""  # time of the file, where it tells no better
    is_file: bool = True


def made_rows(result: Result) -> Iterator[Row]:
    """Yield what made a result: the command, its time, how to repeat it, versions, checksums."""
    time, command = parts_of(result.stamps.get(HISTORY))
    attrs, data = result.data.attrs, result.data
    if command:
        yield "Command", command
    if time or result.written:
        yield "Written", time or f"{result.written} (time of the file)"
    if result.is_file and (is_answered(data) or ARGUMENTS in result.stamps):
        yield "Again", f"jaxroof rerun {result.name}"
    for name in ("question", "estimator", "software"):
        if name in attrs:
            yield name.capitalize(), str(attrs[name])
    versions = decoded(attrs, "versions")
    if versions:
        yield "Versions", ", ".join(f"{name} {value}" for name, value in versions.items())
    if FORMAT in result.stamps:
        yield "Format", str(result.stamps[FORMAT])
    sums = checksums(data)
    for name, words in ((QUESTION, "SHA-256 of the question"), (RESULTS, "SHA-256 of the results")):
        stored = result.stamps.get(name)
        same = "" if stored is None else ", as written" if stored == sums[name] else ", changed"
        yield words, f"{sums[name]}{same}"


def choice_rows(data: xr.Dataset) -> Iterator[Row]:
    """Yield the choices that an answer rests on: those of the model, and rules on plans."""
    for name, value in decoded(data.attrs, "recipe").items():
        if value is not None:
            yield name.replace("_", " "), str(value)
    for name, value in decoded(data.attrs, "options").items():
        if value is not None:
            yield f"option {name}", str(value)
    for rule in _list(data.attrs.get("where")):
        yield "only plans with", str(rule)


def input_rows(data: xr.Dataset) -> Iterator[Row]:
    """Yield every input by its path: value with unit, meaning."""
    fields = _fields(str(data.attrs.get("estimator", "")))
    for path, value in decoded(data.attrs, "inputs").items():
        field = fields.get(str(path))
        if not isinstance(value, int | float):
            yield str(path), shown(value), ""
        elif field is None:
            yield str(path), f"{value:g}", ""
        else:
            yield str(path), show(float(value), field.metadata["unit"]), field.metadata["doc"]


def _fields(name: str) -> dict[str, "dataclasses.Field[Any]"]:
    """Return the inputs of an estimator of jaxroof by path; none of another one."""
    try:
        found = paths_of(named(name).inputs)
    except InputError:
        return {}
    return {path: field for path, field in found if is_quantity(field)}


def decoded(attrs: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """Return an attribute that holds a JSON object; empty where it does not."""
    try:
        found = json.loads(attrs.get(name, "{}"))
    except (ValueError, TypeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(text: object) -> list[Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else []
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
