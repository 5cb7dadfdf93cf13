"""Pictures of datasets, for people and for papers (``pip install 'jaxroof[plot]'``).

Every function takes a Dataset and returns a matplotlib Figure, which needs no display.
"""

import importlib
import importlib.util
import os
import pathlib
from collections.abc import Callable
from typing import Any

import xarray as xr

from jaxroof.analyses.result_metadata import objective_of, parts_of
from jaxroof.analyses.roofline_reading import is_roofline
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.io.atomic import Path, replace_file
from jaxroof.io.formats import check_placeable
from jaxroof.views.answers import module_of
from jaxroof.views.text.plan import split_fields

try:
    from matplotlib.figure import Figure

    from jaxroof.views.plots.design import design
    from jaxroof.views.plots.every_plan import every_plan
    from jaxroof.views.plots.layers import layer_bars
    from jaxroof.views.plots.lines import lines, shown_result
    from jaxroof.views.plots.machine_map import binds, machine_map
    from jaxroof.views.plots.memory_by_stage import memory_by_stage
    from jaxroof.views.plots.pareto import staircase
    from jaxroof.views.plots.plans import plans
    from jaxroof.views.plots.roofline import roofline
    from jaxroof.views.plots.schedule import schedules, stages
    from jaxroof.views.plots.select import (
        best_plans,
        dimension_words,
        named_dimensions,
        number_dimensions,
        pick,
    )
    from jaxroof.views.plots.style import png_of
    from jaxroof.views.plots.tornado import tornado
    from jaxroof.views.plots.trace import timeline
    from jaxroof.views.plots.uncertain import bands
except ImportError as error:
    if (error.name or "").partition(".")[0] != "matplotlib":
        raise
    raise InputError(
        "pictures need matplotlib; install it with: pip install 'jaxroof[plot]'"
    ) from None

__all__ = [
    "KINDS",
    "bands",
    "binds",
    "design",
    "draw",
    "drawable",
    "every_plan",
    "layer_bars",
    "lines",
    "machine_map",
    "memory_by_stage",
    "pick",
    "plans",
    "roofline",
    "save",
    "schedules",
    "stages",
    "staircase",
    "timeline",
    "tornado",
]

KINDS: dict[str, Callable[[xr.Dataset], Figure]] = {
    "lines": lines,
    "plans": plans,
    "machine_map": machine_map,
    "binds": binds,
    "staircase": staircase,
    "every_plan": every_plan,
    "layer_bars": layer_bars,
    "schedules": schedules,
    "stages": stages,
    "timeline": timeline,
    "memory_by_stage": memory_by_stage,
    "roofline": roofline,
    "tornado": tornado,
    "design": design,
    "bands": bands,
}
OLD = {  # kinds that files of before may name, and what draws them now
    **dict.fromkeys(("training_days", "normalised_throughput", "speedup", "frontier"), "lines"),
    **dict.fromkeys(("comparison", "plans_and_time", "fastest_plans"), "plans"),
    **dict.fromkeys(("throughput_by_split", "memory_throughput", "best_by_style"), "every_plan"),
    "isolated_scaling": "lines",
    "response": "tornado",
    "unfused_bars": "layer_bars",
}
ALONG = {  # a dimension, or a variable, that tells the kind of picture
    "quantile": "bands",
    "operation": "layer_bars",
    "field": "design",
    "step_number": "staircase",
    "event": "timeline",
    "fullest_stage": "memory_by_stage",
    "busy_share": "stages",
}
training_days, comparison, plans_and_time, fastest_plans = lines, plans, plans, plans  # as before
ENDINGS: dict[str, dict[str, Any]] = {  # of a picture's file, with what makes it repeatable
    ".png": {},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}


def draw(data: xr.Dataset, kind: str | None = None) -> Figure:
    """Return a picture of a dataset: of a kind by name, of its sweep, its question or dimensions.

    That of a question NAME is ``picture(data)`` in ``views/plots/NAME.py``, where it has one.

    Raises: InputError for an unknown kind (with the nearest), data that no kind shows, or data
    that lack what the kind draws.
    """
    named = kind or str(data.attrs.get("picture", ""))
    own = None if named else _own(data)
    if own is not None:
        return own(data)
    chosen = named or _kind(data)
    chosen = OLD.get(chosen, chosen)
    if chosen not in KINDS:
        raise unknown("", chosen, "kind of picture", KINDS)
    return KINDS[chosen](data)


def _own(data: xr.Dataset) -> Callable[[xr.Dataset], Figure] | None:
    """Return the picture of the question of the data, None where it has none of its own."""
    question = module_of(data)
    name = f"{__name__}.{question}"
    there = question and importlib.util.find_spec(name)
    found = importlib.import_module(name) if there else None
    return getattr(found, "picture", None)


def _kind(data: xr.Dataset) -> str:
    """Return the kind of picture that shows all dimensions of the data."""
    if data.attrs.get("answer") == "plans":
        return "every_plan"
    told = next((kind for name, kind in ALONG.items() if name in data.sizes or name in data), "")
    if told:
        return told
    if {"schedule", "device"} <= set(data.sizes):
        return "schedules"
    if "elasticity" in data or {"parameter", "factor"} <= set(data.sizes):
        return "tornado" if set(data.sizes) <= {"parameter", "factor", "switch"} else "binds"
    if "row" in data.sizes:
        what = "a CSV is rows of a table, whose axes are lost"
        raise refusal("draw", f"{what}; expected the results in a .nc, .zarr or .json file")
    if is_roofline(data):
        return "roofline"
    if data.sizes.get("rank", 0) > 1 and set(data.sizes) == {"rank"}:
        return "plans"
    kept = best_plans(data)
    dims, named, numbers = set(kept.sizes), set(named_dimensions(kept)), number_dimensions(kept)
    planned = bool(split_fields(kept)) or bool(parts_of(kept, objective_of(kept)))
    if planned and (dims <= named or dims == {"plan"} or len(dims) == 1):
        return "plans"
    fields = [dim for dim in numbers if dim != "gpus"]
    over_two = len(numbers) == 2 or len(fields) == 2
    if planned and over_two and shown_result(kept) in kept and len(dims) <= 3:
        return "machine_map"
    if numbers and shown_result(kept) in kept:
        return "lines"
    has = f"no picture shows all of the dimensions {dimension_words(data)}"
    raise refusal("draw", f"{has}; expected a kind: {', '.join(KINDS)}.")


def save(figure: Figure, path: Path) -> None:
    """Write a picture to a file; the name's ending says how (.png, .svg, .pdf).

    The file appears whole or not at all.
    Raises: InputError for another ending, or where the file cannot be written.
    """
    drawable(path)
    ending = pathlib.Path(path).suffix
    with replace_file(path) as temporary:
        if ending == ".png":
            pathlib.Path(temporary).write_bytes(png_of(figure, **ENDINGS[ending]))
        else:
            figure.savefig(temporary, format=ending.removeprefix("."), **ENDINGS[ending])


def drawable(path: Path) -> None:
    """Check, before any work, that a picture can be written to a path.

    Raises: InputError that says why it cannot.
    """
    ending = pathlib.Path(path).suffix
    if ending not in ENDINGS:
        raise InputError(
            f"{os.fspath(path)}: cannot tell the kind of picture from {shown(ending)}; "
            f"expected a name that ends in {', '.join(ENDINGS)}"
        )
    check_placeable(path)
