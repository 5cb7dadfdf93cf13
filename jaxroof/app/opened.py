"""The state that the page opens with: that of a link, or of a sweep file."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from jaxroof import catalog
from jaxroof.app.controls import can_be_shown
from jaxroof.app.live import line_of
from jaxroof.app.question import asked
from jaxroof.app.state import PATHS, START, State, checked, from_pairs, upload
from jaxroof.config.sweep_file import KEYS
from jaxroof.config.toml_reader import axes, load, typed
from jaxroof.engine.grid.axes import paths_of
from jaxroof.errors import InputError, errors_in, refusal
from jaxroof.estimators.training.step import training
from jaxroof.records import field_at
from jaxroof.settings import choices_of
from jaxroof.units import parse


def opening(link: Sequence[tuple[str, str]], first: State) -> tuple[State, str]:
    """Return the state of the fields of a link, or the ``first`` one and why it is not the link's.

    >>> opening([("gpus", "64")], START)[0].gpus
    64
    >>> opening([("choice.<b>", "1")], START) == (START, "")
    False
    """
    try:
        return (can_be_shown(from_pairs(link)) if link else first), ""
    except Exception as error:
        return first, line_of(error)


def opened(path: str) -> State:
    """Return the state of a sweep file; two axes of it become the map.

    Raises: InputError that starts with the file's name.
    """
    with errors_in(path):
        return _state(load(path), pathlib.Path(path).parent)


def _state(written: Mapping[str, Any], folder: pathlib.Path) -> State:
    if "model" not in written or "system" not in written:
        raise refusal("model", "missing; expected a sweep file with a model and a system")
    typed("", written, KEYS)
    fields: dict[str, Any] = {}
    for key, value in written.get("plan", {}).items():
        name = next((short for short, full in PATHS.items() if full == key), None)
        if name is None:
            raise refusal(f"plan.{key}", "the page searches the plan; use [search] where")
        fields[name] = int(parse(value, "1", f"plan.{key}"))
    if written.get("estimator", training.name) != training.name:
        raise refusal("estimator", "the page answers training; `jaxroof run` takes any other")
    given = dict(written.get("set", {}))
    fields["precision"] = str(given.pop("precision", written.get("format", START.precision)))
    fields["where"] = str(written.get("search", {}).get("where", ""))
    moved = sorted(paths_of(axes(written.get("axes", {}), folder)))
    if len(moved) == 2:  # the axes of a map
        fields |= {"across": moved[0], "up": moved[1], "tab": "map"}
    for field in ("model", "system"):
        fields |= _named(field, written[field], folder)
    return _with_changes(checked(State(**fields)), given)


def _named(field: str, name: str, folder: pathlib.Path) -> dict[str, Any]:
    """Return a model or a system as a field of the state: by name, or its file."""
    if not catalog.is_file(name):
        return {field: name}
    try:
        content = (folder / name).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise refusal(f"{field}: {name}", f"cannot be read: {error}") from None
    return {f"own_{field}": upload(os.path.basename(name), content)}


def _with_changes(state: State, given: Mapping[str, Any]) -> State:
    """Return a state with the numbers and the choices of [set]."""
    found, changes, choices = asked(state), {}, {}
    known = choices_of(found.recipe)
    for path, value in given.items():
        if path in known:
            choices[path] = str(value)
            continue
        full = f"system.{path}" if path.startswith("chip.") else path
        try:
            unit = field_at(found.inputs, full).metadata["unit"]
        except (InputError, KeyError):
            raise refusal(f"set.{path}", "no number that the page can change") from None
        changes[full] = parse(value, unit, f"set.{path}")
    both: dict[str, Any] = {"changes": tuple(changes.items()), "choices": tuple(choices.items())}
    return can_be_shown(dataclasses.replace(state, **both))
