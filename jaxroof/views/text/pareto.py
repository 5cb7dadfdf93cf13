"""The staircase of step time against memory, as tables and sentences."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.compare import day_words, days
from jaxroof.views.text.interval import LOW, interval_words, short_interval
from jaxroof.views.text.margin import margin_of
from jaxroof.views.text.plan import (
    glossary,
    placed_heads,
    placed_words,
    placements_differ,
    plan_fields,
    plan_sentence,
    split_cells,
)
from jaxroof.views.text.tables import plain_table

GB = 1e9
HELD_BY = "HBM that\nholds it"  # head of the column of systems, chosen by memory alone
Capacities = Mapping[str, float]  # system in the catalogue -> its memory [B], ascending


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


def stairs_table(stairs: xr.Dataset, chosen: Sequence[int], capacities: Capacities) -> Table:
    """Return one row per step: its memory, speed and gain, and the smallest system that fits it."""
    table, fields = plain_table(), plan_fields(stairs)
    limit, timed = float(stairs.memory_limit[0]), LOW in stairs
    margin = margin_of(stairs)
    *degrees, placement = placed_heads(stairs, fields)
    placed = placements_differ((stairs.isel(step_number=i) for i in chosen), fields)
    table.add_numbers("memory\n[GB]", "step\n[s]")
    if timed:
        table.add_numbers("80 % of\nruns", optional=2)
    table.add_numbers("days", optional=4)
    table.add_numbers("faster\nby %", optional=3)
    table.add_numbers("for GB\nmore", optional=5)
    table.add_numbers(*degrees)
    if placement:
        table.add_numbers(placement, optional=0 if placed else 7)
    table.add_numbers(f"fits\n{limit / GB:.4g}", optional=1)
    table.add_column(HELD_BY, no_wrap=True, optional=6)
    before = None
    for i in chosen:
        row = stairs.isel(step_number=i)
        memory, time = float(row.memory), float(row.step_time)
        gains = ["-", "-"]
        if before is not None:
            gains = [
                f"{100 * (float(before.step_time) / time - 1.0):,.3g}",
                _number((memory - float(before.memory)) / GB),
            ]
        runs = [short_interval(row)] if timed else []
        cells = [_number(memory / GB), _number(time), *runs, days(float(row.training_days)), *gains]
        fits = "yes" if bool(row.fits) else "no"
        fits = margin.marked(fits, memory, limit)
        table.add_row(
            *cells, *split_cells(row, fields), fits, smallest_system_with(memory, capacities)
        )
        before = row
    return table


def _number(value: float) -> str:
    return f"{value:.4g}"


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
) -> Table:
    """Return one row per cluster size: the ends of its staircase, or the step within some days."""
    table = plain_table()
    table.add_numbers("gpus")
    table.add_numbers("stairs", optional=4)
    table.add_numbers("leanest\nneeds", "days", optional=0 if most_days is None else 3)
    limit = next((float(s.memory_limit[0]) for s in sizes.values() if s.step_number.size), 0.0)
    fields = next((plan_fields(s) for s in sizes.values()), [])
    if most_days is None:
        table.add_numbers(f"days in\n{size(limit, 'B')}")
        table.add_numbers("flat\nfrom", "days", optional=1)
        table.add_numbers("fastest\nneeds", "days")
    else:
        *degrees, placement = placed_heads(next(iter(sizes.values())), fields)
        table.add_numbers("needs", "days", *degrees)
        if placement:
            table.add_numbers(placement, optional=2)
        table.add_column(HELD_BY, no_wrap=True, optional=1)
    for gpus, stairs in sizes.items():
        if not stairs.sizes["step_number"]:
            table.add_row(f"{gpus:,}", "0", *["-"] * (len(table.columns) - 2))
            continue
        cells = [f"{gpus:,}", f"{stairs.sizes['step_number']}", *_end(stairs, 0)]
        if most_days is None:
            own = within_reach(stairs)
            held = "-" if own is None else days(float(stairs.training_days[own]))
            cells += [held, *_end(stairs, flat_from(stairs, gain)), *_end(stairs, -1)]
        else:
            soon = in_time(stairs, most_days)
            cells += _soon(stairs, soon, fields, capacities)
        table.add_row(*cells, *["-"] * (len(table.columns) - len(cells)))
    return table


def _end(stairs: xr.Dataset, i: int) -> list[str]:
    row = stairs.isel(step_number=i)
    return [size(float(row.memory), "B"), days(float(row.training_days))]


def _soon(
    stairs: xr.Dataset, soon: int | None, fields: Sequence[str], capacities: Capacities
) -> list[str]:
    if soon is None:
        return ["none does"]
    row = stairs.isel(step_number=soon)
    held = smallest_system_with(float(row.memory), capacities)
    return [*_end(stairs, soon), *split_cells(row, fields), held]


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
