"""Which accelerators, and how many: the decision, what else is in time, a table, the plan."""

import json
import math
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.analyses.budget import AIMS, LIMITS, broken
from jaxroof.errors import listing
from jaxroof.estimators.whole_run.report import HIGH, MEDIAN
from jaxroof.units import days, size
from jaxroof.views.text.interval import tokens_sentence
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import plan_sentence, usual_words
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.whole_run import (
    carbon,
    duration,
    energy,
    lasts,
    money,
    operated,
    takes,
    watts,
)

SOONER = 0.9  # of the days of the best that are worth a sentence
LESS = 0.99  # of what is minimised, for which a wider limit is worth a sentence
WORDS = {"cost": "money", "wall_days": "days"}
NAMES = {
    "chip_mtbf": "time between failures of a chip", "barrier": "stop at a save",
    "restart": "time of a restart", "repair_time": "time of a repair",
    "spare_nodes": "spare nodes", "store_rate": "rate of the store", "pue": "PUE",
    "busy_share": "draw of a busy chip", "wait_share": "draw of a waiting chip",
    "tariff": "tariff", "interest": "interest", "years": "years",
}  # fmt: skip


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the decision, what else is in time or would be, the table and the plan."""
    yield from title(str(data.attrs.get("title", "")))
    yield from quiet(decision(data))
    yield from usual(*_besides(data))
    yield from quiet(table(data))
    best = int(data.best)
    if best >= 0:
        row = _row(data, best)
        yield from usual(plan_sentence(row), _tight(row), _levers(data))
    yield from usual(_without(data), BAND, _tokens(data))


BAND = (
    "Published runs reached 0.53 to 0.99 of the speed that their step predicts; every number of "
    "accelerators was evaluated, each with its soonest plan."
)


def decision(data: xr.Dataset) -> str:
    """Return what to take, or what is nearest where nothing is allowed."""
    best = int(data.best)
    if best >= 0:
        row = _row(data, best)
        return f"{_name(row)}: {takes(row)}; {operated(row)}{_late(data)}."
    limits = listing([_within(name, float(data.attrs[LIMITS[name][1]])) for name in broken(data)])
    soonest = _row(data, int(np.nanargmin(data.wall_days.values)))
    peak = float(soonest.peak_site_watts) if "peak_site_watts" in soonest else math.nan
    most = f", {watts(peak)} at most" if math.isfinite(peak) else ""
    would = _lifted(data) or [f"the soonest is {_name(soonest)}: {takes(soonest)}{most}."]
    return f"None is done {limits}; {' '.join(would)}"


def _within(name: str, bound: float) -> str:
    return f"with {watts(bound)}" if name == "power" else f"in {bound:.3g} day{'s' * (bound != 1)}"


def _lifted(data: xr.Dataset) -> list[str]:
    """Return what a wider limit gives: of each, the nearest choice that breaks it alone.

    Where something is allowed, the choice is one that is better by a per cent at least.
    """
    refused, aim, best = broken(data), _aim(data), int(data.best)
    worth, said = best < 0 or aim < LESS * aim[best], []
    for name, which in refused.items():
        result, bound = LIMITS[name]
        values = data[result].values
        alone = np.isfinite(values) & which & (sum(refused.values()) == 1) & worth
        if alone.any():
            row = _row(data, int(np.argmin(np.where(alone, values, np.inf))))
            needed, most = float(row[result]), float(data.attrs[bound])
            late = f"be {days(needed - most)} days late"
            more = f"need {watts(_above(needed))} instead of {watts(most)}"
            said.append(f"{_name(row)} would {more if name == 'power' else late}: {takes(row)}.")
    return said


def _above(value: float) -> float:
    """Return a number of three digits that is no smaller.

    >>> _above(30.612e6)
    30700000.0
    """
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.3g}")


def _late(data: xr.Dataset) -> str:
    """Return that the speed of published runs misses the deadline, and what would meet it."""
    limit, best = float(data.attrs.get("deadline_days", math.inf)), int(data.best)
    low, mean, high = (data[f"wall_days{end}"].values for end in ("_low", "", "_high"))
    speed = low[best] / mean[best] * HIGH
    at = "the predicted speed" if speed > HIGH else f"{speed:.2g} of the predicted speed"
    for words, of in (
        ("at the median of published runs", low * HIGH / MEDIAN),
        ("at the slowest of published runs", high),
    ):
        if of[best] > limit:
            met = np.where(data.allowed.values & (of <= limit), _aim(data), np.inf)
            other = f", where {_name(_row(data, int(np.argmin(met))))} would be in time"
            told = f"; in time at {at}, late {words} ({days(of[best])} days)"
            return told + other * bool(np.isfinite(met).any())
    return ""


def _aim(data: xr.Dataset) -> np.ndarray:
    """Return what is minimised, of each choice."""
    return np.asarray(data[AIMS[str(data.attrs["minimise"])]].values)


def _besides(data: xr.Dataset) -> list[str]:
    """Return what is sooner for how much more, and the best of another system."""
    place = int(data.best)
    if place < 0:
        return []
    best, aim = _row(data, place), AIMS[str(data.attrs["minimise"])]
    allowed = data.isel(choice=np.flatnonzero(data.allowed.values))
    said = []
    soon = np.flatnonzero(allowed.wall_days.values <= SOONER * float(best.wall_days))
    if len(soon) and aim != "wall_days":
        row = allowed.isel(choice=int(soon[np.argmin(allowed[aim].values[soon])]))
        sooner = days(float(best.wall_days - row.wall_days))
        more = _more(float(row[aim] / best[aim]), aim)
        said.append(f"{_name(row)} are {sooner} days sooner for {more}.")
    others = np.flatnonzero(allowed.system.values != best.system.values)
    if len(others):
        row = allowed.isel(choice=int(others[np.argmin(allowed[aim].values[others])]))
        too = " are in time too," if "deadline_days" in data.attrs else ""
        more = _more(float(row[aim] / best[aim]), aim)
        said.append(f"{_name(row)}{too} for {more}: {takes(row)}.")
    return [*said, *_lifted(data)]


def _more(ratio: float, aim: str) -> str:
    more = 100.0 * (ratio - 1.0)
    return f"{more:{',.0f' if more >= 10.0 else '.2g'}} % more {WORDS.get(aim, aim)}"


def table(data: xr.Dataset) -> PlainTable:
    """Return one row a system and number of accelerators."""
    best = int(data.best)
    rows = [_row(data, place).assign(place=place) for place in range(data.sizes["choice"])]

    refused = broken(data)

    def mark(row: xr.Dataset) -> str:
        place = int(row.place)
        over = [name for name, which in refused.items() if which[place]]
        return "best" if place == best else f"no: {', '.join(over)}" if over else "yes"

    system = Shown("system", lambda row: str(row.system.values), 0, "left")
    return PlainTable().add_rows([system, *run_columns(data), Shown("allowed", mark)], rows)


def run_columns(data: xr.Dataset) -> list[Shown]:
    """Return the columns of what a whole run takes, and how."""
    power, green = 0 if "site_power" in data.attrs else 2, data.attrs.get("minimise") == "carbon"

    def of(name: str, text: object) -> list[Shown]:
        return [text] * (name in data)  # type: ignore[list-item]

    return [
        Shown("gpus", lambda row: f"{int(row.gpus):,}"),
        Shown("plan", usual_words, 5, "left"),
        Shown("step\n[s]", lambda row: f"{float(row.step_time):.4g}", 4),
        Shown("goodput\n%", lambda row: f"{100.0 * float(row.goodput):.1f}", 2),
        Shown("days", lambda row: lasts(float(row.wall_days))),
        *of("cost", Shown("dollars", lambda row: money(float(row.cost)))),
        *of("energy", Shown("energy", lambda row: energy(float(row.energy)), 1)),
        *of("carbon", Shown("carbon", lambda row: carbon(float(row.carbon)))) * green,
        *of(
            "peak_site_watts", Shown("power", lambda row: watts(float(row.peak_site_watts)), power)
        ),
        Shown("spares", lambda row: f"{int(row.spares):,}", 4),
        Shown("saves\nevery", lambda row: duration(float(row.save_interval)), 4),
    ]


def _row(data: xr.Dataset, place: int) -> xr.Dataset:
    row = data.isel(choice=place)
    roles = json.loads(data.attrs.get("roles_of", "{}"))
    return row.assign_attrs(roles=roles.get(str(row.system.values), data.attrs.get("roles", "{}")))


def _name(row: xr.Dataset) -> str:
    return f"{int(row.gpus):,} {row.system.values}"


def _tight(row: xr.Dataset) -> str:
    """Return that a plan may not fit; empty where its memory is surely less than there is."""
    need, limit = float(row.memory), float(row.get("memory_limit", math.inf))
    most = float(row.get("memory_high", math.nan))
    if not (most > limit or margin_of(row, "memory").is_doubtful(need, limit)):
        return ""
    told = f"It needs {size(need, 'B')} of {size(limit, 'B')}"
    return f"{told}: the margin is less than the error of that number, so it may not fit."


def _levers(data: xr.Dataset) -> str:
    """Return the fields that move the aim most, by 1 % of each."""
    levers = {k.removeprefix("operation."): v for k, v in json.loads(data.attrs["levers"]).items()}
    most = [(name, value) for name, value in levers.items() if abs(value) >= 5e-4][:3]
    if not most:
        return ""
    what = data.attrs["minimise"]
    told = [f"{NAMES.get(name, name)} {value:+.2g} %" for name, value in most]
    return f"What 1 % more moves the {what} by: {listing(told)}."


def _tokens(data: xr.Dataset) -> str:
    """Return the tokens that days and dollars are of, and whether anybody knows them."""
    unknown = f" Those of {data.attrs['model']} are not known: give tokens for others."
    return tokens_sentence(data) + unknown * ("tokens" in data.attrs)


def _without(data: xr.Dataset) -> str:
    """Return which sizes have no plan."""
    none = json.loads(str(data.attrs.get("without", "{}")))
    told = [f"{name} ({why})" for name, why in none.items()]
    return f"Without a plan: {', '.join(told)}." if told else ""
