"""Budget files: a deadline, prices and machines to choose from in TOML -> the whole run on each."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.budget import budget
from jaxroof.config.toml_reader import beside, flat, load, typed
from jaxroof.errors import errors_in, refusal, shown

KEYS = {
    "title": str, "model": str, "systems": list, "gpus": Any, "batch": int, "tokens": Any,
    "deadline": Any, "minimise": str, "site_power": Any, "where": str, "operation": dict,
    "set": dict,
}  # fmt: skip
SPACING = {"from": int, "to": int, "steps": int}
NEEDED = ("model", "systems", "gpus", "batch")
WHAT = "key of a budget file"


def run_budget(path: str | os.PathLike[str] | None, given: Mapping[str, Any]) -> xr.Dataset:
    """Return the whole run on every machine of a budget file, or of the same keys given.

    What is ``given`` stands in place of what the file says. Raises: InputError that starts with the
    file's name, for any problem in the file.
    """
    if path is None:
        return _asked({}, given, pathlib.Path())
    with errors_in(path):
        return _asked(load(path), given, pathlib.Path(path).parent)


def _asked(written: dict[str, Any], given: Mapping[str, Any], folder: pathlib.Path) -> xr.Dataset:
    typed("", written, KEYS, WHAT)
    written = _beside(folder, written)
    told = {**written, **given}
    for key in NEEDED:
        if key not in told:
            raise refusal(key, "missing; a budget has a model, systems, gpus and a batch")
    shared, own = _operated(written.get("operation", {}), given.get("operation", {}))
    left = {*written.get("systems", ())} - {*told["systems"]}
    data = budget(
        model=told["model"],
        system=told["systems"],
        gpus=sizes(told["gpus"]),
        global_batch=told["batch"],
        minimise=told.get("minimise", "cost"),
        where=told.get("where", ""),
        **{key: told.get(key) for key in ("deadline", "site_power", "tokens")},
        operation=shared,
        by_system={name: table for name, table in own.items() if name not in left},
        settings=dict(flat(told.get("set", {}))),
    )
    return data.assign_attrs({"title": told["title"]} if "title" in told else {})


def _beside(folder: pathlib.Path, written: dict[str, Any]) -> dict[str, Any]:
    """Return what a file says, with the files that it names beside it."""
    found = {**written}
    if "model" in written:
        found["model"] = beside(folder, written["model"])
    if "systems" in written:
        found["systems"] = [beside(folder, name) for name in written["systems"]]
    if "operation" in written:
        found["operation"] = {beside(folder, k): v for k, v in written["operation"].items()}
    return found


def _operated(
    written: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the fields of all systems, and of each; what is given stands in place of both.

    >>> _operated({"rent": 1, "a": {"rent": 2}}, {"pue": 1.1, "a.rent": 3})
    ({'rent': 1, 'pue': 1.1}, {'a': {'rent': 3}})
    """
    shared = {k: v for k, v in written.items() if not isinstance(v, dict)}
    own = {k: {**v} for k, v in written.items() if isinstance(v, dict)}
    for path, value in given.items():
        name, _, field = path.rpartition(".")
        if name:
            own.setdefault(name, {})[field] = value
        else:
            shared[field] = value
            own = {k: {f: v for f, v in table.items() if f != field} for k, table in own.items()}
    return shared, own


def sizes(written: Any) -> list[int]:
    """Return the numbers of accelerators: a list, or evenly from one to another.

    >>> sizes({"from": 1024, "to": 4096, "steps": 4})
    [1024, 2048, 3072, 4096]
    """
    if isinstance(written, dict):
        typed("gpus", written, SPACING, WHAT)
        if missing := [key for key in SPACING if key not in written]:
            raise refusal(f"gpus.{missing[0]}", "missing; expected from, to and steps")
        return [round(n) for n in np.linspace(written["from"], written["to"], written["steps"])]
    found = written if isinstance(written, list) else [written]
    for one in found:
        if isinstance(one, bool) or not isinstance(one, int) or one < 1:
            raise refusal("gpus", f"expected whole numbers above 0, given {shown(one)}")
    return found
