"""The frontier of serving in words: which system leads at which speed that users see."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.serve import DEGREES
from jaxroof.errors import listing
from jaxroof.units import seconds, times
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import glossary
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.serve import (
    dollars,
    has_rent,
    not_measured,
    plan_words,
    rate_interval,
    shown_fields,
    timed,
    title_of,
)

CASE = "case"
ROUND = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)  # of a decade: the speeds of a table
LEVELS = 12  # rows of a table, at most
MS = 1e-3
WITH = ", with "  # begins what a picture says elsewhere


class Frontier(NamedTuple):
    """The steps of one case, the fastest for users first, and the plan at any speed."""

    name: str
    steps: xr.Dataset
    about: Mapping[str, str]  # model, system, software, precision

    def _places(self, speed: float) -> np.ndarray:
        return np.flatnonzero(self.steps.interactivity.values >= speed * (1.0 - 1e-12))

    def at(self, speed: float) -> xr.Dataset | None:
        """Return the best plan at which users see at least so many tokens a second."""
        fast = self._places(speed)
        return self.steps.isel(step_number=int(fast[-1])) if len(fast) else None

    def rate(self, speed: float) -> float:
        """Return the tokens a second and accelerator at a speed, 0 where no plan is as fast."""
        fast = self._places(speed)
        return float(self.steps.output_rate.values[fast[-1]]) if len(fast) else 0.0


def frontiers(data: xr.Dataset) -> list[Frontier]:
    """Return the frontier of each case of an answer, in its order."""
    names = data[CASE].values
    return [
        Frontier(one["name"], data.isel(step_number=np.flatnonzero(names == one["name"])), one)
        for one in json.loads(data.attrs["cases"])
    ]


def speeds(data: xr.Dataset) -> list[float]:
    """Return round speeds that users see between the slowest and the fastest plan of an answer."""
    least, most = (float(f(data.interactivity)) for f in (np.min, np.max))
    least = max(least, most / 1000.0)
    powers = range(int(np.floor(np.log10(least))), int(np.ceil(np.log10(most))) + 1)
    every = [first * 10.0**power for power in powers for first in ROUND]
    found = [speed for speed in every if least <= speed <= most]
    while len(found) > LEVELS:
        found = found[::2]
    asked = asked_speed(data)
    return sorted({*found, *([asked] if asked is not None and asked <= most else [])})


def asked_speed(data: xr.Dataset) -> float | None:
    """Return the tokens a second that users were to see, None if nothing was asked."""
    return 1.0 / float(data.attrs["tpot_asked"]) if "tpot_asked" in data.attrs else None


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield who leads at the speed asked for, where that changes, and a table of speeds."""
    every = frontiers(data)
    yield from title(title_of(data))
    yield from usual(*lead_sentences(data, every))
    yield from quiet(speeds_table(data, every))
    named = [name for name in shown_fields(data) if name not in ("batch", "chunk")]
    said = glossary(data, named).removesuffix(".")
    yield from usual(f"{said}; tokens/s that a user sees are 1/TPOT.")
    yield from usual(software_sentence(every), never_sentence(data, every))
    yield from usual(evenly_sentence(data, every))
    without = json.loads(data.attrs["without"])
    yield from usual(*(f"{name}: {why}." for name, why in without.items()))


def software_sentence(every: Sequence[Frontier]) -> str:
    """Return which software and formats stand behind which frontiers."""
    names: dict[str, list[str]] = {}
    for one in every:
        words = f"{one.about['software']} with weights in {one.about['precision']}"
        names.setdefault(words, []).append(one.name)
    if len(names) == 1:
        return f"Software {next(iter(names))}."
    return f"Software: {'; '.join(f'{w} ({listing(some)})' for w, some in names.items())}."


def evenly_sentence(data: xr.Dataset, every: Sequence[Frontier]) -> str:
    """Return that larger replicas would not fill the accelerators, where the largest one wins."""
    gpus = int(data.attrs["gpus"])
    even, most = gpus & -gpus, 2 ** (gpus.bit_length() - 1)
    sizes = [np.prod([one.steps[name].values for name in DEGREES], axis=0) for one in every]
    if even == most or not any((size == even).any() for size in sizes):
        return ""
    return (
        f"No replica of more than {even} fills {gpus} accelerators: --gpus {most} has larger ones."
    )


def never_sentence(data: xr.Dataset, every: Sequence[Frontier]) -> str:
    """Return what of the plans at the speed asked for was never measured."""
    never: dict[str, None] = {}
    speed = middle_speed(data, every)
    for one in every:
        found = one.at(speed)
        if found is not None:
            ranks = 1.0 if one.about["prefill"] else float(found["data"])
            never |= dict.fromkeys(not_measured(one.about, one.about["precision"], ranks))
    return f"What-if, never measured: {listing([*never])}." if never else ""


def middle_speed(data: xr.Dataset, every: Sequence[Frontier]) -> float:
    """Return the speed asked for, or a round one in the middle that every case reaches."""
    asked = asked_speed(data)
    if asked is not None:
        return asked
    most = min(float(one.steps.interactivity.max()) for one in every)
    reached = [speed for speed in speeds(data) if speed <= most]
    return reached[len(reached) // 2] if reached else most


def lead_sentences(data: xr.Dataset, every: Sequence[Frontier]) -> list[str]:
    """Return who leads at one speed with its plan, and where the lead changes."""
    speed = middle_speed(data, every)
    order = sorted(every, key=lambda one: -one.rate(speed))
    best, found = order[0], order[0].at(speed)
    head = f"At TPOT {seconds(1.0 / speed)} ({speed:.3g} tokens/s a user)"
    if found is None:
        fastest = max(every, key=lambda one: float(one.steps.interactivity.max()))
        most = float(fastest.steps.interactivity.max())
        of = f" of {fastest.name}" if len(every) > 1 else ""
        return [f"{head} no plan is fast enough: the fastest{of} gives {most:.3g} tokens/s a user."]
    low, high = rate_interval(found)
    rate = f"{float(found.output_rate):,.0f} output tokens/s a GPU ({low:,.0f} to {high:,.0f})"
    said = f"{head} {best.name if len(every) > 1 else 'the best plan'} gives {rate}"
    others = [one for one in order[1:] if one.rate(speed) > 0.0]
    if others:
        gap = best.rate(speed) / others[0].rate(speed)
        said += f", {times(gap)} as many as {others[0].name}"
        second = others[0].at(speed)
        if second is not None and rate_interval(second)[1] > low:
            said += ", but their intervals overlap"
    pool = best.about.get("prefill", "")
    more = [f"{WITH}{f'prefill {pool}, decode ' if pool else ''}{plan_words(found)}"]
    more += [timed(found, "ttft")] if float(found.get("ttft", 0.0)) > 0.0 else []
    more += [f"{dollars(found)} a million output tokens"] if has_rent(data) else []
    return [f"{said}{', '.join(more)}.", *changes_sentence(data, every)]


def changes_sentence(data: xr.Dataset, every: Sequence[Frontier]) -> list[str]:
    """Return which case leads from which speed on; empty where one leads throughout."""
    if len(every) < 2:
        return []
    marks = np.unique(data.interactivity.values)
    rates = {speed: [one.rate(speed) for one in every] for speed in marks.tolist()}
    leads = [every[int(np.argmax(some))].name for some in rates.values()]
    runs = [(leads[0], float(marks[0]))]
    for before, name in zip(marks[:-1], leads[1:], strict=True):
        if name != runs[-1][0]:
            runs.append((name, float(before)))
    if len(runs) == 1:
        return [f"{runs[0][0]} leads at every speed."]
    if len(runs) > 4:
        return []
    said = [f"{name} from {start:.3g}" for name, start in runs[1:]]
    return [f"{runs[0][0]} leads at low speeds, {', '.join(said)} tokens/s a user on."]


def speeds_table(data: xr.Dataset, every: Sequence[Frontier]) -> PlainTable:
    """Return one row a speed: the rate of each case, and the plan of the best."""
    columns = [
        Shown("tokens/s\na user", lambda speed: f"{speed:.3g}"),
        Shown("TPOT\n[ms]", lambda speed: f"{1.0 / speed / MS:.3g}", 2),
    ]

    def rate(one: Frontier) -> Shown:
        apart = one.name.replace(", ", "\n")
        head = apart if "\n" in apart else one.name.replace("-", "-\n", 1)
        head = head if len(every) > 1 else "tokens/s\na GPU"
        return Shown(head, lambda speed: f"{one.rate(speed):,.0f}" if one.rate(speed) else "-")

    def plan(speed: float) -> str:
        best = max(every, key=lambda one: one.rate(speed))
        found = best.at(speed)
        return "-" if found is None else plan_words(found)

    head = "plan" if len(every) == 1 else "plan of the best"
    columns += [*map(rate, every), Shown(head, plan, 1, "left")]
    return PlainTable().add_rows(columns, speeds(data))
