"""The staircase of step time against memory, as tables and sentences."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.catalog.needs import training_capacities
from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.compare import day_words, days
from jaxroof.views.text.interval import (
    LOW,
    interval_sentence,
    interval_words,
    short_interval,
    tokens_sentence,
)
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import glossary, placed_words, plan_columns, plan_sentence
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

GB = 1e9
Capacities = Mapping[str, float]  # system in the catalogue -> its memory [B], ascending
GAIN = 0.01  # speed that a stair must add to be shown, unless asked otherwise


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what more memory buys on each of some numbers of accelerators.

    Attributes say more of the question: stairs add a ``gain`` of speed or more; ``most_days`` asks
    for the smallest machine that trains in so many; ``sizes`` are those without a stair too.
    """
    asked = data.attrs
    gain, days = float(asked.get("gain", GAIN)), asked.get("most_days")
    most_days = None if days is None else float(days)
    sizes = json.loads(asked["sizes"]) if "sizes" in asked else sizes_of(data)
    today, there = data.attrs["estimator"] != "published", data.sizes["step_number"] > 0
    each = {n: data.isel(step_number=np.flatnonzero(data["gpus"].values == n)) for n in sizes}
    capacities = training_capacities(today)
    yield from title(_title(data))
    if len(sizes) < 2:
        yield from _stairs(data, each, gain, most_days, capacities)
    else:
        if most_days is not None:
            yield from usual(*days_sentences(each, most_days, capacities))
        yield from quiet(sizes_table(each, gain, most_days, capacities))
        yield from usual(*sizes_sentences(each, None if most_days else gain))
        yield from usual(glossary_of(data))
    if there:
        yield from usual(tokens_sentence(data) if today else "")
        yield from verbose(interval_sentence(data))


def _title(data: xr.Dataset) -> str:
    named, batch = data.attrs.get("title"), json.loads(data.attrs["inputs"]).get("global_batch")
    return f"{named}, batch {int(batch):,}" if named and batch else ""


def _stairs(
    stairs: xr.Dataset,
    each: Mapping[int, xr.Dataset],
    gain: float,
    most_days: float | None,
    capacities: Capacities,
) -> Iterator[Said]:
    if not stairs.sizes["step_number"]:
        yield from quiet("No plan is legal.")
        return
    chosen = stairs_to_show(stairs, gain)
    if most_days is not None:
        yield from usual(*days_sentences(each, most_days, capacities))
    yield from usual(*stairs_sentences(stairs, gain))
    yield from quiet(stairs_table(stairs, chosen, capacities))
    yield from usual(glossary_of(stairs))
    yield from usual(shown_sentence(stairs, len(chosen), gain))
    yield from verbose(ends_sentence(stairs))


def sizes_of(data: xr.Dataset) -> list[int]:
    """Return the numbers of accelerators that a file has stairs of."""
    return list(dict.fromkeys(data["gpus"].values.ravel().tolist()))


def stairs_to_show(stairs: xr.Dataset, gain: float) -> list[int]:
    """Return the steps to show: the least memory, the machine's own, and those that gain enough.

    ``gain`` is the smallest relative speed-up over the previous step shown.
    """
    count, time = stairs.sizes["step_number"], stairs.step_time.values
    own = within_reach(stairs)
    chosen: list[int] = []
    for i in range(count):
        if not chosen or i == own or time[chosen[-1]] / time[i] - 1.0 >= gain:
            chosen.append(i)
    return chosen


def within_reach(stairs: xr.Dataset) -> int | None:
    """Return the highest step that fits the machine, None if there is none."""
    fits = np.flatnonzero(stairs.fits.values)
    return int(fits[-1]) if len(fits) else None


def flat_from(stairs: xr.Dataset, gain: float) -> int:
    """Return the first step beyond which more memory gains less than a share of speed."""
    time = stairs.step_time.values
    return int(np.flatnonzero(time / time[-1] - 1.0 < max(gain, 1e-12))[0])


def in_time(stairs: xr.Dataset, most_days: float) -> int | None:
    """Return the step with the least memory that trains within some days, None if there is none."""
    soon = np.flatnonzero(stairs.training_days.values <= most_days)
    return int(soon[0]) if len(soon) else None


def smallest_system_with(memory: float, capacities: Capacities) -> str:
    """Return the system in the catalogue with the least sufficient memory.

    >>> smallest_system_with(100e9, {"a100": 80e9, "h200": 141e9})
    'h200'
    >>> smallest_system_with(1e12, {"a100": 80e9})
    '-'
    """
    return next((name for name, most in capacities.items() if memory <= most), "-")


def stairs_table(stairs: xr.Dataset, chosen: Sequence[int], capacities: Capacities) -> PlainTable:
    """Return one row per step: its memory, speed and gain, and the smallest system that fits it."""
    limit, margin = float(stairs.memory_limit[0]), margin_of(stairs)
    rows = [stairs.isel(step_number=i).assign(place=n) for n, i in enumerate(chosen)]

    def gained(row: xr.Dataset, ratio: bool) -> str:
        if not int(row.place):
            return "-"
        before = rows[int(row.place) - 1]
        if ratio:
            return f"{100 * (float(before.step_time) / float(row.step_time) - 1.0):,.3g}"
        return f"{(float(row.memory) - float(before.memory)) / GB:.4g}"

    def fits(row: xr.Dataset) -> str:
        return margin.marked("yes" if bool(row.fits) else "no", float(row.memory), limit)

    columns = [
        Shown("memory\n[GB]", lambda row: f"{float(row.memory) / GB:.4g}"),
        Shown("step\n[s]", lambda row: f"{float(row.step_time):.4g}"),
        *([Shown("80 % of\nruns", short_interval, 2)] if LOW in stairs else []),
        Shown("days", lambda row: days(float(row.training_days)), 4),
        Shown("faster\nby %", lambda row: gained(row, ratio=True), 3),
        Shown("for GB\nmore", lambda row: gained(row, ratio=False), 5),
        *plan_columns(stairs, rows, 7),
        Shown(f"fits\n{limit / GB:.4g}", fits, 1),
        _holder(capacities, 6),
    ]
    return PlainTable().add_rows(columns, rows)


def _holder(capacities: Capacities, soon: int) -> Shown:

    def cell(row: xr.Dataset) -> str:
        return smallest_system_with(float(row.memory), capacities)

    return Shown("HBM that\nholds it", cell, soon, "left")


def glossary_of(stairs: xr.Dataset) -> str:
    """Return what the short names of the table mean."""
    return glossary(stairs, None, *day_words(stairs))


def stairs_sentences(stairs: xr.Dataset, gain: float) -> list[str]:
    """Return the fastest plan that the machine holds, what more memory buys, and where it ends."""
    own = within_reach(stairs)
    first, last = stairs.isel(step_number=0), stairs.isel(step_number=-1)
    limit, least = size(float(first.memory_limit), "B"), f"{100 * gain:.3g} %"
    if own is None:
        missing = size(float(first.memory) - float(first.memory_limit), "B")
        needs = size(float(first.memory), "B")
        said = [f"No plan fits in {limit}: the leanest needs {needs}, {missing} more."]
    else:
        said = [_own(stairs, own, limit), plan_sentence(stairs.isel(step_number=own))]
    flat = stairs.isel(step_number=flat_from(stairs, gain))
    if float(flat.memory) < float(last.memory):
        enough = size(float(flat.memory), "B")
        said.append(f"Beyond {enough}, no amount of memory makes the step {least} faster.")
    return said


def shown_sentence(stairs: xr.Dataset, shown: int, gain: float) -> str:
    """Return how many stairs there are, and at whose rates their times are."""
    count, legal = stairs.sizes["step_number"], int(stairs.plans_legal.values[0])
    some = "all are shown"
    if shown < count:
        some = f"shown are the leanest, the best that fits, and those that gain {100 * gain:.3g} %"
    stair = "plan of" if count == 1 else "plans of"
    return (
        f"{count:,} {stair} {legal:,} are faster than all that need less memory; {some}. "
        "Every time is at the rates of this machine, whatever else holds the memory."
    )


def ends_sentence(stairs: xr.Dataset) -> str:
    """Return the ends of a staircase."""
    first, last = stairs.isel(step_number=0), stairs.isel(step_number=-1)
    return f"Least memory: {_stair(first)}. Fastest: {_stair(last)}."


def _own(stairs: xr.Dataset, own: int, limit: str) -> str:
    here, last = stairs.isel(step_number=own), stairs.isel(step_number=-1)
    said = f"In {limit}: {seconds(float(here.step_time))} a step{interval_words(here)}"
    if own == stairs.sizes["step_number"] - 1:
        return f"{said}. More memory buys nothing."
    after = stairs.isel(step_number=own + 1)
    more = size(float(after.memory) - float(here.memory_limit), "B")
    gain = float(here.step_time) / float(after.step_time) - 1.0
    most = float(here.step_time) / float(last.step_time) - 1.0
    return (
        f"{said}. With {more} more memory it is {100 * gain:.2g} % faster; with "
        f"{size(float(last.memory), 'B')}, {100 * most:.2g} %, and no memory buys more."
    )


def _stair(row: xr.Dataset) -> str:
    return (
        f"{size(float(row.memory), 'B')}, {seconds(float(row.step_time))} a step, "
        f"{days(float(row.training_days))} days, {placed_words(row)}"
    )


def sizes_table(
    sizes: Mapping[int, xr.Dataset], gain: float, most_days: float | None, capacities: Capacities
) -> PlainTable:
    """Return one row per cluster size: the ends of its staircase, or the step within some days."""
    there = {gpus: stairs for gpus, stairs in sizes.items() if stairs.sizes["step_number"]}
    limit = next((float(stairs.memory_limit[0]) for stairs in there.values()), 0.0)
    soon = {} if most_days is None else {n: in_time(s, most_days) for n, s in there.items()}
    rows = {n: there[n].isel(step_number=i) for n, i in soon.items() if i is not None}

    def end(head: str, place: Callable[[int], int], optional: int = 0) -> list[Shown]:
        def row(gpus: int) -> xr.Dataset:
            return there[gpus].isel(step_number=place(gpus))

        return [
            Shown(head, lambda gpus: size(float(row(gpus).memory), "B"), optional),
            Shown("days", lambda gpus: days(float(row(gpus).training_days)), optional),
        ]

    def held(gpus: int) -> str:
        own = within_reach(there[gpus])
        return "-" if own is None else days(float(there[gpus].training_days[own]))

    def of_row(column: Shown) -> Shown:
        return column._replace(cell=lambda gpus: column.cell(rows[gpus]))

    first = [
        Shown("gpus", lambda gpus: f"{gpus:,}"),
        Shown("stairs", lambda gpus: f"{sizes[gpus].sizes['step_number']}", 4),
        *end("leanest\nneeds", lambda gpus: 0, 0 if most_days is None else 3),
    ]
    if most_days is None:
        flat = end("flat\nfrom", lambda gpus: flat_from(there[gpus], gain), 1)
        within = Shown(f"days in\n{size(limit, 'B')}", held)
        columns = [*first, within, *flat, *end("fastest\nneeds", lambda gpus: -1)]
    else:
        plan = plan_columns(next(iter(sizes.values())), rows.values(), 2)
        of_plan = [*map(of_row, [*plan, _holder(capacities, 1)])]
        columns = [*first, *end("needs", lambda gpus: soon[gpus] or 0), *of_plan]

    def instead(gpus: int) -> list[str]:
        if gpus not in there:
            return [f"{gpus:,}", "0"]
        late = most_days is not None and gpus not in rows
        return [*(column.cell(gpus) for column in first), "none does"] if late else []

    return PlainTable().add_rows(columns, sizes, instead)


def sizes_sentences(sizes: Mapping[int, xr.Dataset], gain: float | None) -> list[str]:
    """Return the meaning of ``flat from`` where it is shown, and the sizes without any plan."""
    none = [f"{gpus:,}" for gpus, stairs in sizes.items() if not stairs.sizes["step_number"]]
    said = [f"No plan is legal on {listing(none)} accelerators."] if none else []
    if gain is None or len(none) == len(sizes):
        return said
    return [f"Flat from: beyond it more memory buys less than {100 * gain:.3g} %.", *said]


def days_sentences(
    sizes: Mapping[int, xr.Dataset], most_days: float, capacities: Capacities
) -> list[str]:
    """Return the smallest machine that trains within some days, and the sizes where none does."""
    asked = f"{most_days:g} {'day' if most_days == 1 else 'days'}"
    there = {gpus: stairs for gpus, stairs in sizes.items() if stairs.sizes["step_number"]}
    soon = {gpus: in_time(stairs, most_days) for gpus, stairs in there.items()}
    enough = [gpus for gpus, i in soon.items() if i is not None]
    late = [
        f"{gpus:,} ({days(float(there[gpus].training_days[-1]))} days)"
        for gpus, i in soon.items()
        if i is None
    ]
    said = []
    if enough:
        least = min(enough)
        row = there[least].isel(step_number=soon[least])
        said.append(_smallest(least, row, asked, capacities))
    if late:
        said.append(f"No memory suffices for {asked} on {listing(late)} accelerators.")
    return said


def _smallest(gpus: int, row: xr.Dataset, asked: str, capacities: Capacities) -> str:
    memory, own = float(row.memory), float(row.memory_limit)
    holder = smallest_system_with(memory, capacities)
    has = f"{holder} has {size(capacities[holder], 'B')}" if holder in capacities else ""
    over = f", {size(memory - own, 'B')} more than there is" if memory > own else ""
    return (
        f"The smallest machine that trains this in {asked}: {gpus:,} accelerators with "
        f"{size(memory, 'B')} each ({has or 'none of the catalogue has as much'}){over}, at the "
        f"rates of this machine; {days(float(row.training_days))} days with {placed_words(row)}."
    )
