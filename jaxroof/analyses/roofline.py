"""Roofline of an operator at one shape or over a sweep, for one or several machines."""

import dataclasses
import itertools
import json
import math
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from jaxroof import catalog
from jaxroof.analyses import roofline_reading as roofs
from jaxroof.catalog.lookup import system as named_system
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.errors import errors_in, listing, nearest, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import HOMES, estimator
from jaxroof.estimators.book.common import DTYPES
from jaxroof.limits import BOUNDS
from jaxroof.records import checked_values, get_at, is_quantity
from jaxroof.settings import paths_of
from jaxroof.units import parse

OPERATORS = "jaxroof.estimators.book."  # modules of the estimators of one operator
FORMATS = ("bf16",)  # default
# Operators (with a choice of their recipe) whose critical size is not that of their first letter:
# the critical size, and the time that arithmetic exceeds from there on.
CRITICAL: dict[tuple[str, str | None], tuple[str, str]] = {
    ("attention", "generation"): ("T", "memory"),
    ("attention", None): ("T = S", "memory"),
    ("sharded_matmul", "free"): ("", "link"),
    ("sharded_matmul", "outputs"): ("F, or B where weights are gathered,", "link"),
    ("sharded_matmul", "gather"): ("B", "link"),
    ("sharded_matmul", None): ("D", "link"),
}


Fields = Mapping[str, "dataclasses.Field[Any]"]  # by dotted path

WIDTHS = ("widths.input", "widths.weight", "widths.output")  # in the order of the typed formats
POINTS = 64  # default number of points in a sweep, approximately
PEAKS = {"fp16": "bf16"}  # formats that run at the rate of another


def roofline(
    op: str,
    shape: str = "",
    *,
    dtypes: Sequence[str] = (),
    system: str | None = None,
    number_format: str | None = None,
    sweep: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return what limits an operator at a shape or over a sweep, on one machine or several.

    Arguments are those of the command: ``shape`` such as ``"D=4096,F=16384"``; ``dtypes`` a list of
    formats of input, weight and output, such as ``["bf16", "bf16,int8,bf16"]``; ``system`` names,
    separated by commas; ``sweep`` such as ``"B=1:8192"``; ``settings`` other fields by path.
    Returns: a Dataset over the swept size, and over ``case`` if there are several;
    ``jr.plot.roofline`` draws it.
    """
    known = [name for name, home in HOMES.items() if home.startswith(OPERATORS)]
    if op not in known:
        raise unknown("--op", op, "operator", known)
    asked, chosen = estimator(op), dict(settings or {})
    along = {} if sweep is None else read_sweep(asked, sweep)
    given = read_shape(asked, shape, along)
    check_complete(asked, {*given, *along})
    said = dict.fromkeys(given, "--shape") | dict.fromkeys(along, "--sweep")
    said |= dict.fromkeys(WIDTHS, "--dtypes") if dtypes else {}
    for path in filter(said.get, chosen):
        raise refusal("--set", f"{path}: given twice; expected it in {said[path]} alone")
    for name in set(chosen) & {letter(field) for field in dimensions(asked).values()}:
        raise refusal("--set", f"{name}: a size; expected it in --shape")
    parts, every = {}, _cases(asked, chosen, dtypes, system, number_format)
    for name, held in every:
        with errors_in(name if len(every) > 1 else ""):
            asks = {**held, **given, **chosen}
            parts[name] = tabulate(asked, None, settings=asks, axes=along or None)
    return _described(_joined(parts), asked, given, along)


def _cases(
    asked: Estimator,
    chosen: Mapping[str, Any],
    dtypes: Sequence[str],
    names: str | None,
    number_format: str | None,
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return every machine at every set of formats: its name and its settings, as typed."""
    kinds = [read_dtypes(text) for text in dtypes or FORMATS]
    _check_once("--dtypes", [_short(kind) for kind in kinds])
    if dtypes and not read_widths(asked, kinds[0]) and "system" not in asked.names:
        raise refusal("--dtypes", f"{asked.name} takes no number formats; leave it out")
    machines = _machines(asked, chosen, names)
    if number_format is not None and names is None:
        raise refusal("--format", "without --system; expected it beside the name of a machine")
    called = [_called(name) for name in machines if name]
    unit = getattr(getattr(asked.recipe, "unit", None), "value", "")
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, kind in itertools.product(machines, kinds):
        held: dict[str, Any] = read_widths(asked, kind)
        words = [_short(kind)] if held else []
        if name is not None:
            short = _called(name) if called.count(_called(name)) == 1 else name
            words = [short, *(words or [number_format or peak_format(kind)])]
            on_vectors = chosen.get("unit", unit) == "vector"
            held["system"] = _machine(name, kind, number_format, on_vectors)
        found.append((" ".join(words), held))
    return found


def _machines(
    asked: Estimator, chosen: Mapping[str, Any], names: str | None
) -> Sequence[str | None]:
    """Return the names of the machines; None is a machine given by its fields, or no machine."""
    field = {field.name: field for field in dataclasses.fields(asked.inputs)}.get("system")
    if names is None:
        described = any(path.startswith("system.") for path in chosen)
        if field is not None and field.default is dataclasses.MISSING and not described:
            raise refusal("--system", f"missing; {asked.name} runs on a machine, such as tpu-v5e")
        return [None]
    if field is None:
        raise refusal("--system", f"{asked.name} runs on no machine; leave it out")
    found = [name.strip() for name in names.split(",")]
    if "" in found:
        raise refusal("--system", f"expected NAME or NAME,NAME, given {shown(names)}")
    _check_once("--system", found)
    return found


def _check_once(option: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise refusal(option, f"{name}: given twice; expected each once")


def _called(name: str) -> str:
    return pathlib.Path(name).stem if name.endswith(".toml") else name


def _short(dtypes: Sequence[str]) -> str:
    return dtypes[0] if len(set(dtypes)) == 1 else ",".join(dtypes)


def _machine(name: str, dtypes: Sequence[str], number_format: str | None, on_vectors: bool) -> Any:
    """Return a machine at the peak rate of the product's formats, or of the format requested.

    A file with a single rate counts as the format in use. Vector operators need no matrix peak.
    """
    with errors_in("--system"):
        plain = named_system(name)
    held = catalog.describe("systems", name).get("peaks", {})
    if number_format is None and (on_vectors or not held):
        return plain
    wanted, own = number_format or peak_format(dtypes), number_format is None
    if wanted in held:
        return named_system(name, wanted)
    option, remedy = (
        ("--dtypes", ", or --format with the one to run at") if own else ("--format", "")
    )
    if not held:
        raise refusal(option, f"{name} has one rate alone, of no format; expected it left out")
    right = f"expected one of {', '.join(held)}{remedy}"
    raise refusal(option, f"{name} has no matrix peak for {wanted}; {right}")


def _joined(parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    names, each = [*parts], [*parts.values()]
    if len(parts) == 1:
        return each[0].assign_coords({roofs.CASE: names[0]} if names[0] else {})
    how: dict[str, Any] = {"data_vars": "all", "coords": "minimal", "compat": "override"}
    data = xr.concat(each, roofs.CASE, join="override", combine_attrs="override", **how)
    started = [json.loads(part.attrs["inputs"]) for part in each]
    same = {p: v for p, v in started[0].items() if all(s.get(p) == v for s in started)}
    return data.assign_coords({roofs.CASE: names}).assign_attrs(inputs=json.dumps(same))


def _described(
    data: xr.Dataset, asked: Estimator, given: Mapping[str, float], along: Mapping[str, Any]
) -> xr.Dataset:
    """Return the data with a title and with the usual letters of the sizes."""
    fields = dimensions(asked)

    def said(path: str, *values: float) -> str:
        unit = fields[path].metadata["unit"]
        return f"{letter(fields[path])} {' to '.join(roofs.sized(float(v), unit) for v in values)}"

    shape = [said(path, value) for path, value in given.items()]
    for path, values in along.items():
        shape = [said(path, *values[[0, -1]]), *shape]
        data[roofs.sweep_dimension(data)].attrs["symbol"] = letter(fields[path])
    data.attrs |= {"about": asked.about, "question": "roofline"}
    data.attrs["title"] = f"{asked.name}: {', '.join(shape)}" if shape else asked.name
    if roofs.is_roofline(data):
        data.attrs["picture"] = "roofline"
        data.attrs |= critical(asked, json.loads(data.attrs["recipe"]))
    return data


def critical(asked: Estimator, recipe: Mapping[str, str]) -> dict[str, str]:
    """Return which size is critical, and which time arithmetic exceeds from there on."""
    for (name, choice), found in CRITICAL.items():
        if name == asked.name and choice in (None, *recipe.values()):
            return dict(zip(("critical_letter", "critical_against"), found, strict=True))
    lettered = [letter(f) for f in dimensions(asked).values() if f.metadata["symbol"]]
    return {"critical_letter": lettered[0] if lettered else "", "critical_against": "memory"}


# ---- What is typed: shapes, number formats, sweeps ----------------------------------------------


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


def read_shape(estimator: Estimator, text: str, swept: Collection[str] = ()) -> dict[str, Any]:
    """Return the numbers of a text such as ``B=256,D=4096`` by path; those swept are elsewhere."""
    fields = dimensions(estimator)
    found: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = (part.strip() for part in item.partition("="))
        if not value:
            raise refusal("--shape", f"expected LETTER=NUMBER, such as B=256, given {shown(item)}")
        path = path_of(estimator, name, "--shape")
        if path in found or path in swept:
            where = "each once" if path in found else "it in --sweep alone"
            raise refusal("--shape", f"{name}: given twice; expected {where}")
        found[path] = _number(value, fields[path], f"--shape: {name}")
    return found


def _number(text: str, field: "dataclasses.Field[Any]", where: str) -> float:
    return float(checked_values(parse(text, field.metadata["unit"], where), field, where))


def check_complete(estimator: Estimator, given: Collection[str]) -> None:
    """Check that every dimension without a default is given."""
    missing = [letter(f) for path, f in _needed(estimator).items() if path not in given]
    if missing:
        are = "are" if len(missing) > 1 else "is"
        raise refusal("--shape", f"{listing(missing)} {are} missing; {takes(estimator)}")


def _needed(estimator: Estimator) -> Fields:
    """Return the dimensions that have no default, at any level of nested records."""
    fields = paths_of(estimator.inputs)
    spare = {path for path, field in fields if field.default is not dataclasses.MISSING}
    every = dimensions(estimator).items()
    return {p: field for p, field in every if not {p, p.rpartition(".")[0]} & spare}


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
    doc, unit = str(field.metadata["doc"]).rstrip("."), field.metadata["unit"]
    words = doc[0].lower() + doc[1:] if doc[1:2].islower() or doc[1:2] == " " else doc
    return words if unit == "1" else f"{words} [{unit}]"


def path_of(estimator: Estimator, name: str, where: str) -> str:
    """Return the path of a dimension given by letter, name or path."""
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
    """Return the formats of input, weight and output of a text such as ``bf16,int8,bf16``."""
    names = [part.strip() for part in text.split(",")]
    for name in names:
        if name not in DTYPES:
            raise unknown("--dtypes", name, "number format", DTYPES)
    if len(names) not in (1, 3):
        what = "expected one format, or three: input,weight,output"
        raise refusal("--dtypes", f"{what}, such as bf16,int8,bf16, given {shown(text.strip())}")
    first, second, third = names * 3 if len(names) == 1 else names
    return first, second, third


def read_widths(estimator: Estimator, dtypes: Sequence[str]) -> dict[str, float]:
    """Return the bytes per element of input, weight and output, by path."""
    known = {path for path, _ in paths_of(estimator.inputs)}
    return {p: DTYPES[kind] for p, kind in zip(WIDTHS, dtypes, strict=True) if p in known}


def peak_format(dtypes: Sequence[str]) -> str:
    """Return the format whose matrix rate a product uses: the wider of input and weight."""
    wider = max(dtypes[:2], key=lambda name: DTYPES[name])
    return PEAKS.get(wider, wider)


def read_sweep(estimator: Estimator, text: str) -> dict[str, np.ndarray]:
    """Return the values of a sweep such as ``B=1:8192:65`` by path: equal ratios, whole counts."""
    name, equals, ends = (part.strip() for part in text.partition("="))
    parts = [part.strip() for part in ends.split(":")]
    if not equals or not name or len(parts) not in (2, 3):
        what = "expected LETTER=FROM:TO or LETTER=FROM:TO:COUNT, such as B=1:8192"
        raise refusal("--sweep", f"{what}, given {shown(text.strip())}")
    path, where = path_of(estimator, name, "--sweep"), f"--sweep: {name}"
    field = dimensions(estimator)[path]
    unit = field.metadata["unit"]
    low, high = (_number(part, field, where) for part in parts[:2])
    if not 0 < low < high:
        raise refusal(where, f"expected FROM above 0 and below TO, given {ends}")
    if len(parts) == 3:
        most, count = BOUNDS["points"], parse(parts[2], "1", where)
        if count != int(count) or not 2 <= count <= most:
            raise refusal(where, f"expected a count from 2 to {most:,}, given {shown(parts[2])}")
        values = np.geomspace(low, high, int(count))
    else:
        doublings = math.log2(high / low)
        each = max(1, round(POINTS / max(doublings, 1.0)))  # points per doubling
        steps = np.arange(math.ceil(doublings * each - 1e-9)) / each
        values = np.append(low * 2.0**steps, high)
    plain = field.metadata["symbol"] != "" and unit not in roofs.PHYSICAL  # a size, not a factor
    counted = field.metadata["whole"] or (plain and low % 1 == high % 1 == 0)
    return {path: np.unique(np.round(values)) if counted else values}
