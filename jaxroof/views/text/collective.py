"""A collective in words: its time at every size, what runs, what binds, and the measured ratios."""

import json
from collections.abc import Iterator

import numpy as np
import xarray as xr

from jaxroof.errors import listing
from jaxroof.units import percent, seconds, size
from jaxroof.views.text.layout import PlainTable, Shown
from jaxroof.views.text.said import REPORT, Page, Said, quiet, title, usual

BANDS = {"below 1 MiB": (0.0, 2.0**20), "from 1 to 64 MiB": (2.0**20, 2.0**26),
         "from 64 MiB on": (2.0**26, np.inf)}  # fmt: skip
NEAR = (0.8, 1.25)  # ratios that need no words
HALF = (0.4, 0.62)  # ratios of half the rails
CLEAR = 0.05  # share of time below which another algorithm is not worth words
BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def answer(data: xr.Dataset, _: Page = REPORT) -> Iterator[Said]:
    """Yield what a collective takes, its table, and how it compares with what was measured."""
    yield from title(str(data.attrs["title"]))
    yield from usual(time_sentence(data))
    yield from quiet(size_table(data))
    yield from usual(retuned_sentence(data))
    if "ratio" in data:
        yield from usual(ratio_sentence(data), advice(data), dropped_sentence(data))
    yield from usual(*json.loads(str(data.attrs.get("notes", "[]"))))


def time_sentence(data: xr.Dataset) -> str:
    """Return the time of the largest buffer, what runs it, and what binds."""
    last = data.isel(size=-1)
    if not float(last.time):
        return "Nothing is sent: the group has one member, or the buffer is empty."
    bound = str(last.bound.values)
    words = f"{bound} binds"
    words = {"latency": "latency takes most of it", "links": "the links bind"}.get(bound, words)
    said = f"{seconds(float(last.time))} at {bytes_of(float(last['size']))} by {_runs(last)}"
    return f"{said}: {float(last.busbw) / 1e9:.4g} GB/s of bus bandwidth; {words}."


def retuned_sentence(data: xr.Dataset) -> str:
    """Return where another algorithm that exists takes clearly less than the one that runs."""
    if "candidate_time" not in data or data.attrs.get("mode") == "best":
        return ""
    least = data.candidate_time.min("candidate")
    share = (1.0 - least / data.time.where(data.time > 0.0)).fillna(0.0)
    at = int(np.argmax(share.values))
    if float(share[at]) < CLEAR:
        return ""
    point = data.isel(size=at)
    name = str(data.candidate.values[int(np.argmin(point.candidate_time.values))])
    said = f"{name} takes {percent(float(share[at]))} less at {bytes_of(float(point['size']))}"
    return f"{said}, where {_runs(point)} runs; --mode best takes the least everywhere."


def size_table(data: xr.Dataset) -> PlainTable:
    """Return a row a size: what runs, time and bandwidths, what binds, measured, candidates."""
    measured = "ratio" in data
    columns = [
        Shown("size", lambda row: bytes_of(float(row["size"]))),
        Shown("runs", _runs, 0, "left"),
        Shown("time\n[us]", lambda row: _micro(row.time)),
        Shown("algbw\n[GB/s]", lambda row: _giga(row.algbw), 1),
        Shown("busbw\n[GB/s]", lambda row: _giga(row.busbw)),
        Shown("bound", lambda row: str(row.bound.values), 0, "left"),
    ]
    if measured:
        columns += [
            Shown("measured\n[us]", lambda row: _micro(row.measured_time)),
            Shown("busbw\n[GB/s]", lambda row: _giga(row.measured_busbw), 1),
            Shown("ratio", lambda row: _ratio(row.ratio)),
        ]
    if "candidate" in data.dims and data.sizes["candidate"] > 1:
        slow = data.candidate_time / data.candidate_time.min("candidate").where(data.time > 0.0)
        order = np.argsort(slow.min("size").fillna(1.0).values, kind="stable").tolist()
        for place, name in enumerate(data.candidate.values.tolist()):
            columns.append(_candidate(place, name, 2 + order.index(place)))
    rows = [data.isel(size=place) for place in range(data.sizes["size"])]
    return PlainTable().add_rows(columns, rows)


def _candidate(place: int, name: str, soon: int) -> Shown:
    return Shown(
        f"{name.replace(' ', chr(10))}", lambda row: _micro(row.candidate_time[place]), soon
    )


def ratios(data: xr.Dataset) -> dict[str, tuple[float, int]]:
    """Return the median ratio of predicted over measured, and its sizes, of each band."""
    found = {}
    for name, (low, high) in BANDS.items():
        inside = (data["size"].values >= low) & (data["size"].values < high)
        some = data.ratio.values[inside & np.isfinite(data.ratio.values)]
        if len(some):
            found[name] = float(np.median(some)), len(some)
    return found


def ratio_sentence(data: xr.Dataset) -> str:
    """Return the median ratio of each band of sizes."""
    said = [f"{median:.2f} {name} ({n})" for name, (median, n) in ratios(data).items()]
    return f"Predicted over measured, medians (sizes): {listing(said)}."


def advice(data: xr.Dataset) -> str:
    """Return what the ratios point at."""
    found = {name: median for name, (median, _) in ratios(data).items()}
    small, large = found.get("below 1 MiB"), found.get("from 64 MiB on")
    every = [*found.values()]
    if all(HALF[0] <= one <= HALF[1] for one in every) and large is not None:
        return "All are near 0.5: look for half of the rails unused, or a wrong rate of the NICs."
    if all(NEAR[0] <= one <= NEAR[1] for one in every):
        return "The machine does what the model says."
    slow = [name for name, one in found.items() if one < NEAR[0]]
    if small is not None and slow == ["below 1 MiB"]:
        return "Only small sizes take longer: look at launch cost (library.base)."
    if large is not None and large < NEAR[0]:
        return "Large sizes take longer: look at health, oversubscription, sick links."
    if slow:
        return "Middle sizes take longer: look at the algorithm that the library runs there."
    return "It was faster than the model: look for a wrong preset, or efficiency and hops too low."


def dropped_sentence(data: xr.Dataset) -> str:
    """Return how many lines of the file were cut."""
    dropped = int(data.attrs.get("dropped", 0))
    lines = "1 line was" if dropped == 1 else f"{dropped} lines were"
    return f"{lines} cut off in the file, and dropped." if dropped else ""


def bytes_of(value: float) -> str:
    """Return a size as people type it: whole binary units, else decimal ones.

    >>> bytes_of(1024.0), bytes_of(3.0 * 2**30), bytes_of(1e6), bytes_of(0.0)
    ('1 KiB', '3 GiB', '1 MB', '0 B')
    """
    power = 0
    while value and power < len(BINARY) - 1 and value % 1024.0 == 0.0:
        value, power = value / 1024.0, power + 1
    if power and value < 1e6:
        return f"{value:.10g} {BINARY[power]}B"
    return size(value * 1024.0**power, "B")


def _runs(row: xr.Dataset) -> str:
    return f"{row.algorithm.values} {row.protocol.values}".removesuffix(" -")


def _micro(value: xr.DataArray) -> str:
    found = float(value) * 1e6
    return "-" if not np.isfinite(found) else f"{found:,.0f}" if found >= 1000 else f"{found:.4g}"


def _giga(value: xr.DataArray) -> str:
    found = float(value) / 1e9
    return "-" if not np.isfinite(found) else f"{found:.4g}"


def _ratio(value: xr.DataArray) -> str:
    return f"{float(value):.2f}" if np.isfinite(float(value)) else "-"
