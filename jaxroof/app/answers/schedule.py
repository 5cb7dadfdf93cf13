"""The best plan under the pipeline schedules: times side by side, and every visit of one."""

import dataclasses
import json
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.one_plan import schedule, trace
from jaxroof.app.answers.memory import with_plan
from jaxroof.app.question import Asked
from jaxroof.app.state import SCHEDULES
from jaxroof.errors import refusal
from jaxroof.estimators.training.step import training
from jaxroof.units import percent, seconds
from jaxroof.views.text.schedule import closed_form_sentence

BLOCKS = 6000  # that a timeline shows
VISITS = 60_000  # that are computed at all


class Visit(NamedTuple):
    """One block of a timeline."""

    device: int  # counted from 0, as stages are
    kind: str
    microbatch: int
    stage: int
    start: float  # [s]
    end: float


class Timeline(NamedTuple):
    """The visits of one step, as many as are shown, and the seconds of the whole step."""

    name: str  # of the schedule
    visits: list[Visit]
    devices: int
    step: float
    shown: float  # [s] until which visits are shown


class Schedules(NamedTuple):
    """The best plan under every schedule, and how that differs from the time of a search."""

    rows: list["Row"]
    note: str


class Row(NamedTuple):
    """One schedule: its step time [s], the share that devices idle (mean), and whether it fits."""

    name: str
    step_time: float
    bubble: float
    memory: float
    fits: bool
    reason: str


def _planned(found: Asked, data: xr.Dataset) -> Any:
    """Return the inputs with the best plan, after checking that it has stages, not too many.

    Raises: InputError where there is nothing to draw.
    """
    row = data.isel(plan=0)
    stages = int(row.pipeline)
    if stages < 2:
        raise refusal("schedule", "the best plan has no pipeline; try a rule such as pp>=2")
    chunks = int(row.interleave) if "interleave" in row else 1
    replicas = int(row.data) * int(row.microbatch)
    visits = 2 * stages * chunks * int(found.inputs.global_batch) // replicas
    if visits > VISITS:
        said = f"{visits:,} visits of stages in a step; expected at most {VISITS:,}"
        raise refusal("schedule", f"{said}: fewer sequences, or more replicas")
    return with_plan(found, row)


def schedules(found: Asked, data: xr.Dataset) -> Schedules:
    """Return the best plan under every pipeline schedule.

    Raises: InputError where the plan has no pipeline, or no schedule allows it.
    """
    inputs = _planned(found, data)
    result = schedule(inputs, found.recipe, estimator=found.estimator, schedules=SCHEDULES)
    rows = []
    for name in SCHEDULES:
        row = result.sel(schedule=name)
        rows.append(
            Row(
                name,
                float(row.step_time),
                float(row.bubble.mean()),
                float(row.memory.max()),
                bool(row.memory_fits),
                str(row.reason.values),
            )
        )
    return Schedules(rows, closed_form_sentence(result))


def timeline(found: Asked, data: xr.Dataset, name: str) -> Timeline:
    """Return every visit of the best plan under a schedule, as many as are shown.

    No name stands for the schedule that the plan has.

    Raises: InputError where the plan has no pipeline, or the schedule does not allow it.
    """
    inputs = _planned(found, data)
    every = {f.name: getattr(inputs, f.name) for f in dataclasses.fields(inputs)}
    name = name or own_schedule(data)
    given = {key: value for key, value in every.items() if value is not None}
    of = "training" if found.estimator is training else "published"
    events = trace(of, {**given, **vars(found.recipe), "schedule": name})
    start, last = events.start.values, events.start.values + events.duration.values
    order = np.argsort(start, kind="stable")[:BLOCKS]
    columns = [events[n].values[order] for n in ("device", "kind", "microbatch", "stage")]
    columns += [start[order], last[order]]
    visits = [Visit(int(d) - 1, str(k), int(m), int(s), float(a), float(b))
              for d, k, m, s, a, b in zip(*columns, strict=True)]  # fmt: skip
    end = float(last.max())
    shown = end if len(start) <= BLOCKS else float(start[order[-1]])
    return Timeline(name, visits, int(events.device.values.max()), end, shown)


def schedule_sentence(rows: list[Row]) -> str:
    """Return which schedule is fastest of those that fit, and by how much."""
    able = sorted((r for r in rows if r.fits), key=lambda r: r.step_time)
    if not able:
        return "No schedule fits this plan in memory."
    best = able[0]
    said = f"Fastest that fits: {best.name}, {seconds(best.step_time)} a step, idle "
    said += f"{percent(best.bubble, 1)}."
    if len(able) > 1:
        slower = percent(able[-1].step_time / best.step_time - 1.0, 1)
        said += f" The slowest that fits, {able[-1].name}, takes {slower} longer."
    return said


def own_schedule(data: xr.Dataset) -> str:
    """Return the schedule that the best plan has: 1F1B is interleaved where ranks have chunks."""
    chosen = json.loads(data.attrs.get("recipe", "{}")).get("schedule", "1f1b").replace("_", "-")
    chunks = int(data.interleave.values[0]) if "interleave" in data else 1
    return "interleaved" if chunks > 1 else str(chosen)
