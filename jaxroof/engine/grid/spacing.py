"""Values of one path along an axis: listed, evenly spaced, or piecewise linear."""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxroof.errors import refusal, shown
from jaxroof.limits import check_bound
from jaxroof.records import checked_values, field_at, get_at, is_quantity, number_of
from jaxroof.settings import Names, fields_of, named_record
from jaxroof.units import parse


@dataclasses.dataclass(frozen=True)
class Spacing:
    """Values in equal steps from ``start`` to ``stop``, in the value or in its logarithm."""

    start: float | str
    stop: float | str
    count: int
    log: bool = False


@dataclasses.dataclass(frozen=True)
class Between:
    """Values in equal steps from each of several ends to the next; an end may name a record."""

    ends: tuple[float | str, ...]
    count: int  # values of one segment, both ends included


Values = Sequence[Any] | np.ndarray | Spacing | Between


def linspace(start: float | str, stop: float | str, count: int) -> Spacing:
    """Return ``count`` equally spaced values for an axis; strings may carry units.

    >>> linspace("80 GB", "192 GB", 3).count
    3
    """
    return Spacing(start, stop, count)


def geomspace(start: float | str, stop: float | str, count: int) -> Spacing:
    """Return ``count`` values in equal ratios for an axis; strings may carry units.

    >>> geomspace("1 TB/s", "16 TB/s", 5).log
    True
    """
    return Spacing(start, stop, count, log=True)


def between(ends: Sequence[float | str], count: int) -> Between:
    """Return values for an axis, piecewise linear from one end to the next.

    An end is a number, a string with a unit, or the name of a record that has the field (a system,
    where the path is a field of one). ``count`` is the number of values of one segment, both ends
    included.

    >>> between(["a100-nvs8", "h200-nvs8", "192 GB"], 4).count
    4
    """
    return Between(tuple(ends), count)


def number_column(inputs: Any, path: str, values: Any, names: Names) -> np.ndarray:
    """Return the checked values of a numeric path along an axis."""
    field = field_at(inputs, path)
    if not is_quantity(field):
        raise refusal(path, f"a record, not a number; {fields_of(inputs, path)}")
    unit = field.metadata["unit"]
    if isinstance(values, Spacing):
        column = _spaced(values, unit, path)
    elif isinstance(values, Between):
        column = _piecewise(values, unit, path, names)
    elif isinstance(values, np.ndarray) and values.dtype.kind in "fi" and values.size:
        column = values.astype(np.float64)
    else:
        each = [number_of(value, field, path) for value in listed_values(path, values)]
        column = np.asarray(each, np.float64)
    return np.atleast_1d(checked_values(column, field, path))


def _spaced(values: Spacing, unit: str, path: str) -> np.ndarray:
    ends = [parse(v, unit, path) for v in (values.start, values.stop)]
    _countable(values.count, path)
    if values.log and min(ends) <= 0:
        raise refusal(path, "log spacing from or to 0; expected values above 0")
    space = np.geomspace if values.log else np.linspace
    return space(ends[0], ends[1], values.count)


def _piecewise(values: Between, unit: str, path: str, names: Names) -> np.ndarray:
    _countable(values.count, path)
    if len(values.ends) < 2 or values.count < 2:
        raise refusal(path, "between: expected two ends or more, and a count of 2 or more")
    head, _, leaf = path.rpartition(".")

    def end(value: float | str) -> float:
        if isinstance(value, str) and head in names and not value.strip()[:1].isdigit():
            return float(get_at(named_record(head, value, names, "")[0], leaf))
        return parse(value, unit, path)

    ends = [end(value) for value in values.ends]
    pieces = [np.linspace(a, b, values.count)[:-1] for a, b in itertools.pairwise(ends)]
    return np.append(np.concatenate(pieces), ends[-1])


def _countable(count: int, path: str) -> None:
    if count == 0:
        raise refusal(path, "an empty axis, given count 0")
    check_bound(f"{path}: count", "values", count)


def listed_values(path: str, values: Any) -> list[Any]:
    """Return the values of an axis as a list."""
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray):
        raise refusal(path, f"expected a list of values, given {shown(values)}")
    if len(values) == 0:
        raise refusal(path, "an empty axis; expected at least one value")
    return list(values)


def length_of(values: Values) -> int:
    """Return how many values an axis has."""
    if isinstance(values, Between):
        return (len(values.ends) - 1) * (values.count - 1) + 1
    return values.count if isinstance(values, Spacing) else len(values)
