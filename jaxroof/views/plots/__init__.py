"""Pictures of datasets, for people and for papers (``pip install 'jaxroof[plot]'``).

Every function takes a Dataset and returns a matplotlib Figure, which needs no display.
"""

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
from jaxroof.views.plan_styles import is_parallel
from jaxroof.views.text.plan import split_fields

try:
    from matplotlib.figure import Figure

    from jaxroof.views.plots.all_plans import throughput_by_split
    from jaxroof.views.plots.collectives import collectives_against_measured
    from jaxroof.views.plots.compare import comparison
    from jaxroof.views.plots.design import design
    from jaxroof.views.plots.dots import png_of
    from jaxroof.views.plots.elasticities import binds
    from jaxroof.views.plots.every_plan import every_plan
    from jaxroof.views.plots.fastest_plans import fastest_plans
    from jaxroof.views.plots.isolated_scaling import isolated_scaling
    from jaxroof.views.plots.layers import layer_bars
    from jaxroof.views.plots.machine_map import machine_map, mapped
    from jaxroof.views.plots.memory_by_stage import memory_by_stage
    from jaxroof.views.plots.memory_throughput import memory_throughput
    from jaxroof.views.plots.pareto import staircase
    from jaxroof.views.plots.plan_styles import best_by_style
    from jaxroof.views.plots.plans_and_time import plans_and_time
    from jaxroof.views.plots.response import response
    from jaxroof.views.plots.roofline import roofline
    from jaxroof.views.plots.scaling import normalised_throughput, training_days
    from jaxroof.views.plots.scaling_limits import frontier
    from jaxroof.views.plots.schedule import schedules
    from jaxroof.views.plots.select import best_plans, dimension_words, named_dimensions, pick
    from jaxroof.views.plots.speedup import speedup
    from jaxroof.views.plots.stages import stages
    from jaxroof.views.plots.tornado import tornado
    from jaxroof.views.plots.trace import timeline
    from jaxroof.views.plots.uncertain import bands
    from jaxroof.views.plots.unfused import unfused_bars
    from jaxroof.views.plots.validation import simulated_real
except ImportError as error:
    if (error.name or "").partition(".")[0] != "matplotlib":
        raise
    raise InputError(
        "pictures need matplotlib; install it with: pip install 'jaxroof[plot]'"
    ) from None

__all__ = [
    "KINDS",
    "bands",
    "best_by_style",
    "binds",
    "collectives_against_measured",
    "comparison",
    "design",
    "draw",
    "drawable",
    "every_plan",
    "fastest_plans",
    "frontier",
    "isolated_scaling",
    "layer_bars",
    "machine_map",
    "memory_by_stage",
    "memory_throughput",
    "normalised_throughput",
    "pick",
    "plans_and_time",
    "response",
    "roofline",
    "save",
    "schedules",
    "simulated_real",
    "speedup",
    "stages",
    "staircase",
    "throughput_by_split",
    "timeline",
    "tornado",
    "training_days",
    "unfused_bars",
]

KINDS: dict[str, Callable[[xr.Dataset], Figure]] = {
    "training_days": training_days,
    "normalised_throughput": normalised_throughput,
    "plans_and_time": plans_and_time,
    "speedup": speedup,
    "machine_map": machine_map,
    "comparison": comparison,
    "staircase": staircase,
    "layer_bars": layer_bars,
    "frontier": frontier,
    "collectives_against_measured": collectives_against_measured,
    "roofline": roofline,
    "unfused_bars": unfused_bars,
    "schedules": schedules,
    "timeline": timeline,
    "throughput_by_split": throughput_by_split,
    "isolated_scaling": isolated_scaling,
    "memory_throughput": memory_throughput,
    "best_by_style": best_by_style,
    "simulated_real": simulated_real,
    "tornado": tornado,
    "response": response,
    "binds": binds,
    "design": design,
    "bands": bands,
    "every_plan": every_plan,
    "fastest_plans": fastest_plans,
    "memory_by_stage": memory_by_stage,
    "stages": stages,
}
ENDINGS: dict[str, dict[str, Any]] = {  # of a picture's file, with what makes it repeatable
    ".png": {},
    ".svg": {"metadata": {"Date": None}},
    ".pdf": {"metadata": {"CreationDate": None}},
}


def draw(data: xr.Dataset, kind: str | None = None) -> Figure:
    """Return a picture of a dataset: of a kind by name, of its sweep, or of its dimensions.

    Raises: InputError for an unknown kind (with the nearest), data that no kind shows, or data
    that lack what the kind draws.
    """
    chosen = kind or str(data.attrs.get("picture") or _kind(data))
    if chosen not in KINDS:
        raise unknown("", chosen, "kind of picture", KINDS)
    return KINDS[chosen](data)


def _kind(data: xr.Dataset) -> str:
    """Return the kind of picture that shows all dimensions of the data."""
    shown = {
        "quantile": "bands",
        "operation": "layer_bars",
        "field": "design",
        "step_number": "staircase",
        "event": "timeline",
    }
    if data.attrs.get("answer") == "plans":
        split = is_parallel(data) and "throughput" in data
        return "throughput_by_split" if split else "every_plan"
    for dim, kind in shown.items():
        if dim in data.sizes:
            return kind
    if "fullest_stage" in data:
        return "memory_by_stage"
    if "stage" in data.sizes and "busy_share" in data:
        return "stages"
    if "elasticity" in data or {"parameter", "factor"} <= set(data.sizes):
        return "tornado" if set(data.sizes) <= {"parameter", "factor", "switch"} else "binds"
    if "measured" in data and "op" in data.coords:
        return "collectives_against_measured"
    if "relative_utilisation" in data and "training_flops" in data.sizes:
        return "frontier"
    if "row" in data.sizes:
        what = "a CSV is rows of a table, whose axes are lost"
        raise refusal("draw", f"{what}; expected the results in a .nc, .zarr or .json file")
    if is_roofline(data):
        return "roofline"
    kept = best_plans(data)
    dims = set(map(str, kept.sizes))
    numbers = dims - {*named_dimensions(kept), "gpus"}
    planned = bool(split_fields(kept)) or bool(parts_of(kept, objective_of(kept)))
    if planned and dims <= set(named_dimensions(kept)):
        return "comparison"
    if planned and dims == {"plan"}:
        return "fastest_plans"
    if planned and (dims == {"gpus"} or (len(dims) == 1 and numbers)):
        return "plans_and_time"
    over_two = len(numbers) == 2 or (len(numbers) == 1 and "gpus" in dims)
    if over_two and planned and mapped(kept) in kept:
        return "machine_map"
    if "gpus" in dims and not numbers and "training_days" in data:
        return "training_days"
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
