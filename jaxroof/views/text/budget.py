"""Which accelerators, and how many: the decision, what else is in time, a table, the plan."""

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import days
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.plan import plan_sentence, usual_words
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual
from jaxroof.views.text.whole_run import duration, energy, money, operated, takes, watts

AIMS = {"cost": "cost", "days": "wall_days", "energy": "energy", "carbon": "carbon"}
SOONER = 0.9  # of the days of the best that are worth a sentence
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
        yield from usual(plan_sentence(_row(data, best)), _levers(data))
    yield from usual(_without(data), BAND)


BAND = (
    "Published runs reached 0.53 to 0.99 of the speed that their step predicts; every number of "
    "accelerators was evaluated, each with its soonest plan."
)


def decision(data: xr.Dataset) -> str:
    """Return what to take, or what is nearest where nothing is allowed."""
    best = int(data.best)
    if best >= 0:
        row = _row(data, best)
        return f"{_name(row)}: {takes(row)}; {operated(row)}."
    soonest = int(np.argmin(_fitting_power(data)))
    row = _row(data, soonest)
    limits = []
    if "deadline_days" in data.attrs:
        limits.append(f"in {days(float(data.attrs['deadline_days']))} days")
    if "site_power" in data.attrs:
        limits.append(f"with {watts(float(data.attrs['site_power']))}")
    peak = f", {watts(float(row.peak_site_watts))} at most" if "site_power" in data.attrs else ""
    return f"None is done {listing(limits)}; the soonest is {_name(row)}: {takes(row)}{peak}."


def _fitting_power(data: xr.Dataset) -> np.ndarray:
    """Return the days of the choices that the site can feed; of all where it can feed none."""
    every = data.wall_days.values
    if "site_power" not in data.attrs:
        return np.asarray(every)
    fed = data.peak_site_watts.values <= float(data.attrs["site_power"])
    return np.where(fed, every, np.inf) if fed.any() else np.asarray(data.peak_site_watts.values)


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
        too = " meets the deadline too" if "deadline_days" in data.attrs else ""
        said.append(f"{_name(row)}{too}: {takes(row)}.")
    return said


def _more(ratio: float, aim: str) -> str:
    return f"{100.0 * (ratio - 1.0):.2g} % more {'money' if aim == 'cost' else aim}"


def table(data: xr.Dataset) -> PlainTable:
    """Return one row a system and number of accelerators."""
    best = int(data.best)
    rows = [_row(data, place).assign(place=place) for place in range(data.sizes["choice"])]

    def mark(row: xr.Dataset) -> str:
        return "best" if int(row.place) == best else "yes" if bool(row.allowed) else "no"

    def of(name: str, text: object) -> list[Shown]:
        return [text] * (name in data)  # type: ignore[list-item]

    columns = [
        Shown("system", lambda row: str(row.system.values), 0, "left"),
        Shown("gpus", lambda row: f"{int(row.gpus):,}"),
        Shown("plan", usual_words, 5, "left"),
        Shown("step\n[s]", lambda row: f"{float(row.step_time):.4g}", 3),
        Shown("goodput\n%", lambda row: f"{100.0 * float(row.goodput):.1f}", 2),
        Shown("days", lambda row: days(float(row.wall_days))),
        *of("cost", Shown("dollars", lambda row: money(float(row.cost)))),
        *of("energy", Shown("energy", lambda row: energy(float(row.energy)), 1)),
        *of("peak_site_watts", Shown("power", lambda row: watts(float(row.peak_site_watts)), 2)),
        Shown("spares", lambda row: f"{int(row.spares):,}", 4),
        Shown("saves\nevery", lambda row: duration(float(row.save_interval)), 4),
        Shown("allowed", mark),
    ]
    return PlainTable().add_rows(columns, rows)


def _row(data: xr.Dataset, place: int) -> xr.Dataset:
    return data.isel(choice=place)


def _name(row: xr.Dataset) -> str:
    return f"{int(row.gpus):,} {row.system.values}"


def _levers(data: xr.Dataset) -> str:
    """Return the fields that move the aim most, by 1 % of each."""
    levers = {k.removeprefix("operation."): v for k, v in json.loads(data.attrs["levers"]).items()}
    most = [(name, value) for name, value in levers.items() if abs(value) >= 5e-4][:3]
    if not most:
        return ""
    aim = {"days": "days", "cost": "cost"}.get(str(data.attrs["minimise"]))
    what = aim or str(data.attrs["minimise"])
    told = [f"{NAMES.get(name, name)} {value:+.2g} %" for name, value in most]
    return f"What 1 % more moves the {what} by: {listing(told)}."


def _without(data: xr.Dataset) -> str:
    """Return which sizes have no plan."""
    none = json.loads(str(data.attrs.get("without", "{}")))
    told = [f"{name} ({why})" for name, why in none.items()]
    return f"Without a plan: {', '.join(told)}." if told else ""
