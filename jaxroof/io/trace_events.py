"""Traces: events on devices with start and duration, along the dimension ``event``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
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
    found: dict[str, xr.Variable] = {}
    for name, words in TEXTS.items():
        texts = np.array(whole[name], dtype=np.str_)
        found[name] = xr.Variable("event", texts, {"long_name": words})
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
    held = []
    for name, one in traces.items():
        if not is_trace(one):
            has = ", ".join(map(str, one.sizes)) or "none"
            raise refusal(f"traces: {name}", f"no trace, its dimensions are {has}")
        label = xr.Variable("event", np.full(one.sizes["event"], name))
        held.append(one.assign_coords({LABEL: label}))
    same = {
        key: value
        for key, value in held[0].attrs.items()
        if all(one.attrs.get(key) == value for one in held)
    }
    if titles := [str(one.attrs["title"]) for one in held if "title" in one.attrs]:
        parts = [title.split(", ") for title in titles]
        same["title"] = ", ".join(p for p in parts[0] if all(p in others for others in parts))
    columns = [event_columns(one) for one in held]
    joined = {key: [v for some in columns for v in some[key]] for key in (*COLUMNS, LABEL)}
    return trace_of(joined, same)
