"""A step under pipeline schedules, side by side or visit by visit, whichever estimator times it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxroof import schedules as pipelines
from jaxroof.errors import InputError, refusal, shown, spelled, unknown
from jaxroof.estimator import Column, Rows
from jaxroof.records import Number, quantity, record
from jaxroof.schedules.clock import Sends, VisitTimes
from jaxroof.schedules.table import BACKWARD, FORWARD, IDLE, WEIGHT, Schedule, in_flight

SCHEDULES: tuple[str, ...] = ("1f1b", "interleaved", "zb-h1", "dualpipe")
FLAGS = {
    "allowed": "The schedule allows the plan",
    "memory_fits": "Memory is at most the usable capacity, on every device",
    "feasible": "Every verdict holds",
}
COUNTS = {
    "in_flight": "Most forwards held at once, each of one microbatch in one stage",
    "copies": "Copies of every weight",
    "stage_layers": "Layers of a stage",
}
NONE = -1  # no such place
VISITS = {  # kind of visit: its kind as an event, its name
    FORWARD: ("forward", "Forward"),
    BACKWARD: ("backward", "Backward"),
    WEIGHT: ("weight", "Weight gradient"),
}
EVENT = (
    *("name", "kind", "phase", "device", "replica"),
    *("tensor", "stage", "microbatch", "start", "duration"),
)


# ---- What is asked ------------------------------------------------------------------------------


def check_schedules(names: Sequence[str] | str, where: str = "schedules") -> list[str]:
    """Return the names of schedules, or the one name, after checking them.

    Raises: InputError for a name that is unknown (with the nearest) or repeated.
    """
    given = [names] if isinstance(names, str) else list(names)
    listed = [spelled(name, pipelines.NAMES) for name in given]
    for name in listed:
        if name not in pipelines.NAMES:
            raise unknown(where, name, "schedule", pipelines.NAMES)
        if listed.count(name) > 1:
            raise refusal(where, f"{name}: given twice; expected each once")
    if not listed:
        raise refusal(where, f"expected at least one of {', '.join(pipelines.NAMES)}")
    return listed


def check_sends(sends: Sends | str) -> Sends:
    """Return a kind of sends, by name or itself.

    Raises: InputError for an unknown name, with the nearest.
    """
    members = {kind.value: kind for kind in Sends}
    if not isinstance(sends, Sends) and sends not in members:
        raise unknown("sends", str(sends), "kind of sends", members)
    return sends if isinstance(sends, Sends) else members[sends]


def check_chunks(chunks: int) -> int:
    """Return a number of stages per device after checking it.

    Raises: InputError if it is not a whole number of at least 1.
    """
    if not isinstance(chunks, int | np.integer) or isinstance(chunks, bool) or chunks < 1:
        raise refusal("chunks", f"expected a whole number of at least 1, given {shown(chunks)}")
    return int(chunks)


def check_pipeline(inputs: Any) -> None:
    """Check that a plan has a pipeline.

    Raises: InputError if it has one stage.
    """
    if inputs.plan.pipeline < 2:
        what = "a schedule is of a pipeline; expected 2 stages or more"
        raise refusal("plan: pipeline", f"{what}, given {int(inputs.plan.pipeline)}")


def microbatches_of(inputs: Any) -> int:
    """Return the microbatches of a step on one data-parallel rank, under the plan of the inputs."""
    return int(inputs.global_batch) // int(inputs.plan.data * inputs.plan.microbatch)


# ---- Side by side -------------------------------------------------------------------------------


@record
class ScheduledTimes:
    """Times of one optimizer step under a schedule; those that differ by device are arrays."""

    step_time: Number = quantity("s", "Time of one optimizer step.", headline=True)
    throughput: Number = quantity("sequence/s", "Sequences trained on a second.", better="higher")
    busy_time: Number = quantity("s", "Time in visits, and in sends that keep the device.")
    bubble_time: Number = quantity("s", "Time that the device idles.")
    bubble: Number = quantity("1", "Share of the step that the device idles.")
    data_time: Number = quantity("s", "Time in data-parallel communication not hidden.")


class Ran(NamedTuple):
    """A step under a schedule: its results, and when every visit runs."""

    table: Schedule
    results: Mapping[str, Any]  # numbers, or arrays over devices
    stage_layers: int
    times: VisitTimes
    leave: Any  # how long sending each visit's output occupies its device [s]
    synchronisation: Any = None  # of each device with its replicas, after all its visits [s]
    update: Any = None  # of its parameters, after that [s]


Run = Callable[[str], Ran]  # a schedule by its name -> the step under it


def visits(inputs: Any, name: str, run: Run) -> Rows:
    """Return every visit of every stage under a schedule as events."""
    ran = run(name)
    sizes = f"{int(inputs.model.layers)} layers on {ran.table.devices} stages"
    title = f"{sizes}, {ran.table.microbatches} microbatches, {name}"
    return event_rows(visit_rows(ran), title=title, schedule=name)


def side_by_side(
    names: Sequence[str], run: Run, inputs: Any, limit: float, closed_form: float | None = None
) -> dict[str, Column]:
    """Return the results of all schedules over their names and devices.

    A schedule that does not allow the plan keeps its row: its numbers are missing and ``reason``
    says why.
    Arguments: ``limit`` is the memory that a step may fill [B]; ``closed_form`` the step time by
    it, where that is another [s].
    Raises: InputError if no schedule allows the plan.
    """
    found: dict[str, dict[str, np.ndarray]] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            ran = run(name)
        except InputError as error:
            reasons[name] = str(error)
            continue
        numbers = (in_flight(ran.table), int(ran.table.routes), ran.stage_layers)
        every = {**ran.results, **dict(zip(COUNTS, numbers, strict=True))}
        found[name] = {field: np.asarray(value) for field, value in every.items()}
    if not found:
        told = "; ".join(dict.fromkeys(reasons.values()))
        raise InputError(told if len(names) == 1 else f"no schedule allows the plan: {told}")
    columns: dict[str, Column] = {}
    for field, value in next(iter(found.values())).items():
        missing = np.full_like(value, -1 if value.dtype.kind == "i" else np.nan)
        values = np.stack([found[name][field] if name in found else missing for name in names])
        about = _about("1", COUNTS[field]) if field in COUNTS else None
        columns[field] = Column(values, ("schedule", "device")[: values.ndim], about)
    many = microbatches_of(inputs)
    columns["memory_limit"] = Column(limit, (), _about("B", "Memory that a step may fill"))
    words = "Microbatches of a step on one data-parallel rank"
    columns["microbatches"] = Column(many, (), _about("1", words))
    if closed_form is not None:
        words = "Step time by the closed form of the estimator"
        columns["step_time_closed_form"] = Column(closed_form, (), _about("s", words))
    allowed = np.array([name in found for name in names])
    fits = np.array([n in found and bool(np.all(found[n]["memory"] <= limit)) for n in names])
    for name, flags in zip(FLAGS, (allowed, fits, allowed & fits), strict=True):
        columns[name] = Column(flags, ("schedule",), _about("1", FLAGS[name]))
    why = np.array([reasons.get(name, "") for name in names], dtype=np.str_)
    about = {"long_name": "Why a schedule does not allow the plan"}
    columns["reason"] = Column(why, ("schedule",), about)
    labels, devices = np.array(names, dtype=np.str_), np.arange(int(inputs.plan.pipeline))
    for dim, places, words in (
        ("schedule", labels, "Schedule"),
        ("device", devices, "Device of the pipeline"),
    ):
        columns[dim] = Column(places, (dim,), {"long_name": words}, label=True)
    return columns


def _about(unit: str, words: str) -> dict[str, str]:
    return {"units": unit, "long_name": words}


# ---- Visit by visit -----------------------------------------------------------------------------


def visit_rows(ran: Ran) -> list[tuple[Any, ...]]:
    """Return the visits of a step as events, ordered by timestep; see ``EVENT``."""
    table, start, end = ran.table, *(np.asarray(one, np.float64) for one in ran.times[:2])
    kept = np.asarray(ran.leave, np.float64)
    found: list[tuple[Any, ...]] = []
    for t, device in np.argwhere(table.kind != IDLE).tolist():
        place = (device + 1, NONE, NONE, int(table.stage[t, device]), table.microbatch[t, device])
        kind, name = VISITS[int(table.kind[t, device])]
        begun, done = float(start[t, device]), float(end[t, device])
        found.append((name, kind, kind, *place, begun, done - begun))
        if kept[t, device] > 0.0:
            found.append(("Send", "send", kind, *place, done, float(kept[t, device])))
    done = np.where(table.kind != IDLE, end + kept, 0.0).max(axis=0)
    sums = ("Data-parallel sums", "all-reduce", ran.synchronisation)
    for name, kind, seconds in (sums, ("Update", "optimizer", ran.update)):
        each = np.zeros(table.devices) if seconds is None else np.asarray(seconds, np.float64)
        for device in np.flatnonzero(each > 0.0).tolist():
            place = (device + 1, NONE, NONE, NONE, NONE)
            took = float(each[device])
            found.append((name, kind, "end", *place, float(done[device]), took))
        done = done + each
    return found


def event_rows(found: Sequence[tuple[Any, ...]], **attrs: Any) -> Rows:
    """Return events as rows along ``event``, in the order given."""
    columns = zip(EVENT, map(list, zip(*found, strict=True)), strict=True)
    return Rows({name: Column(values, ("event",)) for name, values in columns}, attrs)
