"""Real systems beside the machine of the data: what of them agrees, and what to call it."""

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import machine_of as machine_name
from jaxroof.catalog.lookup import system
from jaxroof.catalog.system import System
from jaxroof.errors import InputError, listing
from jaxroof.records import leaves
from jaxroof.views.parameter_words import words_of
from jaxroof.views.plots import select as choose
from jaxroof.views.plots.map_axes import primary, rank

BASE = "base machine"
ALIKE = 1e-6  # relative difference between numbers that are the same
FREE = ("fast_domain",)  # the same accelerator is built into domains of several sizes
PAIRS = {  # fields that have one name between them
    "HBM": {"hbm_capacity", "hbm_bandwidth"},
    "FLOP rates": {"matrix_flops", "vector_flops"},
}


class Mark(NamedTuple):
    """A real system's place on a map of two fields."""

    place: tuple[float, float]  # in SI, as the axes of the data
    words: str  # with a star where a note says what of the system is there
    whole: bool  # what was computed there is this system, not some of its fields alone
    note: str = ""


def machine_of(data: xr.Dataset) -> dict[str, float]:
    """Return the numbers of the machine of the data by field, less those that move in the data.

    Empty where the data do not say what machine they are of.
    """
    found = {
        path.removeprefix("system."): float(number)
        for path, number in choose.run_inputs(data).items()
        if path.startswith("system.")
    }
    if "system" in data.coords:
        found = {}
        if data.system.ndim == 0:
            with contextlib.suppress(InputError):
                named = system(str(data.system.values))
                found = {path: float(number) for path, _, number in leaves(named)}
    moving = moved(data)
    for name, values in data.coords.items():
        if found and not values.ndim and _is_of_system(values):
            found[_field(data, str(name))] = float(values)
    return {name: number for name, number in found.items() if name not in moving}


def moved(data: xr.Dataset) -> set[str]:
    """Return the fields of the machine that move in the data."""
    each = data.coords.items()
    return {_field(data, str(name)) for name, c in each if c.ndim and _is_of_system(c)}


def _is_of_system(values: xr.DataArray) -> bool:
    return str(values.attrs.get("path", "")).startswith("system.")


def real_system(numbers: Mapping[str, float]) -> str:
    """Return the real system that has all of some numbers, empty where none has."""
    for name, known in choose.REAL.items():
        if numbers and _agreeing(system(known), numbers) == set(numbers):
            return name
    return ""


def base_place(data: xr.Dataset, dims: Sequence[str]) -> tuple[float, ...] | None:
    """Return where on a map the machine of the run lies, None where it does not."""
    given, place = choose.run_inputs(data), []
    for dim in dims:
        name = primary(data, dim)
        path = str(data[name].attrs.get("path", name))
        at = given.get(path) if path.startswith(f"{machine_name(data)}.") else None
        if at is None or name != dim or not data[name].min() <= at <= data[name].max():
            return None
        place.append(float(at))
    return tuple(place)


def base_name(data: xr.Dataset) -> str:
    """Return what the machine of the run is called: a real system, or the base machine."""
    given = choose.run_inputs(data)
    own = {
        path.removeprefix("system."): n for path, n in given.items() if path.startswith("system.")
    }
    numbers = {path: float(number) for path, number in own.items()}
    return real_system(numbers) or BASE


def marks(data: xr.Dataset, x: str, y: str) -> list[Mark]:
    """Return the systems on a map, the run's own among them, named after what was computed.

    A place is called by the name of a system where every number of the machine agrees with it, on
    the axes and beside them. Elsewhere its name has a star, and a note says which of the system's
    fields the place has, and which system the rest of the machine is, where it is one.
    """
    machine = machine_of(data)
    rest = real_system(machine)
    found: list[Mark] = []
    for name, known in choose.REAL.items():
        record = system(known)
        there = _place(data, record, (x, y))
        if there is None:
            continue
        place, numbers = there
        same = _agreeing(record, numbers)
        every = {**machine, **numbers}
        whole = bool(machine) and _agreeing(record, every) == set(every)
        if whole:
            found.append(Mark(place, name, True))
            continue
        beside = f"; all else of the {rest or BASE}" if machine else ""
        note = f"only {listing(_together(same))}{beside}"
        found.append(Mark(place, f"{name}*", False, note))
    base = base_place(data, (x, y))
    if base is not None and not any(mark.whole for mark in found):
        found.append(Mark((base[0], base[1]), base_name(data), True))
    return found


def notes(marks: Sequence[Mark]) -> list[str]:
    """Return what stars beside the names of systems mean, a sentence for all of which it is true.

    >>> hbm = "only HBM"
    >>> notes([Mark((1, 1), "A100*", False, hbm), Mark((2, 2), "H200*", False, hbm)])
    ['A100*, H200*: only HBM']
    """
    told: dict[str, list[str]] = {}
    for mark in marks:
        if mark.note and mark.words not in told.setdefault(mark.note, []):
            told[mark.note].append(mark.words)
    return [f"{', '.join(names)}: {note}" for note, names in told.items()]


def _place(
    data: xr.Dataset, record: System, dims: tuple[str, str]
) -> tuple[tuple[float, float], dict[str, float]] | None:
    """Return where on a map a system lies, and the machine's numbers that the axes give there."""
    place, numbers = [], {}
    for dim in dims:
        shown = primary(data, dim)
        at = getattr(record, _field(data, shown), None)
        along = data[shown].values
        if at is None or not along.min() <= at <= along.max():
            return None
        order = np.argsort(along, kind="stable")
        for name in choose.linked_coordinates(data, dim):
            there = np.interp(float(at), along[order], data[name].values[order])
            numbers[_field(data, name)] = float(there)
        place.append(float(at))
    return (place[0], place[1]), numbers


def _field(data: xr.Dataset, name: str) -> str:
    """Return which field of a system a coordinate is."""
    return str(data[name].attrs.get("path", name)).removeprefix("system.")


def _agreeing(record: System, numbers: Mapping[str, float]) -> set[str]:
    """Return which of some numbers a real system has, or is free in."""
    has = {path: float(number) for path, _, number in leaves(record)}
    return {
        name
        for name, number in numbers.items()
        if name in FREE or math.isclose(number, has.get(name, math.nan), rel_tol=ALIKE)
    }


def _together(fields: set[str]) -> list[str]:
    """Return fields in words, those that have one name between them under that.

    >>> _together({"hbm_capacity", "hbm_bandwidth", "matrix_flops"})
    ['HBM', 'compute rate']
    """
    pairs = {words: both for words, both in PAIRS.items() if both <= fields}
    single = fields.difference(*pairs.values())
    return [*pairs, *(words_of(name) for name in sorted(single, key=rank))]
