"""The staircase of step time against memory, as tables and sentences."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import (
    head_of,
    need_of,
    objective_of,
    roles,
    run_of,
    timed_of,
    unit_of,
    words_of,
)
from jaxroof.catalog.needs import training_capacities
from jaxroof.errors import listing
from jaxroof.units import amount, days, portion, size
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
from jaxroof.views.text.tables import per_run
from jaxroof.views.text.whole_run import days_of, days_result, run_sentence

GB = 1e9
Capacities = Mapping[str, float]  # system in the catalogue -> its memory [B], ascending
Place = Callable[[xr.Dataset], int | None]  # of a step among the stairs
DAYS = "training_days"
GAIN = 0.01  # speed that a stair must add to be shown, unless asked otherwise


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what more memory buys on each of some numbers of accelerators.

    Attributes say more of the question: stairs add a ``gain`` of speed or more; ``most_days`` asks
    for the smallest machine that trains in so many; ``sizes`` are those without a stair too.
    """
    gain, asked = float(data.attrs.get("gain", GAIN)), data.attrs.get("most_days")
    most_days = None if asked is None else float(asked)
    capacities = training_capacities(not roles(data).get("labelled"))
    each = stairs_of(data)
    there = {gpus: stairs for gpus, stairs in each.items() if stairs.sizes["step_number"]}
    if data.attrs.get("question") == "against":
        yield from _against(data, each, gain)
        return
    yield from title(_title(data))
    if not there:
        yield from quiet("No plan is legal.")
        return
    if most_days is not None:
        yield from usual(*days_sentences(there, most_days, capacities))
    if len(each) == 1:
        stairs = next(iter(there.values()))
        chosen = stairs_to_show(stairs, gain)
        yield from usual(*stairs_sentences(stairs, gain))
        yield from quiet(stairs_table(stairs, chosen, capacities))
        yield from usual(glossary(stairs), shown_sentence(stairs, len(chosen), gain))
    else:
        yield from quiet(sizes_table(each, gain, most_days))
        none = listing([f"{gpus:,}" for gpus in each if gpus not in there])
        yield from usual(f"No plan is legal on {none} accelerators." if none else "")
    yield from usual(tokens_sentence(data))
    yield from verbose(interval_sentence(data))


def _against(data: xr.Dataset, each: Mapping[int, xr.Dataset], gain: float) -> Iterator[Said]:
    """Yield the ends of the staircase against another result than the memory, and its steps."""
    yield from title(str(data.attrs.get("title", "")))
    for gpus, stairs in each.items():
        if not stairs.sizes["step_number"]:
            yield from quiet(f"No plan is within the limits on {gpus:,} accelerators.")
            continue
        yield from usual(_ends_sentence(stairs))
        chosen = stairs_to_show(stairs, gain)
        yield from quiet(_steps_table(stairs.isel(step_number=chosen)))
        some = f"shown are those that gain {100 * gain:.3g} %"
        fits = f" {int(np.count_nonzero(stairs.fits.values)):,} fit every limit."
        of = f"some bound of {words_of(stairs, need_of(stairs))}"
        counts = _counts(stairs, len(chosen), f"best at {of}", some)
        yield from usual(glossary(stairs), counts + fits)


def _ends_sentence(stairs: xr.Dataset) -> str:
    swept, aim = need_of(stairs), objective_of(stairs)
    first, last = (
        f"{words_of(stairs, aim)} {_amount(end, aim)} at {words_of(stairs, swept)} "
        f"{_amount(end, swept)} ({placed_words(end)})"
        for end in (stairs.isel(step_number=place) for place in (0, -1))
    )
    return f"From {first} to {last}." if stairs.sizes["step_number"] > 1 else f"Only {first}."


def _steps_table(stairs: xr.Dataset) -> PlainTable:
    """Return one row a step: both results, the plan, and whether it is within every limit."""
    rows = [stairs.isel(step_number=place) for place in range(stairs.sizes["step_number"])]

    def shown(name: str) -> Shown:
        return Shown(head_of(stairs, name), lambda row: _amount(row, name))

    both = shown(need_of(stairs)), shown(objective_of(stairs))
    fits = Shown("fits", lambda row: "yes" if bool(row.fits) else "no", 1)
    return PlainTable().add_rows([*both, *plan_columns(stairs, rows, 7), fits], rows)


def _amount(row: xr.Dataset, name: str) -> str:
    return amount(float(row[name]), unit_of(row, name))


def _title(data: xr.Dataset) -> str:
    named, batch = data.attrs.get("title"), json.loads(data.attrs["inputs"]).get("global_batch")
    return f"{named}, batch {int(batch):,}" if named and batch else ""


def stairs_of(data: xr.Dataset) -> dict[int, xr.Dataset]:
    """Return the staircase of each number of accelerators, in the order in which they come."""
    if "gpus" not in data:
        return {0: data}
    there = data["gpus"].values
    sizes = json.loads(data.attrs.get("sizes", "null")) or dict.fromkeys(there.ravel().tolist())
    return {n: data.isel(step_number=np.flatnonzero(there == n)) for n in sizes}


def stairs_to_show(stairs: xr.Dataset, gain: float) -> list[int]:
    """Return the steps to show: the least memory, the machine's own, and those that gain enough.

    ``gain`` is the smallest relative speed-up over the previous step shown.
    """
    time, own = stairs[objective_of(stairs)].values, within_reach(stairs)
    chosen: list[int] = []
    for i in range(stairs.sizes["step_number"]):
        if not chosen or i == own or time[chosen[-1]] / time[i] - 1.0 >= gain:
            chosen.append(i)
    return chosen


def within_reach(stairs: xr.Dataset) -> int | None:
    """Return the highest step that fits the machine, None if there is none."""
    fits = np.flatnonzero(stairs.fits.values)
    return int(fits[-1]) if len(fits) else None


def in_time(stairs: xr.Dataset, most_days: float) -> int | None:
    """Return the step with the least memory that trains within some days, None if there is none."""
    soon = np.flatnonzero(stairs[days_result(stairs)].values <= most_days)
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
    need, aim = need_of(stairs), objective_of(stairs)
    limit, margin = float(stairs[f"{need}_limit"][0]), margin_of(stairs)
    rows = [stairs.isel(step_number=i).assign(place=n) for n, i in enumerate(chosen)]

    def before(row: xr.Dataset, gained: Callable[[xr.Dataset], str]) -> str:
        return gained(rows[int(row.place) - 1]) if int(row.place) else "-"

    def faster(row: xr.Dataset) -> str:
        return before(row, lambda one: f"{100 * (float(one[aim] / row[aim]) - 1.0):,.3g}")

    def larger(row: xr.Dataset) -> str:
        return before(row, lambda one: f"{float(row[need] - one[need]) / GB:.4g}")

    def fits(row: xr.Dataset) -> str:
        return margin.marked("yes" if bool(row.fits) else "no", float(row[need]), limit)

    def holder(row: xr.Dataset) -> str:
        return smallest_system_with(float(row[need]), capacities)

    timed, unit = timed_of(stairs, aim), unit_of(stairs, aim)
    head = timed or head_of(stairs, aim).replace(" ", "\n")
    columns = [
        Shown(f"{need}\n[GB]", lambda row: f"{float(row[need]) / GB:.4g}"),
        Shown(f"{head}\n[{unit}]", lambda row: f"{float(row[aim]):.4g}"),
        *([Shown("80 % of\nruns", short_interval, 2)] if LOW in stairs else []),
        *([Shown("days", _days, 4)] if DAYS in stairs else []),
        Shown("faster\nby %", faster, 3),
        Shown("for GB\nmore", larger, 5),
        *plan_columns(stairs, rows, 7),
        Shown(f"fits\n{limit / GB:.4g}", fits, 1),
        Shown("HBM that\nholds it", holder, 6, "left"),
    ]
    return PlainTable().add_rows(columns, rows)


def _days(row: xr.Dataset) -> str:
    """Return the days of a training, or what else is optimised."""
    return days(days_of(row)) if DAYS in row else _amount(row, objective_of(row))


def stairs_sentences(stairs: xr.Dataset, gain: float) -> list[str]:
    """Return the fastest plan that the machine holds, what more memory buys, and where it ends."""
    need, own = need_of(stairs), within_reach(stairs)
    first, last = (float(stairs[need][i]) for i in (0, -1))
    there = float(stairs[f"{need}_limit"][0])
    limit = size(there, "B")
    if own is None:
        missing = f"{size(first, 'B')}, {size(first - there, 'B')} more"
        said = [f"No plan fits in {limit}: the leanest needs {missing}."]
    else:
        row = stairs.isel(step_number=own)
        said = [_own(stairs, own, limit), plan_sentence(row), run_sentence(row)]
    run, how = run_of(stairs), "faster" if timed_of(stairs, objective_of(stairs)) else "shorter"
    flat = float(stairs[need][stairs_to_show(stairs, gain)[-1]])
    if flat < last:
        least = f"{100 * gain:.3g} %"
        enough = size(flat, "B")
        said.append(f"Beyond {enough}, no amount of memory makes the {run} {least} {how}.")
    return said


def shown_sentence(stairs: xr.Dataset, shown: int, gain: float) -> str:
    """Return how many stairs there are, and at whose rates their times are."""
    some = f"shown are the leanest, the best that fits, and those that gain {100 * gain:.3g} %"
    return (
        f"{_counts(stairs, shown, 'faster than all that need less memory', some)} "
        "Every time is at the rates of this machine, whatever else holds the memory."
    )


def _counts(stairs: xr.Dataset, shown: int, what: str, some: str) -> str:
    """Return how many of the legal plans are steps, and which of them are shown."""
    count, legal = stairs.sizes["step_number"], int(stairs.plans_legal.values[0])
    stair = "plan of" if count == 1 else "plans of"
    some = some if shown < count else "all are shown"
    return f"{count:,} {stair} {legal:,} are {what}; {some}."


def _own(stairs: xr.Dataset, own: int, limit: str) -> str:
    need, aim, here = need_of(stairs), objective_of(stairs), stairs.isel(step_number=own)
    time = stairs[aim].values
    said = f"In {limit}: {per_run(stairs, aim, float(time[own]))}{interval_words(here)}"
    if own == stairs.sizes["step_number"] - 1:
        return f"{said}. More memory buys nothing."
    more = size(float(stairs[need][own + 1] - here[f"{need}_limit"]), "B")
    gain, most = (float(time[own] / one) - 1.0 for one in (time[own + 1], time[-1]))
    return (
        f"{said}. With {more} more memory it is {portion(gain)} faster; with "
        f"{size(float(stairs[need][-1]), 'B')}, {portion(most)}, and no memory buys more."
    )


def sizes_table(
    sizes: Mapping[int, xr.Dataset], gain: float, most_days: float | None
) -> PlainTable:
    """Return one row per cluster size: the ends of its staircase and what lies between."""
    some = next(one for one in sizes.values() if one.sizes["step_number"])
    needed, head = need_of(some), head_of(some, objective_of(some)).replace(" ", "\n")
    own = "days" if DAYS in some else head
    limit = float(some[f"{needed}_limit"][0])

    def of(place: Place, cell: Callable[[xr.Dataset], str]) -> Callable[[int], str]:
        def told(gpus: int) -> str:
            i = place(sizes[gpus]) if sizes[gpus].sizes["step_number"] else None
            return "-" if i is None else cell(sizes[gpus].isel(step_number=i))

        return told

    def stair(head: str, place: Place, soon: int = 0) -> list[Shown]:
        need = of(place, lambda row: size(float(row[needed]), "B"))
        return [Shown(head, need, soon), Shown(own, of(place, _days), soon)]

    between = stair("flat\nfrom", lambda stairs: stairs_to_show(stairs, gain)[-1], 1)
    if most_days is not None:
        between = stair(f"{most_days:g} days\nneed", lambda stairs: in_time(stairs, most_days))
    columns = [
        Shown("gpus", lambda gpus: f"{gpus:,}"),
        *stair("leanest\nneeds", lambda stairs: 0),
        Shown(f"{own} in\n{size(limit, 'B')}", of(within_reach, _days)),
        *between,
        *stair("fastest\nneeds", lambda stairs: -1),
    ]
    return PlainTable().add_rows(columns, sizes)


def days_sentences(
    sizes: Mapping[int, xr.Dataset], most_days: float, capacities: Capacities
) -> list[str]:
    """Return the smallest machine that trains within some days, and the sizes where none does."""
    asked = f"{most_days:g} {'day' if most_days == 1 else 'days'}"
    soon = {gpus: in_time(stairs, most_days) for gpus, stairs in sizes.items()}
    late = {n: _days(sizes[n].isel(step_number=-1)) for n in soon if soon[n] is None}
    enough = [gpus for gpus, i in soon.items() if i is not None]
    said = []
    if enough:
        row = sizes[min(enough)].isel(step_number=soon[min(enough)])
        said += [_smallest(min(enough), row, asked, capacities), run_sentence(row)]
    if late:
        on, least = listing([f"{n:,}" for n in late]), listing([*late.values()])
        told = f"No memory suffices for {asked} on {on} accelerators"
        said.append(f"{told}: the soonest takes {least} days.")
    return said


def _smallest(gpus: int, row: xr.Dataset, asked: str, capacities: Capacities) -> str:
    memory, own = float(row.memory), float(row.memory_limit)
    holder = smallest_system_with(memory, capacities)
    has = f"{holder} has {size(capacities[holder], 'B')}" if holder in capacities else ""
    over = f", {size(memory - own, 'B')} more than there is" if memory > own else ""
    return (
        f"The smallest machine that trains this in {asked}: {gpus:,} accelerators with "
        f"{size(memory, 'B')} each ({has or 'none of the catalogue has as much'}){over}, at the "
        f"rates of this machine; {_days(row)} days with {placed_words(row)}."
    )
