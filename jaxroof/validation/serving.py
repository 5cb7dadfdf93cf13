"""Predicted servers beside measured ones: error by source, software and quantity, and coverage.

A row is a server as inputs of ``serving``; its ``#kind`` says what its batch is, columns such as
``#tpot_s`` what was measured.
Source: docs/models/serving.md, section 12.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from jaxroof.catalog.serving_software import (
    kind_of_chip,
    serving_name,
    serving_software,
)
from jaxroof.engine.runs.row_stream import RowGroup, joined
from jaxroof.errors import refusal, shown, unknown
from jaxroof.estimators import estimator
from jaxroof.estimators.serving.interval import (
    LEVEL,
    MOST_BUSY,
    REGIMES,
    first_half_width,
    half_width,
    rate_half_width,
    regime,
    token_half_width,
)
from jaxroof.estimators.serving.server import QUEUED, closed_loop
from jaxroof.formulas.arithmetic import smaller
from jaxroof.records import replace_at
from jaxroof.validation.rows import FROM, Score, by_regime, furthest, rows_of, scored, table_of
from jaxroof.validation.sources import packaged, sources

COVERED = {50: "covered_50", LEVEL: "covered", 90: "covered_90"}  # columns by level
SHARED = ("system", "software")  # columns that are names: constants of a software are of a chip
QUANTITIES = {  # what was measured: its column, and words
    "tpot": ("#tpot_s", "TPOT"),
    "ttft": ("#ttft_s", "TTFT"),
    "pool": ("#pool_tpot_s", "TPOT of a pool"),
    "latency": ("#latency_s", "latency"),
    "step": ("#step_s", "decode step"),
    "prompt": ("#prompt_s", "prompt step"),
    "rate": ("#tokens_per_s", "tokens/s"),
}
WITHOUT = {  # a machine at its data sheet's rates, without any latency
    **dict.fromkeys(("matrix", "attend", "hbm", "cache", "link", "far", "exchange"), 1.0),
    **dict.fromkeys(("layer", "latent_layer", "expert_layer", "host_layer", "host_step"), 0.0),
    **dict.fromkeys(("request", "hop", "hop_far", "first", "first_steps"), 0.0),
    **dict.fromkeys(("exchange_latency", "exchange_latency_far"), 0.0),
    "tile": 1e-9,
}
AS_GIVEN = ("closed", "batch")  # kinds whose batch ran, whatever the memory of an engine is thought
POINTS, ALIKE = "inferencemax", 0.15  # source; relative difference of lengths drawn from a range
NUMBERS = ("measured", "predicted", "low", "high", "error")  # of an answer
BEATS = "faster than the data sheet lets it be: not believed"
NONE_FITS = "not one sequence fits"
QUEUE = f"busy with prompts for more than {100 * MOST_BUSY:.0f} % of the time: measures its queue"


# ---- What a row measures -------------------------------------------------------------------------


def with_batch(inputs: Any, batch: Any, chunk: Any = None) -> Any:
    """Return inputs with another batch, and another chunk."""
    inputs = replace_at(inputs, "plan.batch", batch)
    return inputs if chunk is None else replace_at(inputs, "plan.chunk", chunk)


def _in_closed_loop(inputs: Any, recipe: Any) -> tuple[Any, Any]:
    inputs = replace_at(inputs, "workload.variation", QUEUED)
    found = closed_loop(inputs, recipe, inputs.plan.batch)
    return found, estimator("serving").evaluate(found, recipe)


def _within_memory(inputs: Any, recipe: Any, prompts: bool) -> tuple[Any, Any]:
    """Return a server whose batch memory holds; ``prompts``: with as many as it takes at once.

    chunk = min(chunk, b I / (O - 1))
    """
    asked, plan, work = estimator("serving"), inputs.plan, inputs.workload
    batch = smaller(plan.batch, asked.evaluate(inputs, recipe).largest_batch)
    held = np.maximum(batch, 1e-9)
    chunk = smaller(plan.chunk, held * work.prompt / (work.output - 1.0)) if prompts else None
    found = with_batch(inputs, held, chunk)
    return found, asked.evaluate(found, recipe)


def _in_waves(inputs: Any, recipe: Any) -> tuple[Any, Any]:
    """Return a static batch: waves of what memory holds, the last with the rest.

    latency = prompts of all sequences in one step + (O - 1) decode steps
    """
    asked, most, work = estimator("serving"), inputs.plan.batch, inputs.workload
    largest = np.floor(asked.evaluate(inputs, recipe).largest_batch)
    size = np.maximum(smaller(most, largest), 1e-9)
    whole = np.floor(most / size)
    rest = most - whole * size

    def latency(batch: Any) -> Any:
        some = np.maximum(batch, 1e-9)
        found = asked.evaluate(with_batch(inputs, some, some * work.prompt), recipe)
        return found.step_prompt + (work.output - 1.0) * found.step_decode

    last = np.where(rest > 0.0, latency(rest), 0.0)
    total = np.where(largest > 0.0, whole * latency(size) + last, np.nan)
    return inputs, dataclasses.replace(asked.evaluate(inputs, recipe), latency=total)


OF_KIND: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {  # what the batch of a row is
    # users of a closed loop
    "closed": _in_closed_loop,
    # sequences for each worker of a decode pool, as far as memory holds them
    "pool": lambda inputs, recipe: _within_memory(inputs, recipe, prompts=False),
    # the most sequences at once, as far as memory holds them
    "load": lambda inputs, recipe: _within_memory(inputs, recipe, prompts=True),
    # one batch, in waves if memory does not hold it
    "static": _in_waves,
    # sequences at once
    "batch": lambda inputs, recipe: (inputs, estimator("serving").evaluate(inputs, recipe)),
}


def predicted(kind: str, inputs: Any, recipe: Any) -> tuple[Any, dict[str, Any]]:
    """Return rows of a kind with their batches, and what they are compared with, by quantity.

    ``busy`` is the share of the time with prompts, ``fits`` whether memory holds one sequence.
    """
    found, report = OF_KIND[kind](inputs, recipe)
    plan = found.plan
    size = plan.tensor * plan.data * plan.pipeline
    return found, {
        "tpot": report.tpot,
        "pool": report.step_decode,
        "ttft": report.ttft,
        "latency": report.latency,
        "step": report.step_decode,
        "prompt": report.step_prompt + found.software.request * plan.batch / plan.data,
        "rate": report.output_rate * size,
        "busy": report.busy,
        "fits": (report.largest_batch >= 1.0) | (kind in AS_GIVEN),
    }


# ---- Rows of a source ----------------------------------------------------------------------------


def server_answers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return measured quantities of rows, each with its prediction, regime, error and coverage.

    A quantity that is not compared has a reason and no error.
    """
    groups, reasons = groups_of(frame)
    about = _about(frame)
    places = [*reasons]
    blank: dict[str, Any] = {
        **dict.fromkeys(("quantity", "regime"), ""),
        **dict.fromkeys(NUMBERS, np.nan),
    }
    made = [about.iloc[places].assign(**blank, reason=[*reasons.values()])]
    for kind, group in groups:
        made += _answers(frame.iloc[group.rows], about.iloc[group.rows], kind, group)
    return pd.concat(made).sort_index(kind="stable").reset_index(drop=True)


def groups_of(frame: pd.DataFrame) -> tuple[list[tuple[str, RowGroup]], dict[int, str]]:
    """Return rows that are evaluated at once with their kind, and why others ask nothing."""
    where, every = frame.attrs.get("where", "rows"), estimator("serving")
    for name in ("#kind", "model", *SHARED):
        if name not in frame:
            raise refusal(where, f"{name}: no such column; expected one in rows of servers")
    reasons: dict[int, str] = {}
    found: dict[str, list[RowGroup]] = {}
    for kind, shared, some in _alike(frame):
        constants = serving_software(shared["software"], shared["system"])
        asked = rows_of(some, of=every, system=shared["system"], software=constants)
        places = some.index.to_numpy()
        found.setdefault(kind, []).extend(g._replace(rows=places[g.rows]) for g in asked.groups)
        reasons |= {int(places[place]): why for place, why in asked.reasons.items()}
    return [(kind, group) for kind, each in found.items() for group in joined(each)], reasons


def _about(frame: pd.DataFrame) -> pd.DataFrame:
    pairs = [*zip(frame["software"], frame["system"], strict=True)]
    names_of = {p: f"{serving_name(*p)} {kind_of_chip(p[1]) or ''}".strip() for p in {*pairs}}
    software = [names_of[pair] for pair in pairs]
    names = {
        "source": frame.get(FROM, ""),
        "id": frame["id"],
        "model": frame["model"],
        "software": software,
    }
    return pd.DataFrame(names, index=frame.index)


def _alike(frame: pd.DataFrame) -> Iterator[tuple[str, dict[str, str], pd.DataFrame]]:
    """Yield rows of one kind, software and machine that fill the same columns, and what they share.

    So a number that only some rows say is that of the catalogue for the others.
    """
    keys = [line.tobytes() for line in (frame != "").to_numpy()]
    for key, some in frame.groupby([keys, "#kind", *SHARED], sort=False):
        _, kind, *names = map(str, key)
        if kind not in OF_KIND:
            raise unknown("#kind", kind, "kind of row", OF_KIND)
        kept = [n for n in some.columns if n.startswith("#") or (some[n] != "").all()]
        yield kind, dict(zip(SHARED, names, strict=True)), some[kept].drop(columns=[*SHARED])


def _answers(
    some: pd.DataFrame, about: pd.DataFrame, kind: str, group: RowGroup
) -> Iterator[pd.DataFrame]:
    """Yield the answers to rows of a kind by what was measured."""
    _, inputs, recipe = group
    asked, found = predicted(kind, inputs, recipe)
    for name, value in WITHOUT.items():
        asked = replace_at(asked, f"software.{name}", value)
    _, least = predicted("static" if kind == "static" else "batch", asked, recipe)
    widths = _half_widths(inputs, found["busy"], kind == "pool")
    for quantity, (column, _) in QUANTITIES.items():
        here = np.flatnonzero(some.get(column, "") != "")
        if not len(here):
            continue
        measured = pd.to_numeric(some[column], errors="coerce").to_numpy(float)
        measured = np.where(measured > 0.0, measured, np.nan)
        value = found[quantity]
        ahead = least[quantity] < measured if quantity == "rate" else least[quantity] > measured
        late = (quantity == "ttft") & (found["busy"] >= MOST_BUSY)
        wrong = [f"{column}: not a number above 0, given {shown(cell)}" for cell in some[column]]
        doubts = [np.isnan(measured), ~found["fits"], late, ahead]
        reasons = np.select(doubts, [np.array(wrong), NONE_FITS, QUEUE, BEATS], "")
        words, halves = widths["rate" if quantity == "rate" else quantity == "ttft"]
        far = np.abs(np.log(value / measured))
        covered = {n: far <= half for n, half in zip(COVERED.values(), halves, strict=True)}
        half = halves[[*COVERED].index(LEVEL)]
        one = about.assign(quantity=quantity, measured=measured, predicted=value, **covered)
        one = one.assign(regime=words, low=value * np.exp(-half), high=value * np.exp(half))
        error = np.where(reasons == "", value / measured - 1.0, np.nan)
        one = one.assign(error=error, reason=reasons)
        yield one.iloc[here]


def _half_widths(inputs: Any, busy: Any, pool: bool) -> Mapping[Any, tuple[Any, list[Any]]]:
    """Return regimes in words with half widths at every level: of steps, first tokens, rates."""
    place, own = regime(inputs, pool), token_half_width(inputs, pool)
    words = np.array([one.words for one in REGIMES])[np.asarray(place, int)]
    routed = np.where(np.asarray(inputs.model.experts) > 0.0, "experts", "dense")
    return {
        False: (words, [own if n == LEVEL else half_width(place, n) for n in COVERED]),
        True: ("TTFT", [first_half_width(inputs, busy, pool, n) for n in COVERED]),
        "rate": (
            np.char.add("tokens/s, ", routed),
            [rate_half_width(inputs, level) for level in COVERED],
        ),
    }


def packaged_answers(source: str | None = None) -> pd.DataFrame:
    """Return every packaged row with its predictions, or those of one source or file.

    >>> len(packaged_answers("tpu"))
    9
    """
    if source is not None and source.endswith((".csv", ".csv.gz")):
        return server_answers(table_of(source).reset_index(drop=True).assign(**{FROM: source}))
    names = list(sources("serving")) if source is None else [source]
    frames = [packaged("serving", name).assign(**{FROM: name}) for name in names]
    return server_answers(pd.concat(frames, ignore_index=True).fillna(""))


def scores(found: pd.DataFrame) -> list[Score]:
    """Return the errors by source, software with kind of chip, and quantity."""
    words = {name: said for name, (_, said) in QUANTITIES.items()}
    names = ("source", "software", "quantity")
    each = found.replace({"quantity": words}).groupby("source", sort=False)
    return [one for _, some in each for one in scored(some.sort_values([*names]), names)]


def regime_scores(found: pd.DataFrame) -> list[Score]:
    """Return errors and coverage by regime over all sources, and over all rows."""
    return by_regime(found, found.dropna(subset="error")["regime"].value_counts().index)


def worst(found: pd.DataFrame, most: int = 5) -> pd.DataFrame:
    """Return the rows that are furthest off, one of each model, software and quantity."""
    known = found.dropna(subset="error")
    known = known.assign(group=known["model"] + known["software"] + known["quantity"])
    return furthest(known, np.abs(np.log1p(known["error"])), most)


def measured_points(
    model: str, system: str, software: str, formats: str, prompt: float, output: float
) -> np.ndarray:
    """Return measured servers of a model, chip, software, precision and lengths, [row, (x, y)].

    x = 1 / tpot, y = users output / ((ttft + (output - 1) tpot) accelerators)

    Arguments: ``formats`` of weights as an answer names them, attention before MLPs.

    >>> len(measured_points("gpt-oss-120b", "h100-nvs8", "vllm-2026", "bf16:mxfp4-16", 1024, 1024))
    30
    """
    rows = packaged("serving", POINTS)
    attention, _, mlp = formats.partition(":")
    asked = {"#kind": "closed", "model": model, "system": system, "software": software}
    asked |= {"precision.attention_format": attention, "precision.mlp_format": mlp or attention}
    held = np.all([rows[name] == value for name, value in asked.items()], axis=0)
    some = rows[held & (rows["system.hbm_capacity"] == "")]
    names = ("prompt", "output", "batch", "tp", "dp", "#tpot_s", "#ttft_s")
    number = {name: pd.to_numeric(some[name], errors="coerce").to_numpy(float) for name in names}
    near = np.abs(number["prompt"] / prompt - 1.0) <= ALIKE
    near &= np.abs(number["output"] / output - 1.0) <= ALIKE
    number = {name: values[near] for name, values in number.items()}
    latency = number["#ttft_s"] + (number["output"] - 1.0) * number["#tpot_s"]
    rate = number["batch"] * number["output"] / latency / (number["tp"] * number["dp"])
    points = np.stack([1.0 / number["#tpot_s"], rate], axis=-1)
    return points[np.isfinite(points).all(axis=-1)]
