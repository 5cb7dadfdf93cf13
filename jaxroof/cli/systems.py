"""Checks and lists of systems that run before JAX is loaded."""

import contextlib
import csv
import os
import pathlib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.needs import NEEDS, answers, lacking, refuse
from jaxroof.errors import InputError
from jaxroof.units import parse

SET = "--set system.{field}={value!r}"
IN_FILE = '"system.{field}" = {value!r} in [set]'


def check_options(options: Mapping[str, Any]) -> None:
    """Check that the systems named by a command have the fields its question needs.

    Raises: InputError that names every missing field and its system.
    """
    estimator = options.get("estimator", "training")
    if estimator not in NEEDS or options.get("uncertain"):  # a table may set fields itself
        return
    one, several = options.get("system_name"), options.get("system_names", "")
    given = _fields(text.partition("=")[0].strip() for text in options["sets"])
    names = several.split(",") if one is None else [one]
    listed = [name.strip().partition(":")[0] if one is None else name for name in names]
    if missing := _missing(estimator, listed, given):
        raise refuse("" if len(listed) == 1 else "--system", estimator, missing, SET)


def check_sweep(path: str) -> None:
    """Check that the systems of a sweep file have the fields its question needs.

    Any other error is left to the reader of the file.

    Raises: InputError that names every missing field and its system.
    """
    try:
        written = tomllib.loads(pathlib.Path(path).read_text(encoding="utf-8-sig"))
        estimator, axes = (
            written.get("estimator", "training"),
            written.get("axes", {}),
        )
        tables = [written.get("set", {}), axes, *(v for v in axes.values() if isinstance(v, dict))]
        given = _fields(key for table in tables for key in table)
        named = [table.get("system", ()) for table in (written, *tables)]
        names = [n for some in named for n in ([some] if isinstance(some, str) else some)]
        folder = os.path.dirname(path)
        places = [os.path.join(folder, n) if n.endswith(".toml") else n for n in names]
        missing = _missing(estimator, places, given) if estimator in NEEDS else {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return
    if missing:
        raise refuse(path, estimator, missing, IN_FILE)


def check_rows(estimator: str, file: str, sets: Sequence[str], **_: Any) -> None:
    """Check that the first row's system has the fields its question needs; as ``check_sweep``."""
    given = [text.partition("=")[::2] for text in sets]
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            head, first = (next(csv.reader(stream)) for _ in range(2))
        told = {name.strip(): value.strip() for name, value in given}
        row = {name.strip(): cell.strip() for name, cell in zip(head, first, strict=True)} | told
        name = row.get("system", "")
        folder = "" if "system" in told else os.path.dirname(file)
        place = os.path.join(folder, name) if name.endswith(".toml") else name
        fields = _fields(key.partition("[")[0].strip() for key in row)
        known = estimator in NEEDS and name != ""
        missing = _missing(estimator, [place], fields) if known else {}
    except (OSError, ValueError, RuntimeError, csv.Error):
        return
    if missing:
        where = "--set" if "system" in told else f"{file}: line 2"
        raise refuse(where, estimator, missing, SET)


COLUMNS = {"TFLOP/s": 7, "GB": 4, "GB/s": 8, "domain": 6}  # of the list, and how wide each is
NARROW = (("domain",), ("GB/s", "domain"), ("GB", "GB/s", "domain"))  # left out one after another
NOTES = (
    "TFLOP/s: matrix products; GB, GB/s: memory; domain: accelerators on fast links.",
    "training: a step of a model of today (search, compare, pareto, explain, layers, schedule); "
    "published: the same by the study's model; roofline: one operator; torus: its collectives; "
    "limits: of scaling.",
    "`jaxroof show NAME` prints all fields of a system, and where they come from.",
)


def list_systems(width: int) -> list[str]:
    """Return the lines of a table: the rates of every system, and the questions it can answer.

    Columns that a page of that width has no room for are left out.
    """
    rows = [_row(name) for name in catalog.names("systems")]
    for left_out in ((), *NARROW):
        shown = [name for name in COLUMNS if name not in left_out]
        lines = [_line(row, shown) for row in ({"system": "system", "answers": "answers"}, *rows)]
        if max(map(len, lines)) <= width:
            break
    return lines


def _row(name: str) -> dict[str, str]:
    written = catalog.describe("systems", name)
    return {
        "system": name,
        "TFLOP/s": _in(1e12, written["matrix_flops"], "FLOP/s"),
        "GB": _in(1e9, written.get("hbm_capacity"), "B"),
        "GB/s": _in(1e9, written["hbm_bandwidth"], "B/s"),
        "domain": _in(1.0, written.get("fast_domain"), "1"),
        "answers": ", ".join(answers(name)),
    }


def _line(row: Mapping[str, str], shown: Sequence[str]) -> str:
    numbers = (f"{row.get(name, name):>{COLUMNS[name]}}" for name in shown)
    return "  ".join([f"{row['system']:<16}", *numbers, row["answers"]])


def _in(unit: float, written: Any, si: str) -> str:
    """Return a number as written, converted to a larger unit; a dash if there is none."""
    return "-" if written is None else f"{parse(written, si) / unit:.7g}"


def _fields(paths: Iterable[str]) -> set[str]:
    """Return the fields of a system among dotted paths."""
    return {path.removeprefix("system.") for path in paths if path.startswith("system.")}


def _missing(estimator: str, names: Iterable[str], given: set[str]) -> dict[str, list[str]]:
    """Return the missing fields of each system that can be read and lacks some."""
    found: dict[str, list[str]] = {}
    for name in names:
        with contextlib.suppress(InputError):  # reported when the system is read in full
            found[name] = lacking(estimator, name, given)
    return {name: fields for name, fields in found.items() if fields}
