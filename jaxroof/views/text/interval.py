"""The interval of a step time in words, and the training that a number of days is of."""

import json

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import about
from jaxroof.errors import listing
from jaxroof.estimators.training.interval import of_own_runs
from jaxroof.units import seconds
from jaxroof.views.text import whole_run

PATHS = ("training_tokens", "model.training_tokens")  # of a training: the first given counts
TRILLION, MILLION = 1e12, 1e6
LOW, HIGH = "step_time_low", "step_time_high"


def interval_words(plan: xr.Dataset) -> str:
    """Return the interval of one step time in brackets, empty if there is none."""
    if LOW not in plan:
        return ""
    low, high = (seconds(float(plan[name])) for name in (LOW, HIGH))
    return f" ({low} to {high} in 80 % of runs)"


def short_interval(plan: xr.Dataset) -> str:
    """Return the interval of one step time in seconds, as short as a column wants it."""
    ends = (float(plan[name]) for name in (LOW, HIGH))
    return "-".join(f"{end:#.3g}".removesuffix(".") if end < 1e3 else f"{end:.0f}" for end in ends)


def spread_words(plan: xr.Dataset) -> str:
    """Return how far measured runs spread around one step time, empty if that is not known.

    >>> spread_words(xr.Dataset({"step_time": 10.0, LOW: 9.0, HIGH: 11.2}))
    '-10 % to +12 %'
    """
    if LOW not in plan:
        return ""
    below, above = (float(plan[end]) / float(plan.step_time) - 1.0 for end in (LOW, HIGH))
    return f"{100 * below:+.0f} % to {100 * above:+.0f} %"


def regimes(data: xr.Dataset) -> list[str]:
    """Return the kinds of run whose measured errors the intervals have."""
    names = str(about(data, "regime").get("flag_meanings", "")).split()
    there = np.unique(data.regime.values[np.isfinite(data.regime.values)]).astype(int)
    return [names[place].replace("_", " ") for place in there]


def interval_sentence(data: xr.Dataset) -> str:
    """Return what the interval of every step time is, empty if there is none."""
    if LOW not in data:
        return ""
    time = data.step_time.values
    ends = [data[name].values / time for name in (LOW, HIGH)]
    least, most = (np.unique(np.round(e[np.isfinite(e)], 3)) for e in ends)
    if len(least) == 0:
        return ""
    place = data.regime.values
    own = of_own_runs(data[LOW].values, data[HIGH].values, place) & np.isfinite(time)
    kinds = listing(regimes(data)) + ", by your own runs" * bool(np.any(own))
    between = f"{least[-1]:.2f} and {most[0]:.2f}"
    wider = f" (at most {least[0]:.2f} and {most[-1]:.2f})" if len(least) > 1 else ""
    return f"80 % of measured runs ({kinds}) took between {between} times a step time{wider}."


def run_sentence(data: xr.Dataset) -> str:
    """Return the days and the GPU-hours of a whole training by the best plan; empty if unknown."""
    tokens, asked = _tokens(data), json.loads(data.attrs.get("inputs", "{}"))
    if asked.get("lora_rank"):  # tokens are those of the whole training
        return ""
    days = float(data["training_days"][0]) if "training_days" in data else np.nan
    if tokens is None or "gpus" not in data or not np.isfinite(days):
        return ""
    gpus = int(data["gpus"])
    hours = 24.0 * days * gpus
    said = f"{hours / MILLION:.4g} million" if hours >= MILLION else f"{hours:,.0f}"
    whole = f"A training on {tokens / TRILLION:.4g} T tokens"
    own = accelerator(data)
    healthy = f"{whole} takes {days:,.4g} days on these {gpus:,}: {said} {own}-hours."
    return f"{healthy} {whole_run.run_sentence(data.isel(plan=0))}".strip()


def accelerator(data: xr.Dataset) -> str:
    """Return what one accelerator of an answer is called."""
    return str(data.attrs.get("accelerator", "GPU"))


def _tokens(data: xr.Dataset) -> float | None:
    known = json.loads(data.attrs.get("inputs", "{}"))
    return next((known[path] for path in PATHS if path in known), None)


def tokens_sentence(data: xr.Dataset, tokens: float | None = None) -> str:
    """Return the tokens that the days of some results are of, empty without days or tokens.

    ``tokens`` are those of a model that is on an axis.

    >>> told = {"inputs": '{"model.training_tokens": 15.6e12}'}
    >>> tokens_sentence(xr.Dataset({"training_days": 9.0}, attrs=told))
    'Days are of a training on 15.6 T tokens.'
    """
    found = _tokens(data) or tokens
    if "training_days" not in data or found is None or not np.isfinite(found):
        return ""
    return f"Days are of a training on {found / TRILLION:.4g} T tokens."
