"""Systems and splits side by side, each with its best plan: speed, memory, and the reasons."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    head_of,
    headlines,
    need_of,
    objective_of,
    parts_of,
    rises,
    timed_of,
    unit_of,
    words_of,
)
from jaxroof.errors import listing
from jaxroof.units import amount, days, size, times, too_much
from jaxroof.views.text.assumed import assumed_sentences
from jaxroof.views.text.interval import (
    LOW,
    interval_sentence,
    interval_words,
    short_interval,
    tokens_sentence,
)
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import glossary, plan_columns, stages_sentence, whole_plan
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose
from jaxroof.views.text.sweep import NO_LEGAL_PLAN
from jaxroof.views.text.whole_run import RUN, days_of, energy, money, takes

Difference = tuple[str, str, str]  # amount, part, its share
MFU = "MFU: model FLOP with causal attention (half of it), against the 16-bit peak"
SOONER = "sooner"  # the probability that the fastest is sooner than this
CHANCE = "best is sooner: by the intervals of both, less the error that both share"
KINDS = ("system", "split", "dispatcher")  # that are side by side in a table
DAYS = "training_days"
SAMPLES = Shown("samples\n/s", lambda row: f"{float(row.throughput):.5g}", 7)  # of a training step
SHARE = Shown("MFU\n%", lambda row: f"{100 * float(row.mfu):.1f}", 6)
TELLING = 0.1  # smallest share of a difference for which a part is named


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best plan of each system and split, for each model and number of accelerators."""
    numbers = json.loads(data.attrs["inputs"])
    batch = f", batch {int(numbers['global_batch']):,}" if "global_batch" in numbers else ""
    sizes = data["gpus"].values.tolist() if "gpus" in data.sizes else [numbers.get("gpus")]
    each = "gpus" in data.coords and data["gpus"].dims == ("system",)
    for name, tokens in models_of(data).items():
        for gpus in sizes:
            some = data.sel(model=name) if "model" in data.sizes else data
            some = some.sel(gpus=gpus) if "gpus" in data.sizes else some
            on = "" if each else f" on {int(gpus):,} accelerators"
            yield from title(f"{name}{on}{batch}")
            yield from _compared(some)
        yield from usual(tokens_sentence(data, tokens))
    more = [MFU] * (LOW in data) + [CHANCE] * (SOONER in data)
    yield from usual(glossary(data, None, *more), *(assumed_sentences(data) if LOW in data else []))
    yield from verbose(interval_sentence(data))
    yield from usual(*without_sentences(json.loads(data.attrs.get("without", "{}"))))


def _compared(data: xr.Dataset) -> Iterator[Said]:
    yield from usual(*compare_sentences(data))
    yield from quiet(rate_table(data))
    if bool(data["feasible"].any()):
        yield from usual(*plan_sentences(data))


def models_of(data: xr.Dataset) -> dict[str, float | None]:
    """Return the models that a file compares and the tokens that each is trained on, if known."""
    if "models" in data.attrs:
        return dict(json.loads(data.attrs["models"]))
    if "model" in data.sizes:
        return dict.fromkeys(data["model"].values.tolist())
    return {str(data.attrs["title"]).partition(" on ")[0]: None}


def rate_table(data: xr.Dataset) -> PlainTable:
    """Return one row per system and split: the best plan, its speed and its memory."""
    aim, needed, rows = objective_of(data), need_of(data), _rows(data)
    best = float(_cost(data).min())
    margin, kinds, timed = margin_of(data), _kinds(data), LOW in data
    whole = data if RUN in data else ()  # results of a whole run

    def need(row: xr.Dataset) -> list[str]:
        least = float(row[needed if bool(row.feasible) else f"{needed}_least"])
        share = margin.share(least, float(row[f"{needed}_limit"]))
        return [size(least, unit_of(data, needed)), share] if np.isfinite(least) else ["-", "-"]

    def chance(row: xr.Dataset) -> str:
        return "-" if float(row[aim]) <= best else percent(float(row[SOONER]))

    def result(name: str, soon: int = 0) -> Shown:
        run = timed_of(data, name)
        head = f"{run}\ntime" if run else head_of(data, name).replace(" ", "\n")
        return Shown(head, lambda row: amount(float(row[name]), unit_of(data, name)), soon)

    soon = 1 if RUN in data else 4
    columns = [
        *map(_named, _kinds(data)),
        result(aim),
        *([Shown("80 % of\nruns [s]", short_interval, 2)] if timed else []),
        *([Shown("days", lambda row: days(days_of(row)), soon)] if DAYS in data else []),
        *([Shown("dollars", lambda row: money(float(row.cost)), 1)] if "cost" in whole else []),
        *([Shown("energy", lambda row: energy(float(row.energy)), 2)] if "energy" in whole else []),
        Shown("times\nbest", lambda row: f"{float(_cost(row)) / best:.2f}", 3),
        *(
            [SAMPLES, SHARE]
            if DAYS in data
            else [result(n, 2) for n in headlines(data) if n != aim]
        ),
        *([Shown("best is\nsooner %", chance, 1)] if SOONER in data else []),
        *plan_columns(data, [row for row in rows if bool(row.feasible)], 8),
    ]
    if needed:
        columns += [Shown(needed.replace("_", " "), lambda row: need(row)[0], 5)]
        columns += [Shown("% of\nHBM", lambda row: need(row)[1], 1)]
    if len(rows) == 1:
        columns = [column for column in columns if column.head != "times\nbest"]

    def unfit(row: xr.Dataset) -> list[str]:
        if bool(row.feasible):
            return []
        why = "no plan" if int(row.reason) == NO_LEGAL_PLAN else "too big"
        names = [str(row[kind].values) for kind in kinds]
        last = need(row) if needed else []
        return [*names, why, *["-"] * (len(columns) - len(names) - 1 - len(last)), *last]

    return PlainTable().add_rows(columns, rows, unfit)


def percent(chance: float) -> str:
    """Return a probability in per cent, never as certain.

    >>> percent(0.934), percent(0.99994)
    ('93', '> 99')
    """
    return "> 99" if chance > 0.995 else f"{100 * chance:.0f}"


def _kinds(data: xr.Dataset) -> list[str]:
    return [name for name in KINDS if name in data.dims]


def _named(kind: str) -> Shown:
    return Shown(kind, lambda row: str(row[kind].values), 0, "left")


def _rows(data: xr.Dataset) -> list[xr.Dataset]:
    kinds = _kinds(data)
    every = itertools.product(*(data[kind].values for kind in kinds))
    return [data.sel(dict(zip(kinds, names, strict=True))) for names in every]


def _name(data: xr.Dataset, row: xr.Dataset) -> str:
    return ", ".join(str(row[kind].values) for kind in _kinds(data))


def compare_sentences(data: xr.Dataset) -> list[str]:
    """Return which is fastest, its lead over the next of its kind and why, and which do not fit."""
    said = []
    if bool(data.feasible.any()):
        names = _fastest(data)
        best = data.sel(names)
        alone = int(data.feasible.size) == 1
        first = "Fastest:" if timed_of(data, objective_of(data)) else "Best:"
        told = f", {days(days_of(best))} days" if DAYS in best and RUN not in best else ""
        said.append(
            f"{'Best plan on' if alone else first} {', '.join(names.values())}, "
            f"{result_words(best)}{interval_words(best)}{told}."
        )
        said += _whole_runs(data, best)
        second = next((kind for kind in names if kind != "system"), None)
        if second is None:
            said += _ahead(data, "", "system", float(_cost(best)))
            return [*said, *_unfit(data)]
        across = data.sel({second: [names[second]]})
        said += _ahead(across, f"With {names[second]}, ", "system", float(_cost(best)))
        said += [
            sentence
            for name in data.system.values
            for sentence in _ahead(
                data.sel(system=[name]), f"On {name}, ", second, float(_cost(best))
            )
        ]
    return [*said, *_unfit(data)]


def plan_sentences(data: xr.Dataset) -> list[str]:
    """Return every field of the best plan of each system and split."""
    said = []
    for row in (row for row in _rows(data) if bool(row.feasible)):
        stages = stages_sentence(row)
        plan = f"{whole_plan(row)}{'. ' * bool(stages)}{stages}"
        said.append(f"Plan on {_name(data, row)}: {plan}")
    return said


def without_sentences(reasons: Mapping[str, str]) -> list[str]:
    """Return a sentence for each system that has no step time, with the reason.

    >>> without_sentences({"mi300x": "mi300x: no measured run of its chip; expected another"})
    ['No step time of mi300x: no measured run of its chip.']
    """
    said = {name: text.removeprefix("--system: ") for name, text in reasons.items()}
    short = {name: re.split("; |, so that ", text)[0] for name, text in said.items()}
    short = {name: text.removeprefix(f"{name}: ") for name, text in short.items()}
    return [f"No step time of {name}: {text}." for name, text in short.items()]


def _cost(data: xr.Dataset) -> xr.DataArray:
    """Return what is optimised, so that less is better."""
    aim = objective_of(data)
    return 1.0 / data[aim] if rises(data, aim) else data[aim]


def result_words(best: xr.Dataset) -> str:
    """Return what is optimised of the best, with what it is."""
    aim = objective_of(best)
    said, run = amount(float(best[aim]), unit_of(best, aim)), timed_of(best, aim)
    return f"{said} a {run}" if run else f"{words_of(best, aim)} {said}"


def _whole_runs(data: xr.Dataset, soonest: xr.Dataset) -> list[str]:
    """Return what the run takes on the fastest, and on the cheapest where prices are known."""
    if RUN not in data:
        return []
    told = f"With its stops it takes {takes(soonest)}"
    if "cost" not in data or not np.isfinite(data.cost.values).any():
        return [f"{told}."]
    rows = [row for row in _rows(data) if np.isfinite(float(row.cost))]
    least = min(rows, key=lambda row: float(row.cost))
    if float(least.cost) == float(soonest.cost):
        return [f"{told}.", "It is the cheapest, too."]
    return [f"{told}.", f"Cheapest: {_name(data, least)}, {takes(least)}."]


def _fastest(data: xr.Dataset) -> dict[str, str]:
    kinds = _kinds(data)
    position = _cost(data).transpose(*kinds).argmin(kinds)
    return {str(dim): str(data[dim].values[int(index)]) for dim, index in position.items()}


def _ahead(data: xr.Dataset, lead: str, dim: str, fastest: float) -> list[str]:
    """Return the lead of the fastest of a row over the next, and which parts shrank.

    How sure that is, is known of the ``fastest`` step of all.
    """
    fitting = (
        data.squeeze().isel({dim: data.feasible.values.ravel()}) if data[dim].size > 1 else None
    )
    if fitting is None or fitting[dim].size < 2:
        return []
    costs = _cost(fitting).values
    order = np.argsort(costs, kind="stable")
    best, after = (fitting.isel({dim: int(i)}) for i in order[:2])
    name, other = best[dim].values, after[dim].values
    how = "fast" if timed_of(data, objective_of(data)) else "good"
    ratio = float(costs[order[1]] / costs[order[0]])
    if ratio <= 1.0 + 1e-9:
        return [f"{lead}{name} is as {how} as the next, {other}."]
    because = f": {reason}" if (reason := why(best, after)) else ""
    said = [f"{lead}{name} is {times(ratio)} as {how} as the next, {other}{because}."]
    if SOONER in after and float(costs[order[0]]) == fastest:
        chance = float(after[SOONER])
        doubt = ": either may be faster" if chance < 0.9 else ""
        said.append(f"It is sooner with a probability of {percent(chance)} %{doubt}.")
    return said


def why(best: xr.Dataset, after: xr.Dataset) -> str:
    """Return which time parts make one step shorter than another, and which work against it."""
    return _listed(*_differences(best, after), ("less", "more", "against"))


def slower_by(best: xr.Dataset, after: xr.Dataset) -> str:
    """Return in which time parts the longer of two steps spends more, and in which less."""
    return _listed(*_differences(best, after), ("more", "less", "but"))


def _listed(most: list[Difference], others: list[Difference], words: tuple[str, str, str]) -> str:
    way, back, link = words
    first = listing([f"{amount} {way} in {part}{share}" for amount, part, share in most])
    rest = listing([f"{amount} {back} in {part}" for amount, part, _ in others])
    return f"{first}, {link} {rest}" if rest else first


def _differences(best: xr.Dataset, after: xr.Dataset) -> tuple[list[Difference], list[Difference]]:
    """Return the parts in which the longer of two steps spends more, and those with less."""
    aim = objective_of(best)
    gap = float(after[aim]) - float(best[aim])
    less = {part: float(after[part]) - float(best[part]) for part in parts_of(best, aim)}
    shrank = sorted((p for p in less if less[p] > TELLING * gap), key=lambda p: -less[p])[:3]
    grew = sorted((p for p in less if less[p] < -TELLING * gap), key=lambda p: less[p])[:2]
    shares = all(less[p] <= gap for p in shrank)  # parts that outweigh one another have none

    def told(part: str) -> Difference:
        of = " of the difference" * (part == shrank[0])
        share = f" ({100 * less[part] / gap:.0f} %{of})" * (shares and part in shrank)
        words = words_of(best, part).replace("HBM bandwidth", "HBM traffic")  # takes time
        return amount(float(f"{abs(less[part]):.3g}"), unit_of(best, aim)), words, share

    return [*map(told, shrank)], [*map(told, grew)]


def _unfit(data: xr.Dataset) -> list[str]:
    """Return why each system and split without a plan has none, and how much is missing."""
    said = []
    for row in _rows(data):
        what = _name(data, row)
        if bool(row.feasible):
            continue
        if int(row.reason) == NO_LEGAL_PLAN:
            said.append(f"{what}: no plan is legal.")
            continue
        need = need_of(data)
        least, limit = (float(row[f"{need}_{end}"]) for end in ("least", "limit"))
        missing = too_much(least, limit, unit_of(data, need))
        said.append(f"{what}: no plan fits. The leanest needs {missing}.")
    return said
