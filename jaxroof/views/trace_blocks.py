"""What a person sees of a trace: visits as blocks, devices that do the same as one row, shares."""

from typing import NamedTuple

import numpy as np
import xarray as xr

from jaxroof.io.traces import KINDS, NONE, VISITS, event_columns
from jaxroof.units import percent, show

TOGETHER = 1e-9  # share of a step below which a gap is none
LEAST = 0.0005  # share from which a kind of event is told
WORDS = {kind: kind for kind in (*KINDS, "idle")} | {"weight": "weight gradient"}


class Block(NamedTuple):
    """What one device does without a break: a visit, a message, or the end of a step."""

    kind: str
    stage: int
    microbatch: int
    start: float
    end: float
    inside: tuple[tuple[str, float, float], ...] = ()  # collectives of a visit: kind, start, end


class Row(NamedTuple):
    """Devices that do the same at the same time."""

    label: str
    stages: tuple[int, ...]
    blocks: tuple[Block, ...]
    idle: float  # share of the step


def span(trace: xr.Dataset) -> float:
    """Return when the last event of a trace ends [s]."""
    return float((trace.start + trace.duration).max()) if trace.sizes["event"] else 0.0


def workers(trace: xr.Dataset) -> np.ndarray:
    """Return the devices that hold a stage; all of them where no stage is known."""
    held = trace.device.values[trace.stage.values != NONE]
    return np.unique(held if len(held) else trace.device.values)


def shares(trace: xr.Dataset) -> dict[str, float]:
    """Return the share of the devices' time that each kind of event takes; the rest is idle."""
    own = trace.isel(event=np.isin(trace.device.values, workers(trace)))
    whole = len(workers(trace)) * span(trace)
    kinds = own.kind.values
    found = {
        str(kind): float(own.duration.values[kinds == kind].sum()) / whole
        for kind in dict.fromkeys(kinds.tolist())
    }
    return {**found, "idle": max(0.0, 1.0 - sum(found.values()))}


def block_words(trace: xr.Dataset) -> str:
    """Return the step time and where the devices' time goes, idle first."""
    found = shares(trace)
    kinds = [kind for kind in ("idle", *KINDS) if found.get(kind, 0.0) >= LEAST]
    said = ", ".join(f"{WORDS[kind]} {percent(found[kind], 1)}" for kind in kinds)
    return f"step time {show(float(f'{span(trace):.3g}'), 's')}; {said}"


def rows(trace: xr.Dataset) -> list[Row]:
    """Return the rows of a picture: a row for devices that do the same at the same time."""
    columns = event_columns(trace)
    keys = list(zip(columns["device"], columns["start"], strict=True))
    order = sorted(range(trace.sizes["event"]), key=keys.__getitem__)
    events: dict[int, list[tuple[str, str, int, int, float, float]]] = {}
    fields = [columns[n] for n in ("kind", "phase", "stage", "microbatch", "start", "duration")]
    for i in order:
        events.setdefault(columns["device"][i], []).append(tuple(field[i] for field in fields))
    total = span(trace)
    found: dict[tuple[Block, ...], list[int]] = {}
    for device, own in events.items():
        found.setdefault(_blocks(own, TOGETHER * total), []).append(device)
    stages = {device: sorted({e[2] for e in own} - {NONE}) for device, own in events.items()}
    names = [_place(stages[devices[0]], devices) for devices in found.values()]
    return [
        Row(
            _label(name, devices, alone=names.count(name) == 1),
            tuple(stages[devices[0]]),
            blocks,
            max(0.0, 1.0 - sum(e[5] for e in events[devices[0]]) / total) if total else 0.0,
        )
        for (blocks, devices), name in zip(found.items(), names, strict=True)
    ]


def _place(stages: list[int], devices: list[int]) -> str:
    if stages:
        return f"stage{'s' if len(stages) > 1 else ''} {', '.join(map(str, stages))}"
    return "root" if devices == [0] else ""


def _label(place: str, devices: list[int], *, alone: bool) -> str:
    """Return what a row is called: its stages, and its devices where these do not tell."""
    many = (
        f"{len(devices)} devices" if len(devices) > 4 else f"devices {', '.join(map(str, devices))}"
    )
    words = many if len(devices) > 1 else f"device {devices[0]}"
    if not place:
        return words
    return place if alone and len(devices) == 1 else f"{place}\n{words}"


def _blocks(events: list[tuple[str, str, int, int, float, float]], gap: float) -> tuple[Block, ...]:
    """Return the events of one device, in order, as blocks; what takes no time is left out."""
    found: list[Block] = []
    open_visit = ""  # phase of the visit that the last block is
    for kind, phase, stage, microbatch, start, duration in events:
        if duration <= 0.0:
            continue
        end = start + duration
        visit = phase if phase in VISITS and kind != "send" else ""
        inside = ((kind, start, end),) if visit and kind not in VISITS else ()
        last = found[-1] if found else None
        near = last is not None and start - last.end <= gap
        if last is not None and near and visit and visit == open_visit:
            same = (last.stage, last.microbatch) == (stage, microbatch)
            if same:
                found[-1] = last._replace(end=end, inside=last.inside + inside)
                continue
        if last is not None and near and not visit and kind == last.kind != "send":
            found[-1] = last._replace(end=end)
            continue
        found.append(Block(visit or kind, stage, microbatch, start, end, inside))
        open_visit = visit
    return tuple(found)
