"""The best plans of a state, the sentence that says which is best and why, and the table."""

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.fastest_plans import fastest_of
from jaxroof.analyses.result_metadata import about, head_of, said_of
from jaxroof.app.answers.rules import unmet
from jaxroof.app.question import Asked, asked
from jaxroof.app.state import TRAINING, State
from jaxroof.engine.search.none_legal import NoLegalPlan
from jaxroof.engine.search.search import search
from jaxroof.errors import InputError, listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as training_words
from jaxroof.views.text import search as study_words
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import (
    glossary,
    is_usual,
    placement_fields,
    placement_head,
    placement_words,
    plan_fields,
    plan_sentence,
    split_fields,
    stages_sentence,
    used_fields,
)
from jaxroof.views.text.tokens import PATHS as TOKENS

TOP = 8  # plans of the table
GB, TRILLION = 1e9, 1e12
ASSUMED = TRILLION  # tokens of a training, where a model does not say how many it was trained on
ALWAYS = ("data", "tensor", "pipeline")  # degrees that are shown whatever they are


class Headline(NamedTuple):
    """What is best, how sure that is, the whole plan, and where its time goes."""

    what: str
    how_sure: str
    plan: str
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
    return data.assign_attrs(model=state.model_words, system=state.system_words)


def _training_plans(found: Asked, top: int, own: str) -> xr.Dataset:
    try:
        return fastest_of(found.of_training, found.gpus, top, own or None)
    except NoLegalPlan as error:
        raise InputError(unmet(found) or str(error)) from None


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
    if not legal and found.where:
        rules = listing([str(rule) for rule in found.where])
        return f"where: no legal plan on {found.gpus:,} accelerators has {rules}"
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
    usual = [None if f in ALWAYS else about(data, f).get("default") for f in fields]
    marks = [None if one is None else float(one) for one in usual]
    rows = zip(*columns, strict=True)
    return [
        " ".join(
            f"{head_of(data, f)} {said_of(data, f, v)}"
            for f, v, mark in zip(fields, row, marks, strict=True)
            if v != mark
        )
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
    """Return the answer in the sentences of ``jaxroof search``."""
    best = data.isel(plan=0)
    if BOUNDS[0] in data:
        said = training_words.answer_sentence(data)
        why = [training_words.parts_sentence(data), stages_sentence(data.isel(plan=0))]
    else:
        said = study_words.best_sentence(best, int(data.plans_feasible), float(data.capacity))
        why = [study_words.parts_sentence(best)]
    what, _, rest = said.partition(". ")
    plan = plan_sentence(best)
    return Headline(f"{what.removesuffix('.')}.", rest, plan, " ".join(filter(None, why)))


def in_short(data: xr.Dataset) -> str:
    """Return the best plan and its step time in a few words."""
    return f"{names(data)[0]}, {seconds(_of_best(data, 'step_time'))} a step"


def _of_best(data: xr.Dataset, name: str) -> float:
    return float(data.variables[name].values[0])


def glossary_of(data: xr.Dataset) -> str:
    """Return what the short names of the table mean, as the commands say it."""
    if BOUNDS[0] in data:
        return training_words.table_sentence(data, fields_of(data))
    return glossary(data, [*fields_of(data), *placement_fields(data)])


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
    fields, margin = fields_of(data), margin_of(data)
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
        split = [said_of(data.isel(plan=place), field) for field in fields]
        slower = row["step_time"] / cells["step_time"][0] - 1.0
        full = margin.share(row["memory"], float(data.capacity))
        rows.append((str(place + 1), *split, *own, *_results(row, slower), f"{full} %"))
    return Table(tuple(heads), tuple(rows))


RESULTS = ("step_time", "tokens_per_second", "mfu", "memory")
BOUNDS = ("step_time_low", "step_time_high")


def _results(row: Mapping[str, float], slower: float) -> list[str]:
    """Return the cells of one plan behind its fields, but how full an accelerator is."""
    cells = [f"{row['step_time']:.4g} s"]
    if BOUNDS[0] in row:
        cells += [f"{row[BOUNDS[0]]:.4g} to {row[BOUNDS[1]]:.4g} s"]
    cells += [f"+{percent(slower, 1)}" if slower > 0.0 else "best"]
    cells += [f"{row['tokens_per_second']:,.0f}", percent(row["mfu"], 1)]
    return [*cells, f"{row['memory'] / GB:.1f} GB"]


def figures_of_merit(data: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what the best plan reaches, a name, a value and a remark each."""
    need, there = _of_best(data, "memory"), float(data.capacity)
    rate, days = _of_best(data, "tokens_per_second"), _of_best(data, "training_days")
    interval = "no interval: the study has none"
    if BOUNDS[0] in data.variables:
        interval = " to ".join(seconds(_of_best(data, name)) for name in BOUNDS)
    whole, full = tokens_words(data), margin_of(data).share(need, there)
    hours = float(f"{24.0 * days * float(data.gpus):.3g}")
    return [
        ("Step time", seconds(_of_best(data, "step_time")), interval),
        ("MFU", percent(_of_best(data, "mfu"), 1), f"{rate:,.0f} tokens/s a GPU"),
        ("Memory", size(need, "B"), f"{full} % of {size(there, 'B')}"),
        ("Training", days_words(days), whole),
        ("GPU-hours", f"{hours:,.0f}", whole),
    ]


def days_words(days: float) -> str:
    """Return days as people write them.

    >>> days_words(1139.7), days_words(13.987)
    ('1,140 days', '14 days')
    """
    return f"{float(f'{days:.3g}'):,g} days"


def tokens_words(data: xr.Dataset) -> str:
    """Return the tokens that a number of days is of, and whether anybody said so."""
    known = json.loads(data.attrs["inputs"])
    tokens = next((known[path] for path in TOKENS if path in known), ASSUMED)
    amount = f"{tokens / TRILLION:.4g} trillion tokens"
    return f"for {amount}, assumed" if tokens == ASSUMED else f"for the {amount} of its training"
