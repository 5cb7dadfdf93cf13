"""Pipeline schedules side by side, whichever estimator they are of: names, rows, the Dataset."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof import schedules as pipelines
from jaxroof.engine.grid.dataset import dataset
from jaxroof.errors import InputError, refusal, shown, spelled, unknown
from jaxroof.schedules.clock import Sends
from jaxroof.schedules.table import Schedule, in_flight

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


Row = Mapping[str, Any]  # numbers, or arrays over devices, by name


class Rows(NamedTuple):
    """What each of some schedules gives, and why others do not allow the plan."""

    names: Sequence[str]
    found: Mapping[str, Row]
    reasons: Mapping[str, str]


class Question(NamedTuple):
    """What all the schedules of a comparison share."""

    devices: int
    microbatches: int
    limit: float  # bytes that a step may fill
    closed_form: float | None  # where it is another: step time of the plan's own schedule [s]
    inputs: Any
    attrs: Mapping[str, str]
    meanings: Mapping[str, Mapping[str, Any]]


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


def microbatches_of(inputs: Any) -> int:
    """Return the microbatches of a step on one data-parallel rank, under the plan of the inputs."""
    return int(inputs.global_batch) // int(inputs.plan.data * inputs.plan.microbatch)


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


def check_pipeline(stages: float) -> None:
    """Check that a plan has a pipeline.

    Raises: InputError if it has one stage.
    """
    if stages < 2:
        what = "a schedule is of a pipeline; expected 2 stages or more"
        raise refusal("plan: pipeline", f"{what}, given {int(stages)}")


def every_schedule(names: Sequence[str], row: Callable[[str], Row]) -> Rows:
    """Return the rows of all schedules that allow a plan, and why the others do not.

    Raises: InputError if none allows it.
    """
    found: dict[str, Row] = {}
    reasons: dict[str, str] = {}
    for name in names:
        try:
            found[name] = row(name)
        except InputError as error:
            reasons[name] = str(error)
    if not found:
        told = "; ".join(dict.fromkeys(reasons.values()))
        raise InputError(told if len(names) == 1 else f"no schedule allows the plan: {told}")
    return Rows(names, found, reasons)


def arrays(report: Any) -> dict[str, np.ndarray]:
    """Return the results of a record by their names."""
    return {f.name: np.asarray(getattr(report, f.name)) for f in dataclasses.fields(report)}


def counts(pipeline: Schedule, stage_layers: int) -> dict[str, np.ndarray]:
    """Return the whole-number properties of a schedule."""
    return {
        "in_flight": in_flight(pipeline),
        "copies": np.asarray(int(pipeline.routes)),
        "stage_layers": np.asarray(stage_layers),
    }


def labelled(rows: Rows, asked: Question) -> xr.Dataset:
    """Return the results of all schedules over their names and devices."""
    names, found, reasons = rows
    one = next(iter(found.values()))
    columns: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for field, value in one.items():
        missing = np.full_like(value, -1 if value.dtype.kind == "i" else np.nan)
        values = np.stack([found[name][field] if name in found else missing for name in names])
        columns[field] = (("schedule", "device")[: values.ndim], values)
    limit = asked.limit
    allowed = np.array([name in found for name in names])
    fits = np.array([n in found and bool(np.all(found[n]["memory"] <= limit)) for n in names])
    data = dataset(columns, (), asked.inputs, asked.meanings, asked.attrs)
    for name, words in COUNTS.items():
        data[name].attrs = {"units": "1", "long_name": words}
    about = {"units": "B", "long_name": "Memory that a step may fill"}
    data["memory_limit"] = ((), limit, about)
    about = {"units": "1", "long_name": "Microbatches of a step on one data-parallel rank"}
    data["microbatches"] = ((), asked.microbatches, about)
    if asked.closed_form is not None:
        about = {"units": "s", "long_name": "Step time by the closed form of the estimator"}
        data["step_time_closed_form"] = ((), asked.closed_form, about)
    for name, flags in zip(FLAGS, (allowed, fits, allowed & fits), strict=True):
        data[name] = ("schedule", flags, {"units": "1", "long_name": FLAGS[name]})
    why = np.array([reasons.get(name, "") for name in names], dtype=np.str_)
    data["reason"] = ("schedule", why, {"long_name": "Why a schedule does not allow the plan"})
    return data.assign_coords(
        schedule=("schedule", np.array(names, dtype=np.str_), {"long_name": "Schedule"}),
        device=("device", np.arange(asked.devices), {"long_name": "Device of the pipeline"}),
    )
