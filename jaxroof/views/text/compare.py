"""Systems and splits side by side, each with its best plan: speed, memory, and the reasons."""

import itertools
import json
import re
from collections.abc import Iterator, Mapping

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.analyses.result_metadata import head_of, parts_of, words_of
from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.interval import LOW, interval_words, short_interval
from jaxroof.views.text.margin import Margin, margin_of
from jaxroof.views.text.plan import (
    placed_heads,
    placements_differ,
    plan_fields,
    split_cells,
    stages_sentence,
    whole_plan,
)
from jaxroof.views.text.search import NO_LEGAL_PLAN
from jaxroof.views.text.tables import plain_table

Difference = tuple[str, str, str]  # amount, part, its share
SOONER = "sooner"  # the probability that the fastest is sooner than this
SHOWN = 4  # parts of the time that are shown on any page
TELLING = 0.1  # smallest share of a difference for which a part is named


def rate_table(data: xr.Dataset) -> Table:
    """Return one row per system and split: the best plan, its speed and its memory."""
    table, fields = plain_table(), plan_fields(data)
    timed, margin = LOW in data, margin_of(data)
    best, rows = float(data.step_time.min()), [*_rows(data)]
    placed = placements_differ([row for _, row in rows if bool(row.feasible)], fields)
    for header in _kinds(data):
        table.add_column(header, no_wrap=True)
    several = len(rows) > 1
    heads = {"step\ntime": 0, **({"80 % of\nruns [s]": 2} if timed else {})}
    heads |= {"days": 4, **({"times\nbest": 3} if several else {}), "samples\n/s": 7, "MFU\n%": 6}
    if SOONER in data:
        heads["best is\nsooner %"] = 1
    for header, optional in heads.items():
        table.add_numbers(header, optional=optional)
    *split, place = placed_heads(data, fields)
    table.add_numbers(*split)
    if place:
        table.add_numbers(place, optional=0 if placed else 8)
    table.add_numbers("memory", optional=5)
    table.add_numbers("% of\nHBM", optional=1)
    for names, row in rows:
        limit = float(row.memory_limit)
        if not bool(row.feasible):
            least = float(row.memory_least)
            need = _memory(least, limit, margin) if np.isfinite(least) else ["-", "-"]
            why = "no plan" if int(row.reason) == NO_LEGAL_PLAN else "too big"
            table.add_row(*names, why, *["-"] * (len(table.columns) - len(names) - 3), *need)
            continue
        table.add_row(
            *names,
            seconds(float(row.step_time)),
            *([short_interval(row)] if timed else []),
            days(float(row.training_days)),
            *([f"{float(row.step_time) / best:.2f}"] if several else []),
            f"{float(row.throughput):.5g}",
            f"{100 * float(row.mfu):.1f}",
            *([_chance(row, best)] if SOONER in data else []),
            *split_cells(row, fields),
            *_memory(float(row.memory), limit, margin),
        )
    return table


def _memory(need: float, limit: float, margin: Margin) -> list[str]:
    return [size(need, "B"), margin.share(need, limit)]


def _chance(row: xr.Dataset, best: float) -> str:
    return "-" if float(row.step_time) <= best else percent(float(row[SOONER]))


def percent(chance: float) -> str:
    """Return a probability in per cent, never as certain.

    >>> percent(0.934), percent(0.99994)
    ('93', '> 99')
    """
    return "> 99" if chance > 0.995 else f"{100 * chance:.0f}"


def sooner_sentence(data: xr.Dataset) -> str:
    """Return how the probabilities are computed, empty where there are none."""
    if SOONER not in data:
        return ""
    return (
        "best is sooner: the probability of it, by the intervals of both steps, less the error "
        "that both share by running the same software."
    )


def meanings(data: xr.Dataset) -> list[str]:
    """Return what the other heads of the tables mean."""
    mfu = "MFU: model FLOP with causal attention (half of it), against the 16-bit peak"
    return [*day_words(data), *([mfu] if LOW in data else [])]


def day_words(data: xr.Dataset) -> list[str]:
    """Return how many tokens the days of a training are for, where the inputs say so."""
    tokens = json.loads(data.attrs.get("inputs", "{}")).get("training_tokens")
    return [f"days: to train on {tokens / 1e12:.3g} trillion tokens"] if tokens else []


def parts_table(data: xr.Dataset) -> Table:
    """Return one row per system and split: the seconds of its step by part."""
    table = plain_table("Where a step's time goes [s]")
    for header in _kinds(data):
        table.add_column(header, no_wrap=True)
    parts = [part for part in parts_of(data, "step_time") if float(data[part].max()) > 0.0]
    order = sorted(parts, key=lambda part: -float(data[part].max()))
    for part in parts:
        table.add_numbers(head_of(data, part), optional=max(0, order.index(part) - SHOWN + 1))
    table.add_numbers("step")
    digits = max(0, 3 - int(np.floor(np.log10(float(data.step_time.min())))))
    for names, row in _rows(data):
        if bool(row.feasible):
            values = [float(row[part]) for part in (*parts, "step_time")]
            table.add_row(*names, *(f"{v:,.{digits}f}" if v else "-" for v in values))
    return table


def _kinds(data: xr.Dataset) -> list[str]:
    """Return what is compared: systems and, where the study is asked, splits."""
    return [name for name in ("system", "split") if name in data.dims]


def _rows(data: xr.Dataset) -> Iterator[tuple[tuple[str, ...], xr.Dataset]]:
    """Yield the names of each row, and its results."""
    kinds = _kinds(data)
    for names in itertools.product(*(data[kind].values for kind in kinds)):
        yield tuple(map(str, names)), data.sel(dict(zip(kinds, names, strict=True)))


def days(value: float) -> str:
    """Return a number of days with three digits, in full without an exponent.

    >>> days(12.345), days(1234.5), days(0.04)
    ('12.3', '1,234', '0.0400')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"


def compare_sentences(data: xr.Dataset) -> list[str]:
    """Return which is fastest, its lead over the next of its kind and why, and which do not fit."""
    said = []
    if bool(data.feasible.any()):
        names = _fastest(data)
        best = data.sel(names)
        alone = int(data.feasible.size) == 1
        said.append(
            f"{'Best plan on' if alone else 'Fastest:'} {', '.join(names.values())}, "
            f"{seconds(float(best.step_time))} a step{interval_words(best)}, "
            f"{days(float(best.training_days))} days."
        )
        if "split" not in names:
            said += _ahead(data, "", "system")
            return [*said, *_unfit(data)]
        across = data.sel(split=[names["split"]])
        said += _ahead(across, f"With {names['split']}, ", "system")
        said += [
            sentence
            for name in data.system.values
            for sentence in _ahead(data.sel(system=[name]), f"On {name}, ", "split")
        ]
    return [*said, *_unfit(data)]


def plan_sentences(data: xr.Dataset) -> list[str]:
    """Return every field of the best plan of each system and split."""
    fitting = [(names, row) for names, row in _rows(data) if bool(row.feasible)]
    every = [(", ".join(names), whole_plan(row), stages_sentence(row)) for names, row in fitting]
    return [f"Plan on {name}: {plan}{'. ' * bool(stages)}{stages}" for name, plan, stages in every]


def without_sentences(reasons: Mapping[str, str]) -> list[str]:
    """Return a sentence for each system that has no step time, with the reason.

    >>> without_sentences({"mi300x": "mi300x: no measured run of its chip; expected another"})
    ['No step time of mi300x: no measured run of its chip.']
    """
    said = {name: text.removeprefix("--system: ") for name, text in reasons.items()}
    short = {name: re.split("; |, so that ", text)[0] for name, text in said.items()}
    short = {name: text.removeprefix(f"{name}: ") for name, text in short.items()}
    return [f"No step time of {name}: {text}." for name, text in short.items()]


def _fastest(data: xr.Dataset) -> dict[str, str]:
    """Return the system, and the split, with the least step time; the first among ties."""
    kinds = _kinds(data)
    position = data.step_time.transpose(*kinds).argmin(kinds)
    return {dim: str(data[dim].values[int(index)]) for dim, index in position.items()}


def _ahead(data: xr.Dataset, lead: str, dim: str) -> list[str]:
    """Return the lead of the fastest of a row over the next, and which parts shrank."""
    fitting = (
        data.squeeze().isel({dim: data.feasible.values.ravel()}) if data[dim].size > 1 else None
    )
    if fitting is None or fitting[dim].size < 2:
        return []
    order = np.argsort(fitting.step_time.values, kind="stable")
    best, after = (fitting.isel({dim: int(i)}) for i in order[:2])
    name, other = best[dim].values, after[dim].values
    gap = float(after.step_time) - float(best.step_time)
    if gap <= 1e-9 * float(best.step_time):
        return [f"{lead}{name} is as fast as the next, {other}."]
    ratio = float(after.step_time) / float(best.step_time)
    said = [f"{lead}{name} is {times(ratio)} as fast as the next, {other}: {why(best, after)}."]
    if SOONER in after:
        chance = float(after[SOONER])
        doubt = ": either may be faster" if chance < 0.9 else ""
        said.append(f"It is sooner with a probability of {percent(chance)} %{doubt}.")
    return said


def times(ratio: float) -> str:
    """Return a ratio in words, with enough digits to distinguish it from 1.

    >>> times(1.2), times(1.00123), times(12.34), times(1234.5)
    ('1.20 times', '1.0012 times', '12.3 times', '1,234 times')
    """
    return f"{days(ratio)} times" if ratio >= 1.01 else f"{ratio:.5g} times"


def why(best: xr.Dataset, after: xr.Dataset) -> str:
    """Return which time parts make one step shorter than another, and which work against it."""
    shrank, grew = _differences(best, after)
    first = listing([f"{amount} less in {words}{share}" for amount, words, share in shrank])
    if not grew:
        return first
    return f"{first}, against {listing([f'{amount} more in {words}' for amount, words, _ in grew])}"


def slower_by(best: xr.Dataset, after: xr.Dataset) -> str:
    """Return in which time parts the longer of two steps spends more, and in which less."""
    more, less = _differences(best, after)
    first = listing([f"{amount} more in {words}{share}" for amount, words, share in more])
    if not less:
        return first
    return f"{first}, but {listing([f'{amount} less in {words}' for amount, words, _ in less])}"


def _differences(best: xr.Dataset, after: xr.Dataset) -> tuple[list[Difference], list[Difference]]:
    """Return the parts in which the longer of two steps spends more, and those with less."""
    gap = float(after.step_time) - float(best.step_time)
    less = {part: float(after[part]) - float(best[part]) for part in parts_of(best, "step_time")}
    shrank = sorted((p for p in less if less[p] > TELLING * gap), key=lambda p: -less[p])[:3]
    grew = sorted((p for p in less if less[p] < -TELLING * gap), key=lambda p: less[p])[:2]
    shares = all(less[p] <= gap for p in shrank)  # parts that outweigh one another have none

    def told(part: str) -> Difference:
        of = " of the difference" * (part == shrank[0])
        share = shares * _share(less[part] / gap, of) if part in shrank else ""
        return seconds(_short(abs(less[part]))), spent(best, part), share

    return [*map(told, shrank)], [*map(told, grew)]


def spent(data: xr.Dataset, part: str) -> str:
    """Return the name of a time part for a sentence: traffic takes time, not the bandwidth."""
    return words_of(data, part).replace("HBM bandwidth", "HBM traffic")


def _share(share: float, of: str) -> str:
    return f" ({100 * share:.0f} %{of})"


def _short(value: float) -> float:
    return float(f"{value:.3g}")


def _unfit(data: xr.Dataset) -> list[str]:
    """Return why each system and split without a plan has none, and how much is missing."""
    said = []
    for names, row in _rows(data):
        what = ", ".join(names)
        if bool(row.feasible):
            continue
        if int(row.reason) == NO_LEGAL_PLAN:
            said.append(f"{what}: no plan is legal.")
            continue
        missing, least, limit = (
            size(float(row[name]), "B")
            for name in ("memory_missing", "memory_least", "memory_limit")
        )
        said.append(
            f"{what}: no plan fits. The leanest needs {least}, {missing} more than the {limit} "
            "there are."
        )
    return said
