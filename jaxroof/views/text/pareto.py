"""The staircase of step time against memory, as tables and sentences."""

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.compare import days, times
from jaxroof.views.text.plan import placed_words, plan_fields, split_cells, split_heads
from jaxroof.views.text.tables import plain_table

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
    limit = float(stairs.memory_limit[0])
    *degrees, placement = split_heads(stairs, fields)
    table.add_numbers("memory", "step\ntime")
    table.add_numbers("days", optional=3)
    table.add_numbers("faster\nby %", optional=2)
    table.add_numbers("for\nmore", optional=4)
    table.add_numbers(*degrees)
    table.add_numbers(placement, optional=6)
    table.add_numbers(f"fits\n{size(limit, 'B')}", optional=1)
    table.add_column(HELD_BY, no_wrap=True, optional=5)
    before = None
    for i in chosen:
        row = stairs.isel(step_number=i)
        memory, time = float(row.memory), float(row.step_time)
        gains = ["-", "-"]
        if before is not None:
            gains = [
                f"{100 * (float(before.step_time) / time - 1.0):,.3g}",
                size(memory - float(before.memory), "B"),
            ]
        cells = [size(memory, "B"), seconds(time), days(float(row.training_days)), *gains]
        fits = "yes" if bool(row.fits) else "no"
        table.add_row(
            *cells, *split_cells(row, fields), fits, smallest_system_with(memory, capacities)
        )
        before = row
    return table


def stairs_sentences(stairs: xr.Dataset, told_of: int, gain: float) -> list[str]:
    """Return the ends of a staircase, the machine's own step on it and where it flattens."""
    count, own = stairs.sizes["step_number"], within_reach(stairs)
    first, last = stairs.isel(step_number=0), stairs.isel(step_number=-1)
    flat = stairs.isel(step_number=flat_from(stairs, gain))
    limit, least = size(float(first.memory_limit), "B"), f"{100 * gain:.3g} %"
    legal = int(first.plans_legal)
    some = "all shown" if told_of == count else f"{told_of} shown, those that gain {least} or more"
    said = [
        f"{count:,} {'stair' if count == 1 else 'stairs'} of {legal:,} legal plans; {some}.",
        f"Leanest: {_stair(first)}. Fastest: {_stair(last)}.",
    ]
    if own is None:
        missing = size(float(first.memory) - float(first.memory_limit), "B")
        said.append(f"None fits in {limit}: {missing} are missing.")
    else:
        said.append(_own(stairs, own, limit))
    said.append(
        f"Beyond {size(float(flat.memory), 'B')} more memory buys less than {least}."
        if float(flat.memory) < float(last.memory)
        else f"No stair below the fastest comes within {least} of it."
    )
    said.append("Every time is at the rates of this machine, whatever else holds the memory.")
    return said


def _own(stairs: xr.Dataset, own: int, limit: str) -> str:
    here, last = stairs.isel(step_number=own), stairs.isel(step_number=-1)
    said = f"In {limit}: {seconds(float(here.step_time))} a step"
    if own == stairs.sizes["step_number"] - 1:
        return f"{said}, as fast as with any memory."
    after = stairs.isel(step_number=own + 1)
    ratio = times(float(here.step_time) / float(last.step_time))
    more = size(float(after.memory) - float(here.memory_limit), "B")
    gain = float(here.step_time) / float(after.step_time) - 1.0
    return (
        f"{said}, {ratio} the fastest; the next stair takes {more} more than that and is "
        f"{100 * gain:.3g} % faster."
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
        *degrees, placement = split_heads(next(iter(sizes.values())), fields)
        table.add_numbers("needs", "days", *degrees)
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
    said = [f"No legal plan on {listing(none)} accelerators."] if none else []
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
