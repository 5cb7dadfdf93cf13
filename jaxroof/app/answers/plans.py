"""The best plans of a state, the sentence that says which is best and why, and the table."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import fastest_of
from jaxroof.analyses.result_metadata import head_of, parts_of, words_of
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
GB = 1e9
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
    return " ".join(f"{head_of(row, f)} {int(row[f])}" for f in fields_of(row))


def fields_of(data: xr.Dataset) -> list[str]:
    """Return the fields of a split that are not as usual in every plan; degrees are always there.

    Tensor ranks always share the tokens in a list of plans.
    """
    known = [f for f in split_fields(data, used_fields(data)) if f != "sequence_parallel"]
    return [f for f in known if f in ALWAYS or not is_usual(data, f)]


def names(data: xr.Dataset) -> list[str]:
    """Return the plans of a table in short forms."""
    return [name_of(data.isel(plan=i)) for i in range(data.sizes["plan"])]


def headline(data: xr.Dataset) -> Headline:
    """Return what is best, by how much, and why."""
    best = data.isel(plan=0)
    return Headline(_what(data, best), _by_how_much(data), _why(best))


def _what(data: xr.Dataset, best: xr.Dataset) -> str:
    interval = ""
    if "step_time_low" in best:
        low, high = float(best.step_time_low), float(best.step_time_high)
        interval = f" (80 % of such runs take {seconds(low)} to {seconds(high)})"
    plan = names(data)[0]
    return f"Best: {plan}, {seconds(float(best.step_time))} a step{interval}."


def _by_how_much(data: xr.Dataset) -> str:
    legal, fits = int(data.plans_legal), int(data.plans_feasible)
    said = f"Of {legal:,} legal plans {fits:,} fit."
    alike = int(data.plans_alike) if "plans_alike" in data else 1
    if data.sizes["plan"] > 1:
        times = data.step_time.values
        said += f" The next plan is {percent(float(times[1] / times[0]) - 1.0, 1)} slower"
        said += f"; the model cannot tell the first {alike:,} apart." if alike > 1 else "."
    return said


def _why(best: xr.Dataset) -> str:
    step = float(best.step_time)
    shares = sorted(((float(best[n]) / step, n) for n in parts_of(best, "step_time")), reverse=True)
    told = [f"{words_of(best, name)} {percent(share)}" for share, name in shares if share > LEAST]
    need = float(best.memory) / float(best.capacity)
    return f"Time goes to {listing(told)}. Memory is {percent(need)} full."


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
    places = range(data.sizes["plan"])
    rows = tuple(_row(data.isel(plan=i), data, fields, i, bool(placed)) for i in places)
    return Table(tuple(heads), rows)


def _row(row: xr.Dataset, data: xr.Dataset, fields: Any, place: int, placed: bool) -> tuple[str, ...]:
    time, best = float(row.step_time), float(data.step_time.values[0])
    need, there = float(row.memory), float(data.capacity)
    cells = [str(place + 1), *(str(int(row[f])) for f in fields)]
    cells += [placement_words(row)] if placed else []
    cells += [f"{time:.4g} s"]
    if "step_time_low" in data:
        cells += [f"{float(row.step_time_low):.4g} to {float(row.step_time_high):.4g} s"]
    cells += ["best" if not place else f"+{percent(time / best - 1.0, 1)}"]
    cells += [f"{float(row.tokens_per_second):,.0f}", percent(float(row.mfu), 1)]
    cells += [f"{need / GB:.1f} GB", percent(need / there)]
    return tuple(cells)


def figures_of_merit(data: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what the best plan reaches, a name, a value and a remark each."""
    best = data.isel(plan=0)
    need, there = float(best.memory), float(data.capacity)
    days = float(best.training_days)
    about = "no interval: the study has none"
    if "step_time_low" in best:
        about = f"{seconds(float(best.step_time_low))} to {seconds(float(best.step_time_high))}"
    tokens = float(json.loads(data.attrs["inputs"]).get("training_tokens", np.nan))
    whole = f"for {tokens:.3g} tokens" if np.isfinite(tokens) else "of the whole training"
    return [
        ("Step time", seconds(float(best.step_time)), about),
        ("MFU", percent(float(best.mfu), 1), f"{float(best.tokens_per_second):,.0f} tokens/s a GPU"),
        ("Memory", size(need, "B"), f"{percent(need / there)} of {size(there, 'B')}"),
        ("Training", f"{days:,.3g} days", whole),
        ("GPU-hours", f"{24.0 * days * float(data.gpus):,.3g}", whole),
    ]
