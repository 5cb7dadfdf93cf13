"""What is predicted for a measured row: three numbers, which of them was measured, the error."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from jaxroof.analyses.fit import BOUNDS, DENSE, EXPERTS
from jaxroof.errors import InputError, refusal, shown
from jaxroof.estimators.training.fsdp2_memory import Fsdp2Memory, fsdp2_memory
from jaxroof.estimators.training.fullest_stage import TERMS
from jaxroof.estimators.training.memory_2021 import Engine, peak_2021, stage_2021
from jaxroof.estimators.training.memory_inputs import Buffers, MemoryInputs
from jaxroof.estimators.training.memory_recipe import MemoryRecipe
from jaxroof.estimators.training.memory_report import StageMemory
from jaxroof.estimators.training.stage_memory import memory_by_stage
from jaxroof.records import checked
from jaxroof.validation.measured_rows import Row, configuration, count, number, options
from jaxroof.validation.memory.capacities import capacity
from jaxroof.validation.memory.common_rows import common_inputs, stated_reserved
from jaxroof.validation.memory.fsdp_rows import foundry_inputs, fsdp2_question
from jaxroof.validation.memory.megatron_rows import megatron_inputs
from jaxroof.validation.memory.older_rows import OlderQuestion, chronicle_question, log_question

FRAGMENTATION_2021 = 0.22  # reserved over allocated, mean of 127 stages
NUMBERS = {  # of the column memory_kind: which number it is
    "torch allocated peak": "allocated",
    "torch reserved peak": "reserved",
    "torch active peak": "active",
    "nvidia-smi": "device",
}
USUAL = {  # source: the number that it prints, where no memory_kind says so
    "SimuMax": "allocated",
    "torchtitan": "reserved",
    "BigScience 176B": "device",
}
BOUND_2021 = "-5 to +1 %"
FSDP_TERMS = ("weights", "optimizer", "activations", "logits", "gathered", "boundary")
POOLS = ("gradient_pool", "gather_pool", "holes")


class Prediction(NamedTuple):
    """The peak of one rank: three numbers in bytes, and what they are made of."""

    kind: str  # of row
    stage: int
    allocated: float
    reserved: float
    device: float
    terms: Mapping[str, float]  # in words
    bounds: Mapping[str, str]  # of the three numbers


class Answer(NamedTuple):
    """A measured row with its prediction, or the reason why there is none."""

    row: Row
    prediction: Prediction | None
    reason: str
    measured: Mapping[str, float]  # [B] by number: the one that the row is about comes first
    capacity: float | None  # [B] that the device reports, None if the system leaves it open

    @property
    def errors(self) -> dict[str, float]:
        """Return predicted over measured, less 1, of every number that was measured."""
        if self.prediction is None:
            return {}
        return {name: self.predicted(name) / value - 1.0 for name, value in self.measured.items()}

    def predicted(self, number: str) -> float:
        """Return the predicted bytes of a number; what is active is what is allocated."""
        return float(getattr(self.prediction, "allocated" if number == "active" else number))

    @property
    def fits(self) -> bool | None:
        """Return whether the device holds the peak, None if that is not known."""
        if self.prediction is None or self.capacity is None:
            return None
        return self.prediction.device <= self.capacity


def answer(row: Row) -> Answer:
    """Return the prediction of a row, or the reason why there is none."""
    measured, said = _measured(row)
    room = None
    with contextlib.suppress(InputError):
        room = capacity(row)
    try:
        found = predict(row)
    except InputError as error:
        return Answer(row, None, str(error), measured, room)
    return Answer(row, found, said, measured, room)


def answers(rows: Iterable[Row]) -> list[Answer]:
    """Return every row with its prediction; rows of one configuration share it."""
    known: dict[Any, Answer] = {}
    found = []
    for row in rows:
        key = configuration(row)
        one = known[key] = known[key] if key in known else answer(row)
        measured, said = _measured(row)
        reason = one.reason if one.prediction is None else said
        found.append(one._replace(row=row, measured=measured, reason=reason))
    return found


def predict(row: Row) -> Prediction:
    """Return the peak of the stage that a row reports.

    Raises: InputError that names the column or option that is lacking or not modelled.
    """
    return next(ask for holds, ask in READERS if holds(row))(row)


def _measured(row: Row) -> tuple[dict[str, float], str]:
    """Return what was measured, and why it cannot be compared."""
    if "measured_peak_memory_bytes" not in row.cells:
        return {}, ""
    try:
        value, reserved = number(row, "measured_peak_memory_bytes"), stated_reserved(row)
    except InputError as error:
        return {}, str(error)
    kind, source = row.cells.get("memory_kind", ""), row.cells.get("source", "")
    usual = [name for start, name in USUAL.items() if not kind and source.startswith(start)]
    if kind not in NUMBERS and not usual:
        said = f"{kind}: no such number" if kind else "blank; the measured number has no name"
        return {}, f"memory_kind: {said}; expected {', '.join(NUMBERS)}"
    found = {usual[0] if usual else NUMBERS[kind]: value}
    return found if reserved is None else {**found, "reserved": reserved}, ""


def stage_of(row: Row, device: np.ndarray) -> int:
    """Return the stage that a row reports: ``last``, its number, or the fullest (``max``)."""
    given = row.cells.get("memory_stage", "max")
    if given == "max":
        return int(np.argmax(device))
    if given == "last":
        return len(device) - 1
    try:
        stage = int(given)
    except ValueError:
        stage = -1
    if not 0 <= stage < len(device):
        expected = f"expected last, max or a number below {len(device)}"
        raise refusal("memory_stage", f"no such stage, given {shown(given)}; {expected}")
    return stage


# ---- Each kind of row ---------------------------------------------------------------------------


def _by_stage(inputs: tuple[MemoryInputs, MemoryRecipe, str], row: Row) -> Prediction:
    asked, recipe, kind = inputs
    memory = memory_by_stage(asked, recipe)
    shape = np.shape(memory.device)
    stage = stage_of(row, np.asarray(memory.device))

    def there(name: str) -> float:
        return float(np.broadcast_to(getattr(memory, name), shape)[stage])

    about = {field.name: field.metadata["doc"] for field in dataclasses.fields(StageMemory)}
    names = [name for name in TERMS if name != "transient"]
    names.append(max(TRANSIENTS, key=there))
    allocated = BY_KIND.get(kind, EXPERTS if asked.model.experts > 0.0 else DENSE)
    return Prediction(
        kind=kind,
        stage=stage,
        **{name: there(key) for name, key in THREE.items()},
        terms={about[name].rstrip("."): there(name) for name in names},
        bounds={"allocated": allocated, **BOUNDS},
    )


BY_KIND = {  # of row: bound of the allocated peak, where it is not that of its model
    "dense, compiled loss": "-22 to +4 %",
    "FSDP of llm-foundry": "no bound: not measured",
}
THREE = {"allocated": "peak_allocated", "reserved": "reserved", "device": "device"}
TRANSIENTS = tuple(
    field.name for field in dataclasses.fields(StageMemory) if field.name.startswith("transient_")
)


def _fsdp2(row: Row) -> Prediction:
    asked, kind = fsdp2_question(row)
    checked(asked.plan)
    block = asked.counts.dense_sharded + asked.counts.dense_replicated
    memory = fsdp2_memory(asked.model, asked.plan, asked.recipe, asked.sequence, block)
    about = {field.name: field.metadata["doc"] for field in dataclasses.fields(Fsdp2Memory)}
    buffers = Buffers()
    reserved = float(memory.reserved)
    return Prediction(
        kind=kind,
        stage=0,
        allocated=float(memory.active),
        reserved=reserved,
        device=reserved + float(buffers.cuda_context) + float(buffers.communicator),
        terms={
            about[name].rstrip("."): float(getattr(memory, name)) for name in (*FSDP_TERMS, *POOLS)
        },
        bounds=BOUNDS,
    )


def _older(found: tuple[OlderQuestion, str], row: Row) -> Prediction:
    asked, kind = found
    stages: Any = np.arange(count(row, "pp"))
    one = peak_2021(asked.inputs, asked.engine, stages, asked.split)
    peaks = np.broadcast_to(np.asarray(one), stages.shape)
    stage = stage_of(row, peaks)
    buffers, reserved = Buffers(), peaks[stage] * (1.0 + FRAGMENTATION_2021)
    return Prediction(
        kind=kind,
        stage=stage,
        allocated=float(peaks[stage]),
        reserved=float(reserved),
        device=float(reserved + buffers.cuda_context + buffers.communicator),
        terms=_older_terms(asked, float(stage), float(peaks[stage])),
        bounds={"allocated": BOUND_2021, "reserved": "± 13 %", "device": "± 15 %"},
    )


def _older_terms(asked: OlderQuestion, stage: float, peak: float) -> dict[str, float]:
    """Return the states of a stage, and what comes on top at its peak."""
    found = stage_2021(asked.inputs, stage, asked.split)
    width, sharded = STATES_2021[asked.engine]
    states = float(found.parameters * (width + sharded / found.data))
    return {
        "Weights, gradients and optimizer states": states,
        "Activations and momentary terms": peak - states,
    }


STATES_2021 = {  # bytes of a parameter: on every rank, and over data ranks
    Engine.MEGATRON: (20.0, 0.0),
    Engine.MEGATRON_FIRST_STEP: (10.0, 0.0),
    Engine.DEEPSPEED: (16.0, 0.0),
    Engine.DEEPSPEED_FP16_ZERO_1: (4.0, 12.0),
    Engine.DEEPSPEED_BF16_ZERO_1: (6.0, 12.0),
}


def _starts(column: str, start: str) -> Callable[[Row], bool]:
    return lambda row: row.cells.get(column, "").startswith(start)


READERS: tuple[tuple[Callable[[Row], bool], Callable[[Row], Prediction]], ...] = (
    (_starts("zero_fsdp", "FSDP2"), _fsdp2),
    (_starts("zero_fsdp", "FSDP "), lambda row: _by_stage(foundry_inputs(row), row)),
    (lambda row: "engine" in options(row), lambda row: _older(log_question(row), row)),
    (
        lambda row: "tensor-model-parallel-size" in options(row) or "num-layers" in options(row),
        lambda row: _by_stage(megatron_inputs(row), row),
    ),
    (_starts("source", "BigScience 176B"), lambda row: _older(chronicle_question(row), row)),
    (lambda row: True, lambda row: _by_stage(common_inputs(row), row)),
)
