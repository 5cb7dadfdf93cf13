"""Roofline of an operator at one shape or over a sweep, for one or several machines."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import xarray as xr

from jaxroof import catalog
from jaxroof.analyses import roofline_reading as roofs
from jaxroof.analyses.evaluate import resolve_settings
from jaxroof.analyses.roofline_arguments import (
    Sweep,
    check_complete,
    dimensions,
    letter,
    peak_format,
    read_dtypes,
    read_shape,
    read_sweep,
    read_widths,
    width_paths,
)
from jaxroof.catalog.lookup import system
from jaxroof.catalog.system import System
from jaxroof.engine.grid.tabulate import tabulate
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimator import Estimator
from jaxroof.estimators import HOMES, estimator

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


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """One machine at one set of number formats: its name and its settings."""

    name: str
    settings: Mapping[str, Any]


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
    Raises: InputError that names the option and the allowed values.
    """
    asked, chosen = _operator(op), dict(settings or {})
    along = None if sweep is None else read_sweep(asked, sweep)
    given = read_shape(asked, shape, along.path if along else None)
    check_complete(asked, [*given, *([along.path] if along else [])])
    said = dict.fromkeys(given, "--shape")
    said |= dict.fromkeys(width_paths(asked), "--dtypes") if dtypes else {}
    said |= {along.path: "--sweep"} if along else {}
    for path in chosen:
        if path in said:
            raise refusal("--set", f"{path}: given twice; expected it in {said[path]} alone")
    for name in set(chosen) & {letter(field) for field in dimensions(asked).values()}:
        raise refusal("--set", f"{name}: a size; expected it in --shape")
    every = _cases(asked, chosen, dtypes, system, number_format)
    parts = []
    for case in every:
        with _about(case.name if len(every) > 1 else ""):
            parts.append(_asked(asked, {**case.settings, **given, **chosen}, along))
    return _described(_joined(parts, [case.name for case in every]), asked, given, along)


@contextlib.contextmanager
def _about(name: str) -> Iterator[None]:
    """Prefix every error raised in the block with the name of a case, if there are several."""
    try:
        yield
    except InputError as error:
        raise refusal(name, str(error)) from None


def _operator(op: str) -> Estimator:
    """Return an operator's estimator.

    Raises: InputError with the nearest name.
    """
    known = [name for name, home in HOMES.items() if home.startswith(OPERATORS)]
    if op not in known:
        raise unknown("--op", op, "operator", known)
    return estimator(op)


def _cases(
    asked: Estimator,
    chosen: Mapping[str, Any],
    dtypes: Sequence[str],
    names: str | None,
    number_format: str | None,
) -> list[Case]:
    """Return every machine at every set of formats, in the order they were typed."""
    kinds, machines = _kinds(asked, dtypes), _machines(asked, chosen, names)
    if number_format is not None and names is None:
        raise refusal("--format", "without --system; expected it beside the name of a machine")
    called = [_called(name) for name in machines if name is not None]
    unit = getattr(asked.recipe, "unit", None)
    on_vectors = chosen.get("unit", getattr(unit, "value", "")) == "vector"
    found = []
    for name in machines:
        for kind in kinds:
            held: dict[str, Any] = read_widths(asked, kind)
            words = [_short(kind)] if held else []
            if name is not None:
                short = _called(name) if called.count(_called(name)) == 1 else name
                words = [short, *(words or [number_format or peak_format(kind)])]
                held["system"] = _machine(name, kind, number_format, on_vectors)
            found.append(Case(" ".join(words), held))
    return found


def _kinds(asked: Estimator, dtypes: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return the number formats of every case."""
    kinds = [read_dtypes(text) for text in dtypes or FORMATS]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise refusal("--dtypes", f"{_short(kind)}: given twice; expected each once")
    if dtypes and not width_paths(asked) and "system" not in asked.names:
        raise refusal("--dtypes", f"{asked.name} takes no number formats; leave it out")
    return kinds


def _machines(
    asked: Estimator, chosen: Mapping[str, Any], names: str | None
) -> Sequence[str | None]:
    """Return the names of the machines; None is a machine given by its fields, or no machine."""
    fields = {field.name: field for field in dataclasses.fields(asked.inputs)}
    if names is None:
        described = any(path.startswith("system.") for path in chosen)
        if "system" in fields and fields["system"].default is dataclasses.MISSING and not described:
            raise refusal("--system", f"missing; {asked.name} runs on a machine, such as tpu-v5e")
        return [None]
    if "system" not in fields:
        raise refusal("--system", f"{asked.name} runs on no machine; leave it out")
    found = [name.strip() for name in names.split(",")]
    for name in found:
        if not name:
            raise refusal("--system", f"expected NAME or NAME,NAME, given {shown(names)}")
        if found.count(name) > 1:
            raise refusal("--system", f"{name}: given twice; expected each once")
    return found


def _called(name: str) -> str:
    """Return the displayed name of a machine; for a file, its name without the folder."""
    return pathlib.Path(name).stem if name.endswith(".toml") else name


def _short(dtypes: Sequence[str]) -> str:
    """Return number formats as typed: a single one where all are the same."""
    return dtypes[0] if len(set(dtypes)) == 1 else ",".join(dtypes)


def _machine(
    name: str, dtypes: Sequence[str], number_format: str | None, on_vectors: bool
) -> System:
    """Return a machine at the peak rate of the product's formats, or of the format requested.

    A file with a single rate counts as the format in use. Vector operators need no matrix peak.

    Raises: InputError that lists the available formats, if the machine has no such peak.
    """
    try:
        plain = system(name)
    except InputError as error:
        raise refusal("--system", str(error)) from None
    held = catalog.describe("systems", name).get("peaks", {})
    if number_format is None and (on_vectors or not held):
        return plain
    wanted = number_format or peak_format(dtypes)
    if wanted in held:
        return system(name, wanted)
    option = "--format" if number_format is not None else "--dtypes"
    remedy = "" if number_format is not None else ", or --format with the one to run at"
    if not held:
        raise refusal(option, f"{name} has one rate alone, of no format; expected it left out")
    what = f"{name} has no matrix peak for {wanted}"
    raise refusal(option, f"{what}; expected one of {', '.join(held)}{remedy}")


def _asked(asked: Estimator, chosen: Mapping[str, Any], along: Sweep | None) -> xr.Dataset:
    if along is None:
        inputs, recipe = resolve_settings(asked, chosen)
        return tabulate(asked, inputs, recipe)
    inputs, recipe = resolve_settings(asked, {**chosen, along.path: float(along.values[0])})
    return tabulate(asked, inputs, recipe, axes={along.path: along.values})


def _joined(parts: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """Concatenate the results of several cases over a dimension of their names."""
    if len(parts) == 1:
        return parts[0].assign_coords({roofs.CASE: names[0]} if names[0] else {})
    data = xr.concat(
        parts, roofs.CASE, data_vars="all", coords="minimal", compat="override",
        join="override", combine_attrs="override",
    ).assign_coords({roofs.CASE: list(names)})  # fmt: skip
    started = [json.loads(part.attrs["inputs"]) for part in parts]
    same = {p: v for p, v in started[0].items() if all(s.get(p) == v for s in started)}
    data.attrs["inputs"] = json.dumps(same)
    return data


def _described(
    data: xr.Dataset, asked: Estimator, given: Mapping[str, float], along: Sweep | None
) -> xr.Dataset:
    """Return the data with a title and with the usual letters of the sizes."""
    fields = dimensions(asked)
    shape = [
        f"{letter(fields[p])} {roofs.sized(v, fields[p].metadata['unit'])}"
        for p, v in given.items()
    ]
    if along is not None:
        field = fields[along.path]
        ends = " to ".join(
            roofs.sized(float(v), field.metadata["unit"]) for v in along.values[[0, -1]]
        )
        shape = [f"{letter(field)} {ends}", *shape]
        data[roofs.sweep_dimension(data)].attrs["symbol"] = letter(field)
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
