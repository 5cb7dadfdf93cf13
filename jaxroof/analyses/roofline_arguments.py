"""Shapes, number formats and sweeps of one operator, parsed from typed text."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxroof.analyses.roofline_reading import PHYSICAL
from jaxroof.errors import listing, nearest, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators.book.common import DTYPES
from jaxroof.limits import BOUNDS
from jaxroof.records import checked_values, get_at, is_quantity
from jaxroof.settings import paths_of
from jaxroof.units import parse

Fields = Mapping[str, "dataclasses.Field[Any]"]  # by dotted path

WIDTHS = ("widths.input", "widths.weight", "widths.output")  # in the order of the typed formats
POINTS = 64  # default number of points in a sweep, approximately
PEAKS = {"fp16": "bf16"}  # formats that run at the rate of another


def dimensions(estimator: Estimator) -> Fields:
    """Return the dimensions of an operator's shape by path, without the machine and the widths."""
    records = {*estimator.names, "widths"}
    return {
        path: field
        for path, field in paths_of(estimator.inputs)
        if is_quantity(field) and path.partition(".")[0] not in records
    }


def letter(field: "dataclasses.Field[Any]") -> str:
    """Return the displayed name of a dimension in a shape: its letter, or its name."""
    return field.metadata["symbol"] or field.name


def read_shape(estimator: Estimator, text: str, swept: str | None = None) -> dict[str, Any]:
    """Return the numbers of a text such as ``B=256,D=4096`` by path; ``swept`` may be missing.

    Raises: InputError for a dimension that is missing, unknown, repeated or out of range.
    """
    fields = dimensions(estimator)
    found: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise refusal("--shape", f"expected LETTER=NUMBER, such as B=256, given {shown(item)}")
        path = path_of(estimator, name, "--shape")
        if path in found:
            raise refusal("--shape", f"{name}: given twice; expected each once")
        if path == swept:
            raise refusal("--shape", f"{name}: given twice; expected it in --sweep alone")
        where = f"--shape: {name}"
        number = parse(value, fields[path].metadata["unit"], where)
        found[path] = float(checked_values(number, fields[path], where))
    return found


def check_complete(estimator: Estimator, given: Iterable[str]) -> None:
    """Check that every dimension without a default is given.

    Raises: InputError that lists the dimensions of the operator.
    """
    known = set(given)
    missing = [letter(f) for path, f in _needed(estimator).items() if path not in known]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise refusal("--shape", f"{listing(missing)} {are} missing; {takes(estimator)}")


def _needed(estimator: Estimator) -> Fields:
    """Return the dimensions that have no default, at any level of nested records."""
    every = dict(paths_of(estimator.inputs))
    spare = {path for path, field in every.items() if field.default is not dataclasses.MISSING}
    return {
        path: field
        for path, field in dimensions(estimator).items()
        if path not in spare and path.rpartition(".")[0] not in spare
    }


def takes(estimator: Estimator) -> str:
    """Return the dimensions of an operator in words, with a sensible example shape."""
    fields, needed = dimensions(estimator), _needed(estimator)
    spare = [letter(f) for p, f in fields.items() if p not in needed]
    said = ", ".join(f"{letter(f)} ({_meaning(f)})" for f in needed.values())
    words = f"{estimator.name} takes {said or 'no dimension'}"
    words += f"; {listing(spare)} may be given" if spare else ""
    if estimator.example is None or not needed:
        return words
    held = estimator.example()
    shape = ",".join(f"{letter(f)}={float(get_at(held, p)):.12g}" for p, f in needed.items())
    return f"{words}; such as {shape}"


def _meaning(field: "dataclasses.Field[Any]") -> str:
    doc = str(field.metadata["doc"]).rstrip(".")
    plain = "1" if field.metadata["unit"] == "1" else field.metadata["unit"]
    words = doc[0].lower() + doc[1:] if doc[1:2].islower() or doc[1:2] == " " else doc
    return words if plain == "1" else f"{words} [{plain}]"


def path_of(estimator: Estimator, name: str, where: str) -> str:
    """Return the path of a dimension given by letter, name or path.

    Raises: InputError with the nearest name.
    """
    fields = dimensions(estimator)
    for called in (letter, lambda field: field.name):
        for path, field in fields.items():
            if name in (called(field), path):
                return path
    letters = [letter(field) for field in fields.values()]
    options = [*letters, *(p for p in fields if p not in letters)]
    what = f"dimension of {estimator.name}"
    if nearest(name, options) is not None:
        raise unknown(where, name, what, options)
    raise refusal(where, f"{name}: no such {what}; {takes(estimator)}")


def read_dtypes(text: str) -> tuple[str, str, str]:
    """Return the formats of input, weight and output of a text such as ``bf16,int8,bf16``.

    Raises: InputError for an unknown format (with the nearest), or a wrong number of formats.
    """
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in DTYPES:
            raise unknown("--dtypes", name, "number format", DTYPES)
    if len(names) not in (1, 3):
        what = "expected one format, or three: input,weight,output"
        raise refusal("--dtypes", f"{what}, such as bf16,int8,bf16, given {shown(text.strip())}")
    return (names[0], names[0], names[0]) if len(names) == 1 else (names[0], names[1], names[2])


def width_paths(estimator: Estimator) -> list[str]:
    """Return the paths of the bytes per element that the formats set."""
    return [path for path, _ in paths_of(estimator.inputs) if path in WIDTHS]


def read_widths(estimator: Estimator, dtypes: Sequence[str]) -> dict[str, float]:
    """Return the bytes per element of input, weight and output, by path."""
    kinds = dict(zip(WIDTHS, dtypes, strict=True))
    return {path: DTYPES[kinds[path]] for path in width_paths(estimator)}


def peak_format(dtypes: Sequence[str]) -> str:
    """Return the format whose matrix rate a product uses: the wider of input and weight.

    >>> peak_format(("bf16", "int8", "bf16")), peak_format(("fp16", "fp16", "fp16"))
    ('bf16', 'bf16')
    """
    wider = max(dtypes[:2], key=lambda name: DTYPES[name])
    return PEAKS.get(wider, wider)


@dataclasses.dataclass(frozen=True, eq=False)
class Sweep:
    """One dimension and its values in a sweep."""

    path: str
    values: np.ndarray


def read_sweep(estimator: Estimator, text: str) -> Sweep:
    """Parse a sweep such as ``B=1:8192:65``: values in equal ratios, counts rounded.

    Raises: InputError for a malformed text, an unknown dimension, or ends out of range.
    """
    name, equals, ends = (part.strip() for part in text.partition("="))
    parts = [part.strip() for part in ends.split(":")]
    if not equals or not name or len(parts) not in (2, 3):
        what = "expected LETTER=FROM:TO or LETTER=FROM:TO:COUNT, such as B=1:8192"
        raise refusal("--sweep", f"{what}, given {shown(text.strip())}")
    path, where = path_of(estimator, name, "--sweep"), f"--sweep: {name}"
    field = dimensions(estimator)[path]
    unit = field.metadata["unit"]
    low, high = (float(checked_values(parse(p, unit, where), field, where)) for p in parts[:2])
    if not 0 < low < high:
        raise refusal(where, f"expected FROM above 0 and below TO, given {ends}")
    if len(parts) == 3:
        values = np.geomspace(low, high, _count(parts[2], where))
    else:
        values = _doubling(low, high)
    plain = field.metadata["symbol"] != "" and unit not in PHYSICAL  # a size, not a factor
    counted = field.metadata["whole"] or (plain and low % 1 == high % 1 == 0)
    return Sweep(path, np.unique(np.round(values)) if counted else values)


def _doubling(low: float, high: float) -> np.ndarray:
    """Return values in equal ratios that include every doubling of the first, and the last.

    >>> [int(value) for value in _doubling(1.0, 1024.0)[::6]]
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    """
    doublings = math.log2(high / low)
    each = max(1, round(POINTS / max(doublings, 1.0)))  # points per doubling
    steps = np.arange(math.ceil(doublings * each - 1e-9)) / each
    return np.append(low * 2.0**steps, high)


def _count(text: str, where: str) -> int:
    value = parse(text, "1", where)
    if value != int(value) or not 2 <= value <= BOUNDS["points"]:
        raise refusal(
            where, f"expected a count from 2 to {BOUNDS['points']:,}, given {shown(text)}"
        )
    return int(value)
