"""The best plans of a state, as `jaxroof search` ranks them: what is best, and how sure that is."""

import json
from typing import NamedTuple

import xarray as xr

from jaxroof.analyses.training_plans import fastest_of
from jaxroof.app.question import asked
from jaxroof.app.state import State
from jaxroof.units import days as days_words
from jaxroof.units import percent, seconds, size
from jaxroof.views.text import fastest_plans as words
from jaxroof.views.text.assumed import assumed_sentences
from jaxroof.views.text.interval import HIGH, LOW, TRILLION, accelerator
from jaxroof.views.text.interval import PATHS as TOKENS
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import plan_sentence, stages_sentence, used_fields, usual_words

TOP = 8  # plans of the table
ASSUMED = TRILLION  # tokens of a training, where a model does not say how many it was trained on


class Headline(NamedTuple):
    """What is best, how sure that is, the whole plan, where its time goes, what is assumed."""

    what: str
    how_sure: str
    plan: str
    why: str
    assumed: str


def best_plans(state: State, top: int = TOP, own: str = "") -> xr.Dataset:
    """Return the best plans of a state that fit, best first, as `jaxroof search` ranks them.

    ``own`` are fields of a plan to place among them.
    """
    data = fastest_of(asked(state), state.gpus, top, own or None)
    return data.assign_attrs(model=state.model_words, system=state.system_words)


def names(data: xr.Dataset, dim: str = "plan") -> list[str]:
    """Return the plans of a table in short forms, each without fields at their usual value."""
    fields = data[used_fields(data)]
    return [usual_words(fields.isel({dim: place})) for place in range(data.sizes[dim])]


def headline(data: xr.Dataset) -> Headline:
    """Return the answer in the sentences of ``jaxroof search``."""
    best = data.isel(plan=0)
    what, _, rest = words.answer_sentence(data).partition(". ")
    why = [words.where_sentence(best), stages_sentence(best)]
    what = f"{what.removesuffix('.')}."
    assumed = " ".join(assumed_sentences(data))
    return Headline(what, rest, plan_sentence(best), " ".join(filter(None, why)), assumed)


def figures_of_merit(data: xr.Dataset) -> list[tuple[str, str, str]]:
    """Return what the best plan reaches, a name, a value and a remark each."""
    best = data.isel(plan=0)
    need, there, days = float(best.memory), float(data.capacity), float(best.training_days)
    interval = " to ".join(seconds(float(best[name])) for name in (LOW, HIGH))
    whole, hours = tokens_words(data), float(f"{24.0 * days * float(data.gpus):.3g}")
    own = accelerator(data)
    full = f"{margin_of(data).share(need, there)} % of {size(there, 'B')}"
    return [
        ("Step time", seconds(float(best.step_time)), interval),
        (
            "MFU",
            percent(float(best.mfu), 1),
            f"{float(best.tokens_per_second):,.0f} tokens/s a {own}",
        ),
        ("Memory", size(need, "B"), full),
        ("Training", f"{days_words(days)} days", f"{whole}, without stops"),
        (f"{own[:1].upper()}{own[1:]}-hours", f"{hours:,.0f}", whole),
    ]


def tokens_words(data: xr.Dataset) -> str:
    """Return the tokens that a number of days is of, and whether anybody said so."""
    known = json.loads(data.attrs["inputs"])
    tokens = next((known[path] for path in TOKENS if path in known), ASSUMED)
    amount = f"{tokens / TRILLION:.4g} trillion tokens"
    return f"for {amount}, assumed" if tokens == ASSUMED else f"for the {amount} of its training"
