"""The best plans of a state, the sentence that says which is best and why, and the table."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import fastest_of
from jaxroof.analyses.result_metadata import about, head_of, parts_of, words_of
from jaxroof.app.question import Asked, asked
from jaxroof.app.state import TRAINING, State
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text.plan import (
    is_usual,
    placement_head,
    placement_words,
    plan_fields,
    split_fields,
    used_fields,
)

TOP = 8  # plans of the table
GB, TRILLION = 1e9, 1e12
ALWAYS = ("data", "tensor", "pipeline")  # degrees that are shown whatever they are
LEAST = 0.05  # share of a step from which a part is worth words


class Headline(NamedTuple):
    """What is best, by how much, and why: a sentence each."""

    what: str
    by_how_much: str
    why: str


class Table(NamedTuple):
    """A table of texts: a head with its explanation for every column, and the rows."""

    heads: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]


def best_plans(state: State, top: int = TOP, own: str = "") -> xr.Dataset:
    """Return the best plans of a state that fit, best first, as `jaxroof search` ranks them.

    ``own`` are fields of a plan to place among them, of today's training.
    Returns: a Dataset over ``plan`` of plan fields and results, ``gpus``, ``capacity``,
    ``plans_legal`` and ``plans_feasible``.
    Raises: InputError for a state that cannot be asked, and where no plan is legal or fits.
    """
    found = asked(state)
    search_of = _training_plans if state.estimator == TRAINING else _other_plans
    data = search_of(found, top, own)
    return data.assign_attrs(model=state.model_words, system=state.system)


def _training_plans(found: Asked, top: int, own: str) -> xr.Dataset:
    return fastest_of(found.of_training, found.gpus, top, own or None)


def _other_plans(found: Asked, top: int, _: str) -> xr.Dataset:
    data = search(found.estimator, found.inputs, found.recipe, where=found.where, top=max(top, 2))
    data = data.isel(rank=data.feasible.values.astype(bool)).isel(rank=slice(top))
    if not data.sizes["rank"]:
        raise InputError(_nothing(data, found))
    about = {"units": "1", "long_name": "Accelerators"}
    limit = {"units": "B", "long_name": "High-bandwidth memory that a step may fill"}
    data = data.drop_vars("rank").rename_dims(rank="plan")
    return data.assign(gpus=((), found.gpus, about), capacity=((), found.capacity, limit))


def _nothing(data: xr.Dataset, found: Asked) -> str:
    """Return that no plan is legal, or how much more the leanest needs than there is."""
    legal = int(data.plans_legal)
    if not legal:
        return f"plan: none is legal on {found.gpus:,} accelerators; expected another number"
    least, there = size(float(data.memory_least), "B"), size(found.capacity, "B")
    return f"plan: none of {legal:,} legal ones fits: the leanest needs {least} of {there}"


# ---- In words -----------------------------------------------------------------------------------


def name_of(row: xr.Dataset) -> str:
    """Return one plan in short forms, without fields at their usual value."""
    return names(row)[0]


def names(data: xr.Dataset) -> list[str]:
    """Return the plans of a table in short forms, each without fields at their usual value."""
    fields = _fields(data)
    columns = [np.atleast_1d(data.variables[f].values).tolist() for f in fields]
    heads = [head_of(data, f) for f in fields]
    usual = [None if f in ALWAYS else about(data, f).get("default") for f in fields]
    marks = [None if one is None else float(one) for one in usual]
    rows = zip(*columns, strict=True)
    return [
        " ".join(f"{h} {int(v)}" for h, v, mark in zip(heads, row, marks, strict=True) if v != mark)
        for row in rows
    ]


def fields_of(data: xr.Dataset) -> list[str]:
    """Return the fields of a split that are not as usual in every plan; degrees are always there.

    Tensor ranks always share the tokens in a list of plans.
    """
    return [f for f in _fields(data) if f in ALWAYS or not is_usual(data, f)]


def _fields(data: xr.Dataset) -> list[str]:
    return [f for f in split_fields(data, used_fields(data)) if f != "sequence_parallel"]


def columns(data: xr.Dataset, *fields: str) -> dict[str, list[float]]:
    """Return some results as lists of numbers, one a plan."""
    return {name: data.variables[name].values.astype(float).tolist() for name in fields}


def headline(data: xr.Dataset) -> Headline:
    """Return what is best, by how much, and why."""
    return Headline(_what(data), _by_how_much(data), _why(data))


def _what(data: xr.Dataset) -> str:
    interval = ""
    if "step_time_low" in data.variables:
        low, high = _of_best(data, "step_time_low"), _of_best(data, "step_time_high")
        interval = f" (80 % of such runs take {seconds(low)} to {seconds(high)})"
    return f"Best: {names(data)[0]}, {seconds(_of_best(data, 'step_time'))} a step{interval}."


def _of_best(data: xr.Dataset, name: str) -> float:
    return float(data.variables[name].values[0])


def _by_how_much(data: xr.Dataset) -> str:
    legal, fits = int(data.plans_legal), int(data.plans_feasible)
    said = f"Of {legal:,} legal plans {fits:,} fit."
    alike = int(data.plans_alike) if "plans_alike" in data else 1
    if data.sizes["plan"] > 1:
        times = data.step_time.values
        said += f" The next plan is {percent(float(times[1] / times[0]) - 1.0, 1)} slower"
        said += f"; the model cannot tell the first {alike:,} apart." if alike > 1 else "."
    return said


def _why(data: xr.Dataset) -> str:
    step = _of_best(data, "step_time")
    parts = parts_of(data, "step_time")
    shares = sorted(((_of_best(data, name) / step, name) for name in parts), reverse=True)
    told = [f"{words_of(data, name)} {percent(share)}" for share, name in shares if share > LEAST]
    full = percent(_of_best(data, "memory") / float(data.capacity))
    where = f"Time goes to {listing(told)}. " if told else ""
    return f"{where}Memory is {full} full."


# ---- The table ----------------------------------------------------------------------------------

HEADS: Mapping[str, tuple[str, str]] = {
    "step": ("step", "Seconds of one optimizer step"),
    "interval": ("80 % of runs", "Four of five measured runs of this kind lie between"),
    "slower": ("slower", "How much longer than the best plan"),
    "tokens": ("tokens/s", "Tokens trained on a second by one accelerator"),
    "mfu": ("MFU", "Model FLOP utilisation"),
    "memory": ("HBM", "High-bandwidth memory of the fullest accelerator"),
    "full": ("full", "Share of the memory that a step may fill"),
}


def table(data: xr.Dataset) -> Table:
    """Return the best plans as texts: their fields, time, rates and memory."""
    fields = fields_of(data)
    placed = placement_head(data, plan_fields(data))
    heads = [("#", "Place, best first")]
    heads += [(head_of(data, f), str(data[f].attrs.get("long_name", f))) for f in fields]
    heads += [("placed", f"In one NVLink domain: {placed}")] if placed else []
    bounded = "step_time_low" in data
    heads += [HEADS[name] for name in HEADS if bounded or name != "interval"]
    cells = columns(data, *fields, *RESULTS, *(BOUNDS if bounded else ()))
    placements = (
        [placement_words(data.isel(plan=i)) for i in range(len(cells["memory"]))] if placed else []
    )
    rows = []
    for place in range(len(cells["memory"])):
        row = {name: column[place] for name, column in cells.items()}
        own = [placements[place]] if placed else []
        split = [str(int(row[field])) for field in fields]
        slower = row["step_time"] / cells["step_time"][0] - 1.0
        rows.append((str(place + 1), *split, *own, *_results(row, slower, float(data.capacity))))
    return Table(tuple(heads), tuple(rows))


RESULTS = ("step_time", "tokens_per_second", "mfu", "memory")
BOUNDS = ("step_time_low", "step_time_high")


def _results(row: Mapping[str, float], slower: float, there: float) -> list[str]:
    """Return the cells of one plan behind its fields."""
    cells = [f"{row['step_time']:.4g} s"]
    if BOUNDS[0] in row:
        cells += [f"{row[BOUNDS[0]]:.4g} to {row[BOUNDS[1]]:.4g} s"]
    cells += [f"+{percent(slower, 1)}" if slower > 0.0 else "best"]
    cells += [f"{row['tokens_per_second']:,.0f}", percent(row["mfu"], 1)]
    return [*cells, f"{row['memory'] / GB:.1f} GB", percent(row["memory"] / there)]


def figures_of_merit(data: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what the best plan reaches, a name, a value and a remark each."""
    need, there = _of_best(data, "memory"), float(data.capacity)
    days, rate = _of_best(data, "training_days"), _of_best(data, "tokens_per_second")
    interval = "no interval: the study has none"
    if BOUNDS[0] in data.variables:
        interval = " to ".join(seconds(_of_best(data, name)) for name in BOUNDS)
    tokens = json.loads(data.attrs["inputs"]).get("training_tokens")
    whole = f"for {tokens / TRILLION:.3g} trillion tokens" if tokens else "of the whole training"
    hours = float(f"{24.0 * days * float(data.gpus):.3g}")
    return [
        ("Step time", seconds(_of_best(data, "step_time")), interval),
        ("MFU", percent(_of_best(data, "mfu"), 1), f"{rate:,.0f} tokens/s a GPU"),
        ("Memory", size(need, "B"), f"{percent(need / there)} of {size(there, 'B')}"),
        ("Training", f"{float(f'{days:.3g}'):,g} days", whole),
        ("GPU-hours", f"{hours:,.0f}", whole),
    ]
