"""Traces: events on devices with start and duration along a dimension ``event``, and their files.

Files are in Chrome's Trace Event Format, which Perfetto opens, and CSV. Times are exact in both:
microseconds are the decimal digits of the seconds, shifted by six places.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from jaxroof.errors import refusal

NONE = -1  # place that does not apply: no stage, no microbatch ...
KINDS = ("forward", "backward", "weight", "send", "all-reduce", "all-gather", "optimizer", "other")
VISITS = KINDS[:3]  # phases within a stage; other phases come before or after all visits
TEXTS = {
    "name": "Operation, or visit of a stage",
    "kind": "What the event is",
    "phase": "Visit of a stage that the event belongs to, or the start or the end of the step",
}
PLACES = {
    "device": "Number of the device",
    "replica": "Replica, from 0",
    "tensor": "Tensor rank, from 0",
    "stage": "Stage of the pipeline, from 0",
    "microbatch": "Microbatch, from 0",
}
TIMES = {"start": "Start of the event", "duration": "Duration of the event"}
COLUMNS = (*TEXTS, *PLACES, *TIMES)
LABEL = "schedule"  # coordinate that labels each of several traces
OPERATIONS = {  # operation names of external traces -> kind
    **dict.fromkeys(("MatMul", "Relu", "Loss", "LossGrad"), "forward"),
    **dict.fromkeys(("ReluGrad", "MatMulGrad", "Add", "Identity", "Concat"), "backward"),
    "Send": "send",
    "MPIAllreduce": "all-reduce",
    "MPIAllgather": "all-gather",
    "SGDOptimizer": "optimizer",
}
HEADER = {"name": "name", "device": "device", "start_s": "start", "dur_s": "duration"}
HEADER |= {name: name for name in ("kind", "phase", "stage", "microbatch", "replica", "tensor")}
HEADER[LABEL] = LABEL  # CSV heading -> column of the trace
LEAD = ("seq", "name", "device", "start_s", "dur_s")  # first columns of every CSV trace
COLOURS = {  # reserved names of the format: blue, orange, green, yellow, red ...
    "forward": "rail_response",
    "backward": "rail_idle",
    "weight": "rail_load",
    "send": "startup",
    **dict.fromkeys(("all-reduce", "all-gather"), "rail_animation"),
    "optimizer": "black",
    "other": "grey",
}
MICRO = 6  # digits from a second to a microsecond


def is_trace(data: xr.Dataset) -> bool:
    """Return whether a Dataset is a trace."""
    return "event" in data.sizes and set(COLUMNS) <= set(map(str, data.data_vars))


def trace_of(columns: Mapping[str, Sequence[Any]], attrs: Mapping[str, Any]) -> xr.Dataset:
    """Return columns of events, in the order given, as a Dataset along ``event``.

    Missing places are -1; missing kinds and phases follow from the names of the operations.
    """
    count = len(columns["name"])
    kinds = columns.get("kind") or [OPERATIONS.get(str(name), "other") for name in columns["name"]]
    phases = columns.get("phase") or [kind if kind in VISITS else "" for kind in kinds]
    kinds = [kind if kind in KINDS else "other" for kind in kinds]
    whole = {**columns, "kind": kinds, "phase": phases}
    found = {
        name: xr.Variable("event", np.array(whole[name], dtype=np.str_), {"long_name": words})
        for name, words in TEXTS.items()
    }
    for name, words in PLACES.items():
        numbers = np.asarray(whole.get(name, [NONE] * count), dtype=np.int64)
        about = {"units": "1", "long_name": words}
        found[name] = xr.Variable("event", numbers, about, {"_FillValue": NONE})
    for name, words in TIMES.items():
        seconds = np.asarray(whole[name], dtype=np.float64)
        if not (np.isfinite(seconds) & (seconds >= 0.0)).all():
            raise ValueError(f"{name}: expected seconds of at least 0")
        found[name] = xr.Variable("event", seconds, {"units": "s", "long_name": words})
    labels = {}
    if LABEL in columns:
        texts = np.array(columns[LABEL], dtype=np.str_)
        labels = {LABEL: xr.Variable("event", texts, {"long_name": "Trace of the event"})}
    return xr.Dataset(found, labels, dict(attrs))


def event_columns(data: xr.Dataset) -> dict[str, list[Any]]:
    """Return the columns of a trace as plain lists, in a fixed order."""
    names = [name for name in (*COLUMNS, LABEL) if name in data.variables]
    return {name: data[name].values.tolist() for name in names}


def labelled_parts(data: xr.Dataset) -> dict[str, xr.Dataset]:
    """Return the traces of a Dataset by label; a single trace has the empty label."""
    if LABEL not in data.coords:
        return {"": data}
    labels = np.broadcast_to(data[LABEL].values, data.sizes["event"])
    names = dict.fromkeys(labels.tolist())
    return {name: data.isel(event=labels == name).drop_vars(LABEL) for name in names}


def side_by_side(traces: Mapping[str, xr.Dataset] | Iterable[xr.Dataset]) -> xr.Dataset:
    """Return several traces as one, labelled by a coordinate ``schedule``.

    The labels of a list are the attribute ``schedule`` of each trace, or else its title; they are
    numbered if two are equal or one is empty.
    """
    if not isinstance(traces, Mapping):
        listed = list(traces)
        names = [str(one.attrs.get(LABEL) or one.attrs.get("title", "")) for one in listed]
        if len(set(names)) < len(names) or "" in names:
            names = [f"{number}: {name}" for number, name in enumerate(names, start=1)]
        traces = dict(zip(names, listed, strict=True))
    if not traces:
        raise refusal("traces", "none given; expected one or more")
    for name, one in traces.items():
        if not is_trace(one):
            has = ", ".join(map(str, one.sizes)) or "none"
            raise refusal(f"traces: {name}", f"no trace, its dimensions are {has}")
    held = list(traces.values())
    first = held[0].attrs
    same = {k: v for k, v in first.items() if all(one.attrs.get(k) == v for one in held)}
    if titles := [str(one.attrs["title"]) for one in held if "title" in one.attrs]:
        parts = [title.split(", ") for title in titles]
        same["title"] = ", ".join(p for p in parts[0] if all(p in others for others in parts))
    columns = [
        {**event_columns(one), LABEL: [name] * one.sizes["event"]} for name, one in traces.items()
    ]
    joined = {key: [v for some in columns for v in some[key]] for key in (*COLUMNS, LABEL)}
    return trace_of(joined, same)


def write_chrome(data: xr.Dataset, path: str) -> None:
    """Write a trace in the Trace Event Format: complete events, one track per device.

    Source: Google 2016, Trace Event Format, sections "Complete Events" and "Metadata Events".
    """
    columns = event_columns(data)
    labels = list(dict.fromkeys(columns.get(LABEL, [])))
    processes = {label: number for number, label in enumerate(labels)}
    held = columns.get(LABEL, [None] * data.sizes["event"])
    whose = [processes.get(label, 0) for label in held]
    names = labels or [str(data.attrs.get("title", "jaxroof"))]
    lines = [_metadata("process_name", number, 0, name=n) for number, n in enumerate(names)]
    lines += _tracks(columns, whose)
    lines += [
        _complete({name: column[row] for name, column in columns.items()}, process)
        for row, process in enumerate(whose)
    ]
    about = {"displayTimeUnit": "ns", "otherData": {**data.attrs, "traces": labels}}
    head = json.dumps(about, allow_nan=False).removesuffix("}")
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(f'{head}, "traceEvents": [\n')
        stream.write(",\n".join(lines))
        stream.write("\n]}\n")


def _metadata(what: str, process: int, track: int, **told: Any) -> str:
    return json.dumps({"ph": "M", "name": what, "pid": process, "tid": track, "args": told})


def _tracks(columns: Mapping[str, Sequence[Any]], whose: Sequence[int]) -> list[str]:
    """Return the metadata events that name and order the track of every device."""
    places: dict[tuple[int, int], dict[str, set[int]]] = {}
    rows = zip(whose, columns["device"], *(columns[name] for name in PLACED), strict=True)
    for process, device, *numbers in rows:
        own = places.setdefault((process, device), {name: set() for name in PLACED})
        for name, number in zip(PLACED, numbers, strict=True):
            own[name] |= {number} - {NONE}
    lines = []
    for (process, device), own in sorted(places.items()):
        lines.append(_metadata("thread_name", process, device, name=track_name(device, own)))
        lines.append(_metadata("thread_sort_index", process, device, sort_index=device))
    return lines


PLACED = ("replica", "tensor", "stage")


def track_name(device: int, places: Mapping[str, set[int]]) -> str:
    """Return the name of a track: the device, and its place as far as known.

    >>> track_name(1, {"replica": {0}, "tensor": {0}, "stage": {0, 4}})
    'device 1 (replica 0, tensor 0, stages 0, 4)'
    """
    said = [
        f"{name}{'s' if len(places[name]) > 1 else ''} {', '.join(map(str, sorted(places[name])))}"
        for name in PLACED
        if places.get(name)
    ]
    return f"device {device}" + (f" ({', '.join(said)})" if said else "")


def _complete(event: Mapping[str, Any], process: int) -> str:
    """Return one event as JSON; times are inserted as text, with more digits than a float has."""
    places = {n: event[n] for n in PLACES if n != "device" and event[n] != NONE}
    told = {**places, "kind": event["kind"], "phase": event["phase"]}
    head = {"ph": "X", "name": event["name"], "cat": event["kind"]}
    head |= {"cname": COLOURS.get(event["kind"], "grey"), "pid": process, "tid": event["device"]}
    times = f'"ts": {_microseconds(event["start"])}, "dur": {_microseconds(event["duration"])}'
    return f'{json.dumps(head)[:-1]}, {times}, "args": {json.dumps(told)}}}'


def _microseconds(seconds: float) -> str:
    """Return the digits of a time in microseconds.

    >>> _microseconds(6.6322432e-07), _microseconds(0.0), _microseconds(2.5)
    ('0.66322432', '0', '2500000')
    """
    if not seconds:
        return "0"
    moved = Decimal(repr(seconds)).scaleb(MICRO)
    return str(int(moved)) if moved == moved.to_integral_value() else str(moved)


def is_chrome(whole: Any) -> bool:
    """Return whether parsed JSON is in the Trace Event Format."""
    if isinstance(whole, list):
        return bool(whole) and all(isinstance(one, dict) and "ph" in one for one in whole)
    return isinstance(whole, dict) and isinstance(whole.get("traceEvents"), list)


def read_chrome(text: str) -> xr.Dataset:
    """Return the trace of a JSON text: its complete events, in their order."""
    whole = json.loads(text, parse_float=Decimal)
    events = whole if isinstance(whole, list) else whole["traceEvents"]
    found = [one for one in events if one["ph"] == "X"]
    if not found:
        raise ValueError("no complete events")
    about = whole.get("otherData", {}) if isinstance(whole, dict) else {}
    attrs = {key: _plain(value) for key, value in about.items() if key != "traces"}
    columns: dict[str, list[Any]] = {
        "name": [str(one["name"]) for one in found],
        "device": [one["tid"] for one in found],
        "start": [_seconds(one["ts"]) for one in found],
        "duration": [_seconds(one["dur"]) for one in found],
    }
    told = [one.get("args", {}) for one in found]
    for name in PLACES:
        columns.setdefault(name, [own.get(name, NONE) for own in told])
    for name in ("kind", "phase"):
        if all(name in own for own in told):
            columns[name] = [str(own[name]) for own in told]
    processes = list(dict.fromkeys(one.get("pid", 0) for one in found))
    if about.get("traces") or len(processes) > 1:
        named = {
            one.get("pid", 0): str(one["args"]["name"])
            for one in events
            if one["ph"] == "M" and one["name"] == "process_name"
        }
        labels = {number: named.get(number, f"process {number}") for number in processes}
        columns[LABEL] = [labels[one.get("pid", 0)] for one in found]
    return trace_of(columns, attrs)


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _seconds(microseconds: Any) -> float:
    """Convert the digits of a time in microseconds to seconds."""
    seconds = float(Decimal(microseconds).scaleb(-MICRO))
    if not math.isfinite(seconds):
        raise ValueError(f"not a time: {microseconds}")
    return seconds


def write_table(data: xr.Dataset, path: str) -> None:
    """Write a trace as CSV: sequence, name, device, start and duration, then the rest."""
    columns = event_columns(data)
    table = pd.DataFrame({head: columns[name] for head, name in HEADER.items() if name in columns})
    for head in PLACES:
        table[head] = table[head].astype("Int64").mask(table[head] == NONE)
    table.to_csv(path, index_label="seq", lineterminator="\n")


def is_table(columns: Iterable[Any]) -> bool:
    """Return whether the columns of a table are those of a trace."""
    return tuple(columns)[: len(LEAD)] == LEAD


def read_table(path: str) -> xr.Dataset:
    """Return the trace of a CSV file."""
    table = pd.read_csv(path, dtype=str, keep_default_na=False)
    columns: dict[str, list[Any]] = {}
    for head in HEADER.keys() & set(table.columns):
        cells, name = table[head].tolist(), HEADER[head]
        if name in PLACES:
            cells = [int(cell) if cell else NONE for cell in cells]
        columns[name] = list(map(float, cells)) if name in TIMES else cells
    return trace_of(columns, {})
