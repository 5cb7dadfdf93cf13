"""Schedules side by side: the step time, idle time and memory of each."""

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import seconds, size
from jaxroof.views.text.interval import LOW, interval_sentence, interval_words, short_interval
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.margin import margin_of, mark_words
from jaxroof.views.text.plan import plan_line
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual, verbose

TIE = 1e-9  # step times with a smaller relative difference count as equal
TELLING = 0.02  # smallest share of a difference for which a part is named
CLOSED = "step_time_closed_form"
TWICE = 2  # copies of the weights in a schedule with two directions
SPENT = {
    "bubble_time": "idle",
    "data_time": "in data-parallel links",
    "busy_time": "at work",
    "update_time": "in the update",  # of an estimator that has it
}
GLOSSARY = (
    "In the table: best fit: the fastest schedule that fits; idle (that a search tells apart as "
    "the pipeline bubble and uneven stages) and data (messages of the data group): share of the "
    "step, mean of the devices"
)
GB = 1e9


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield the best schedule, what it gains and needs, and all of them in a table."""
    yield from title(str(data.attrs.get("title", "")))
    yield from usual(*schedule_sentences(data), plan_line(data))
    yield from quiet(schedules_table(data))
    words = "; ".join([GLOSSARY, *mark_words(data)])
    yield from usual(f"{words}.", closed_form_sentence(data))
    yield from verbose(interval_sentence(data))


def rows(data: xr.Dataset) -> list[tuple[str, xr.Dataset]]:
    """Return the name and the results of every schedule that allows the plan, fastest first."""
    order = np.argsort(data.step_time.values, kind="stable")  # NaN comes last
    found = [(str(data.schedule.values[i]), data.isel(schedule=i)) for i in order]
    return [(name, row) for name, row in found if bool(row.allowed)]


def best_of(data: xr.Dataset) -> str | None:
    """Return the fastest schedule that fits, None where none does."""
    return next((name for name, row in rows(data) if bool(row.feasible)), None)


def schedules_table(data: xr.Dataset) -> PlainTable:
    """Return one row per schedule, fastest first: time, gap, idle share, memory.

    The gap is relative to the best schedule that fits. Shares are means over devices.
    """
    limit, fastest, margin = float(data.memory_limit), best_of(data), margin_of(data)
    best = np.nan if fastest is None else float(data.sel(schedule=fastest).step_time)

    def against(row: xr.Dataset) -> str:
        return gap(float(row.step_time), best, bool(row.feasible))

    def fullest(row: xr.Dataset) -> str:
        most = float(row.memory.max())
        return f"{most / GB:.4g} {margin.share(most, limit):>4} %"

    columns = [
        Shown("schedule", lambda row: str(row.schedule.values), 0, "left"),
        Shown("step\ntime", lambda row: seconds(float(row.step_time))),
        *([Shown("80 % of\nruns [s]", short_interval, 3)] if LOW in data else []),
        Shown("against\nbest fit", against, 1),
        Shown("idle\n%", lambda row: f"{100 * float(row.bubble.mean()):.1f}", 2),
        Shown("data\n%", lambda row: f"{100 * float(row.data_time.mean() / row.step_time):.1f}", 4),
        Shown(f"fullest GB\nof {limit / GB:.4g}", fullest),
    ]
    refused = [data.sel(schedule=name) for name in data.schedule.values[~data.allowed.values]]

    def instead(row: xr.Dataset) -> list[str]:
        return [] if bool(row.allowed) else [str(row.schedule.values), "refused"]

    return PlainTable().add_rows(columns, [*(row for _, row in rows(data)), *refused], instead)


def gap(value: float, best: float, fits: bool = True) -> str:
    """Return the relative difference of a time from the best that fits, if there is one.

    >>> gap(42.0, 40.0), gap(39.9, 40.0), gap(40.0, 40.0), gap(40.0, 40.0, False)
    ('+5 %', '-0.25 %', 'best', '+0 %')
    >>> gap(40.0, float("nan"))
    '-'
    """
    share = value / best - 1.0
    if share != share:
        return "-"
    return "best" if fits and abs(share) <= TIE else f"{100 * share:+.3g} %"


def schedule_sentences(data: xr.Dataset) -> list[str]:
    """Return the best schedule, its lead and why, its memory, and which were refused."""
    name = best_of(data)
    said = [f"Refused: {data.reason.values[i]}." for i in np.flatnonzero(~data.allowed.values)]
    if name is None:
        return [_nothing(data), *said]
    return [_best(data, name), _memory(data, name), *said]


def closed_form_sentence(data: xr.Dataset) -> str:
    """Return what the closed form gives that a search prints, where that is another time."""
    if CLOSED not in data:
        return ""
    stages = json.loads(data.attrs["inputs"]).get("plan.interleave", 1)  # of a device
    name = "1F1B" if stages == 1 else "interleaved 1F1B"
    time = seconds(float(data[CLOSED]))
    said = f"A search prints {time} for this plan, by the closed form of {name}"
    told = "the table follows every microbatch. Take seconds from the search, ranks from the table."
    return f"{said}; {told}"


def _best(data: xr.Dataset, name: str) -> str:
    """Return the speed of the best schedule, and its saving against the first one named."""
    row = data.sel(schedule=name)
    lead = (
        f"{seconds(float(row.step_time))} a step{interval_words(row)}, idle for {_idle(row)} of it"
    )
    known = [str(n) for n in data.schedule.values if bool(data.sel(schedule=n).allowed)]
    if len(known) == 1:
        return f"{name}: {lead}."
    fitting = [n for n in known if n != name and bool(data.sel(schedule=n).feasible)]
    if not fitting:
        return f"Best: {name}, {lead}; no other schedule fits."
    other = data.sel(schedule=fitting[0])
    share = float(other.step_time) / float(row.step_time) - 1.0
    if share <= TIE:
        return f"Best: {name}, {lead}; {fitting[0]} takes as long."
    longer = f"{fitting[0]} takes {100 * share:.3g} % longer"
    return f"Best: {name}, {lead}; {longer}, with {_why(row, other)}."


def _idle(row: xr.Dataset) -> str:
    low, high = (f"{100 * float(one):.1f}" for one in (row.bubble.min(), row.bubble.max()))
    mean = f"{100 * float(row.bubble.mean()):.1f} %"
    return mean if low == high else f"{mean} ({low} to {high} % by device)"


def _why(row: xr.Dataset, other: xr.Dataset) -> str:
    more = {part: float(other[part].mean() - row[part].mean()) for part in SPENT if part in row}
    most = max(map(abs, more.values()))
    order = sorted(more, key=lambda part: -more[part])
    said = [
        f"{seconds(abs(more[part]))} {'more' if more[part] > 0 else 'less'} {SPENT[part]}"
        for part in order
        if abs(more[part]) > TELLING * most
    ]
    return listing(said)


def _memory(data: xr.Dataset, name: str) -> str:
    """Return the memory of the best schedule, and that of the others."""
    row, limit = data.sel(schedule=name), size(float(data.memory_limit), "B")
    needs = row.memory.values
    least, most = (size(float(value), "B") for value in (needs.min(), needs.max()))
    if least == most:
        said = f"Every device needs {most} of {limit}"
    else:
        said = f"Its fullest device, {needs.argmax()}, needs {most} of {limit}"
        said += f", its emptiest, {needs.argmin()}, {least}"
    unfit = [_unfit(n, one, row) for n, one in rows(data) if not bool(one.feasible)]
    if not unfit:
        return f"{said}."
    return f"{said}; {listing(unfit)} {'does' if len(unfit) == 1 else 'do'} not fit."


def _unfit(name: str, row: xr.Dataset, best: xr.Dataset) -> str:
    said = [size(float(row.memory.max()), "B")]
    said += ["every weight twice"] if int(row.copies) == TWICE else []
    share = 1.0 - float(row.step_time) / float(best.step_time)
    said += [f"{100 * share:.3g} % faster"] if share > TIE else []
    return f"{name} ({', '.join(said)})"


def _nothing(data: xr.Dataset) -> str:
    needs = {name: float(row.memory.max()) for name, row in rows(data)}
    name, limit = min(needs, key=lambda one: needs[one]), float(data.memory_limit)
    over = size(needs[name] - limit, "B")
    return (
        f"No schedule fits: {name} needs least, {size(needs[name], 'B')} on its fullest device, "
        f"{over} more than the {size(limit, 'B')} there is."
    )
