"""The memory of the best plan by stage against the capacity, and what more capacity would buy."""

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.result_metadata import parts_of, words_of
from jaxroof.app.answers.plans import name_of
from jaxroof.app.question import Asked
from jaxroof.engine.sensitivity.response import capacity_steps
from jaxroof.estimators.training.report import TrainingReport
from jaxroof.estimators.training.scheduled_step import device_memory
from jaxroof.estimators.training.step import training
from jaxroof.records import field_at, with_named_absences
from jaxroof.units import percent, size
from jaxroof.views.text.margin import Margin, margin_of


class StageMemory(NamedTuple):
    """The memory of every stage by group of terms [B], what a step may fill [B], and its error."""

    groups: dict[str, np.ndarray]
    capacity: float
    margin: Margin

    @property
    def total(self) -> np.ndarray:
        """Return the memory of every stage."""
        found: np.ndarray = np.sum(list(self.groups.values()), axis=0)
        return found


def with_plan(found: Asked, row: xr.Dataset) -> Any:
    """Return the inputs with one of the plans."""
    assert found.estimator.plan is not None
    fields = {f: np.float64(row[f]) for f in found.estimator.plan_fields if f in row}
    return dataclasses.replace(found.inputs, plan=found.estimator.plan(**fields))


def by_stage(found: Asked, data: xr.Dataset, place: int = 0) -> StageMemory:
    """Return the memory of every pipeline stage of one of the plans.

    The stages of the study are alike.
    """
    row = data.isel(plan=place)
    stages = int(row.pipeline)
    if found.estimator is training:
        inputs = with_named_absences(with_plan(found, row))
        each = device_memory(inputs, found.recipe, stages)
        words = {n: str(field_at(TrainingReport, n).metadata["words"]) for n in each if "_" in n}
        groups = {words[name]: np.asarray(each[name]) for name in words}
    else:
        groups = {
            words_of(data, name): np.full(stages, float(row[name]))
            for name in parts_of(data, "memory")
        }
    return StageMemory(groups, found.capacity, margin_of(data))


def memory_sentence(memory: StageMemory) -> str:
    """Return how full the fullest stage is, and of what."""
    full = int(np.argmax(memory.total))
    need, stages = float(memory.total[full]), len(memory.total)
    largest = max(memory.groups, key=lambda name: float(memory.groups[name][full]))
    where = "The one stage" if stages == 1 else f"Stage {full}, the fullest of {stages},"
    share = percent(float(memory.groups[largest][full]) / need)
    left = size(memory.capacity - need, "B")
    return (
        f"{where} needs {size(need, 'B')} of {size(memory.capacity, 'B')}, so {left} are left; "
        f"{largest} take {share} of it. {memory.margin.sentence(need, memory.capacity)}"
    ).rstrip()


class Stair(NamedTuple):
    """A step of the stairs: from which capacity on [B], the step time [s], and the plan."""

    capacity: float
    step_time: float
    plan: str
    today: bool


def stairs(found: Asked) -> list[Stair]:
    """Return the best step time at every capacity, least capacity first."""
    data = capacity_steps(found.estimator, found.inputs, found.recipe, where=found.where)
    data = data.sortby("value")
    rows = (data.isel(step=place) for place in range(data.sizes["step"]))
    return [Stair(float(r.value), float(r.step_time), name_of(r), int(r.place) == 0) for r in rows]


def stairs_sentence(steps: list[Stair]) -> str:
    """Return what the next step up would buy, and what the next step down would cost."""
    today = next((place for place, step in enumerate(steps) if step.today), None)
    if today is None:
        return ""
    said = []
    now = steps[today]
    if today + 1 < len(steps):
        more = steps[today + 1]
        gain = percent(1.0 - more.step_time / now.step_time, 1)
        said.append(f"With {size(more.capacity, 'B')} the step would be {gain} shorter.")
    else:
        said.append("More memory would not make the step shorter.")
    if today:
        less = steps[today - 1]
        cost = percent(less.step_time / now.step_time - 1.0, 1)
        said.append(f"Below {size(now.capacity, 'B')} it would be {cost} longer ({less.plan}).")
    return " ".join(said)
