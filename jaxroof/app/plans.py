"""The best plans of a state, as `jaxroof search` ranks them: what is best, and how sure that is."""

import json
from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import about, head_of, said_of
from jaxroof.analyses.training_plans import fastest_of
from jaxroof.app.question import asked
from jaxroof.app.state import State
from jaxroof.units import days as days_words
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as words
from jaxroof.views.text.interval import PATHS as TOKENS
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import (
    is_usual,
    plan_sentence,
    split_fields,
    stages_sentence,
    used_fields,
)

TOP = 8  # plans of the table
TRILLION = 1e12
ASSUMED = TRILLION  # tokens of a training, where a model does not say how many it was trained on
ALWAYS = ("data", "tensor", "pipeline")  # degrees that are shown whatever they are
BOUNDS = ("step_time_low", "step_time_high")


class Headline(NamedTuple):
    """What is best, how sure that is, the whole plan, and where its time goes."""

    what: str
    how_sure: str
    plan: str
    why: str


def best_plans(state: State, top: int = TOP, own: str = "") -> xr.Dataset:
    """Return the best plans of a state that fit, best first, as `jaxroof search` ranks them.

    ``own`` are fields of a plan to place among them.
    Returns: the Dataset of ``fastest_plans``.
    Raises: InputError for a state that cannot be asked, and where no plan is legal or fits.
    """
    found = asked(state)
    data = fastest_of(found.of_training, found.gpus, top, own or None)
    return data.assign_attrs(model=state.model_words, system=state.system_words)


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


def headline(data: xr.Dataset) -> Headline:
    """Return the answer in the sentences of ``jaxroof search``."""
    best = data.isel(plan=0)
    what, _, rest = words.answer_sentence(data).partition(". ")
    why = [words.parts_sentence(data), stages_sentence(best)]
    return Headline(
        f"{what.removesuffix('.')}.", rest, plan_sentence(best), " ".join(filter(None, why))
    )


def in_short(data: xr.Dataset) -> str:
    """Return the best plan and its step time in a few words."""
    return f"{names(data)[0]}, {seconds(_of_best(data, 'step_time'))} a step"


def _of_best(data: xr.Dataset, name: str) -> float:
    return float(data.variables[name].values[0])


def figures_of_merit(data: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what the best plan reaches, a name, a value and a remark each."""
    need, there = _of_best(data, "memory"), float(data.capacity)
    rate, days = _of_best(data, "tokens_per_second"), _of_best(data, "training_days")
    interval = " to ".join(seconds(_of_best(data, name)) for name in BOUNDS)
    whole, full = tokens_words(data), margin_of(data).share(need, there)
    hours = float(f"{24.0 * days * float(data.gpus):.3g}")
    return [
        ("Step time", seconds(_of_best(data, "step_time")), interval),
        ("MFU", percent(_of_best(data, "mfu"), 1), f"{rate:,.0f} tokens/s a GPU"),
        ("Memory", size(need, "B"), f"{full} % of {size(there, 'B')}"),
        ("Training", f"{days_words(days)} days", whole),
        ("GPU-hours", f"{hours:,.0f}", whole),
    ]


def tokens_words(data: xr.Dataset) -> str:
    """Return the tokens that a number of days is of, and whether anybody said so."""
    known = json.loads(data.attrs["inputs"])
    tokens = next((known[path] for path in TOKENS if path in known), ASSUMED)
    amount = f"{tokens / TRILLION:.4g} trillion tokens"
    return f"for {amount}, assumed" if tokens == ASSUMED else f"for the {amount} of its training"
