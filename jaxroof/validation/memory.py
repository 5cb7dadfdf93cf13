"""Predicted peaks of memory of measured runs, and their error by source, kind and number."""

import collections
import dataclasses
import operator
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from jaxroof.analyses.fit import BOUNDS, DENSE, EXPERTS
from jaxroof.catalog.system import System, usable_memory
from jaxroof.engine.runs.row_stream import RowGroup
from jaxroof.errors import InputError, refusal, shown, unknown
from jaxroof.estimators.training.inputs import PlannedStep, planned
from jaxroof.estimators.training.legality import refuse_illegal, verdicts
from jaxroof.estimators.training.other_software import (
    Engine,
    Fsdp2Memory,
    Fsdp2Recipe,
    Fsdp2Recompute,
    fsdp2_memory,
    stage_2021,
)
from jaxroof.estimators.training.recipe import Module, TrainingRecipe
from jaxroof.estimators.training.report import StageMemory
from jaxroof.estimators.training.stage_memory import TERMS, memory_by_stage, of_stages
from jaxroof.formulas.arithmetic import where
from jaxroof.records import replace_at
from jaxroof.settings import choose
from jaxroof.structure import map_numbers
from jaxroof.validation.rows import Rows, about, furthest, measured, note, taken
from jaxroof.validation.sources import packaged_rows

NUMBERS = ("allocated", "active", "reserved", "device")
THREE = {"allocated": "peak_allocated", "reserved": "reserved", "device": "device"}
BESIDE = ("#software", "#modules", "#layer_split", "#loss", "#ends", "#compiled")
FSDP2 = "fsdp2"
FRAGMENTATION_2021 = 0.22  # reserved over allocated, mean of 127 stages
OF_2021 = {"allocated": "-5 to +1 %", "reserved": "± 13 %", "device": "± 15 %"}
BY_KIND = {  # of row: bound of the allocated peak, where it is not that of its model
    "dense, compiled loss": "-22 to +4 %",
    "FSDP of llm-foundry": "no bound: not measured",
}
ABOUT = {
    f.name: f.metadata["doc"].rstrip(".")
    for record in (StageMemory, Fsdp2Memory)
    for f in dataclasses.fields(record)
}
TRANSIENTS = tuple(
    f.name for f in dataclasses.fields(StageMemory) if f.name.startswith("transient_")
)
FSDP_TERMS = ("weights", "optimizer", "activations", "logits", "gathered", "boundary")
POOLS = ("gradient_pool", "gather_pool", "holes")
RERUN = ("megatron_lm_ci_memory",)  # whose rows are reruns of few configurations, every night


class Score(NamedTuple):
    """Errors of one number over the rows of one kind, in per cent."""

    source: str
    kind: str
    number: str  # allocated, active, reserved or device
    rows: int
    mean: float  # of the absolute errors
    median: float
    p90: float
    largest: float
    bias: float  # mean of the signed errors


class Fill(NamedTuple):
    """Runs that ran: how many are said to fit, and how full they are said to be."""

    source: str
    rows: int
    fits: int
    least: float  # device over capacity
    mean: float
    most: float


# ---- Predictions --------------------------------------------------------------------------------


class Peaks(NamedTuple):
    """Peaks of some rows at every stage [B], what they are made of, and their bounds."""

    numbers: dict[str, Any]  # allocated, reserved and device
    terms: dict[str, Any]
    bounds: Mapping[str, str]


def memory_answers(rows: Rows) -> pd.DataFrame:
    """Return rows with their predicted peaks of memory: numbers in bytes, terms, errors.

    A row without a prediction has a reason; ``measured`` and ``errors`` have the numbers that were
    measured, the one that the row is about first.
    """
    said: dict[int, str] = {}
    names = [name for name in NUMBERS if f"#measured_{name}_bytes" in rows.frame.columns]
    columns = {n: measured(rows.frame, f"#measured_{n}_bytes", said) for n in names}
    reasons, found = dict(rows.reasons), dict[int, dict[str, Any]]()
    for group in rows.groups:
        for some, notes in _alike(group, rows.frame):
            try:
                found |= _answered(some, notes, rows, reasons)
            except InputError as error:
                reasons.update(dict.fromkeys(some.rows.tolist(), str(error)))
    said |= reasons
    lines = []
    for row in range(len(rows.frame)):
        known = {n: float(values[row]) for n, values in columns.items() if values[row] > 0.0}
        one = found.get(row, NONE)
        errors = {n: predicted(one, n) / value - 1.0 for n, value in known.items() if row in found}
        fits = bool(one["device"] <= one["capacity"]) if one["capacity"] > 0.0 else None
        beside = {"measured": known, "errors": errors, "fits": fits, "reason": said.get(row, "")}
        lines.append({**one, **beside})
    return about(rows).join(pd.DataFrame(lines))


NONE: dict[str, Any] = {  # what is predicted of a row that is not answered
    "kind": None,
    "stage": np.nan,
    **dict.fromkeys(THREE, np.nan),
    "terms": {},
    "bounds": {},
    "capacity": np.nan,
    "gpus": np.nan,
}


def predicted(line: Any, number: str) -> float:
    """Return the predicted bytes of a number of a row; what is active is what is allocated."""
    return float(line["allocated" if number == "active" else number])


def _alike(group: RowGroup, frame: pd.DataFrame) -> Iterator[tuple[RowGroup, dict[str, Any]]]:
    """Yield the rows of a group that have the same notes, and recompute as much."""
    level = np.broadcast_to(group.inputs.plan.recompute, len(group.rows)).tolist()
    notes = {name: [note(frame, name)[row] for row in group.rows] for name in BESIDE}
    notes["level"] = level
    keys = list(zip(*notes.values(), strict=True))
    for key in dict.fromkeys(keys):
        here = np.array([place for place, one in enumerate(keys) if one == key])
        yield taken(group, here), dict(zip(notes, key, strict=True))


def _answered(
    group: RowGroup, notes: Mapping[str, Any], rows: Rows, reasons: dict[int, str]
) -> dict[int, dict[str, Any]]:
    """Return what is predicted for rows whose notes are the same; note why for the others."""
    size = len(group.rows)
    asked = map_numbers(
        lambda value: np.broadcast_to(value, size), planned(group.inputs, group.recipe)
    )
    peaks = _peaks(asked, group, notes, reasons)
    shape = np.shape(peaks.numbers["device"])
    numbers, terms = (
        {name: np.broadcast_to(value, shape) for name, value in some.items()}
        for some in (peaks.numbers, peaks.terms)
    )
    stages = np.minimum(asked.plan.pipeline, shape[1]).astype(int)
    capacity, routed = _capacity(group.inputs.system, size), asked.model.experts > 0.0
    plan = asked.plan
    gpus = plan.data * plan.tensor * plan.context * plan.pipeline
    kinds, reports = rows.note("#kind"), rows.note("#stage")
    found = {}
    for place, row in enumerate(group.rows.tolist()):
        device = numbers["device"][place, : stages[place]]
        try:
            stage = _stage(reports[row] or "max", device)
        except InputError as error:
            reasons.setdefault(row, str(error))
        if row in reasons:
            continue
        kind = kinds[row] or ("MoE" if routed[place] else "dense")
        allocated = BY_KIND.get(kind, EXPERTS if routed[place] else DENSE)
        found[row] = {
            "kind": kind,
            "stage": stage,
            **{name: float(value[place, stage]) for name, value in numbers.items()},
            "terms": _in_words({n: float(value[place, stage]) for n, value in terms.items()}),
            "bounds": peaks.bounds or {"allocated": allocated, **BOUNDS},
            "capacity": capacity[place],
            "gpus": gpus[place],
        }
    return found


def _stage(written: str, device: np.ndarray) -> int:
    """Return the stage that a row reports: ``last``, its number, or the fullest (``max``)."""
    if written == "max":
        return int(np.argmax(device))
    if written == "last":
        return len(device) - 1
    if not written.isdecimal() or int(written) >= len(device):
        expected = f"expected last, max or a number below {len(device)}"
        raise refusal("#stage", f"no such stage, given {shown(written)}; {expected}")
    return int(written)


def _capacity(system: System, size: int) -> np.ndarray:
    """Return the memory that the accelerator of each row reports [B], NaN if it is not known."""
    given: list[Any] = [system.hbm_reported, system.hbm_capacity]
    known = any(one is not None for one in given)
    return np.broadcast_to(usable_memory(system) if known else np.nan, size)


def _in_words(terms: dict[str, float]) -> dict[str, float]:
    """Return terms by what they are; of the momentary ones the largest."""
    momentary = {name: value for name, value in terms.items() if name in TRANSIENTS}
    lower = {*momentary} - {max(momentary, key=momentary.__getitem__, default="")}
    return {ABOUT.get(name, name): value for name, value in terms.items() if name not in lower}


# ---- Each code ----------------------------------------------------------------------------------


def _peaks(
    asked: PlannedStep, group: RowGroup, notes: Mapping[str, Any], reasons: dict[int, str]
) -> Peaks:
    """Return the peaks of rows under the code that they name."""
    split = tuple(int(one) for one in notes["#layer_split"].split(",") if one)
    engines = {member.value: member for member in Engine}
    recipe = group.recipe
    if notes["#software"] == FSDP2:
        return _fsdp2(asked, recipe, notes)
    modules = frozenset(Module(name.strip()) for name in notes["#modules"].split(",") if name)
    recipe = dataclasses.replace(
        recipe,
        selective=modules or recipe.selective,
        layer_division=split or recipe.layer_division,
    )
    if notes["#software"] in engines:
        return _of_2021(asked, recipe, engines[notes["#software"]])
    if notes["#software"]:
        raise unknown("#software", notes["#software"], "code", [FSDP2, *engines])
    _note_illegal(asked, recipe, group.rows, reasons)
    memory = memory_by_stage(asked, recipe)
    names = [*(name for name in TERMS if name != "transient"), *TRANSIENTS]
    return Peaks(
        {name: getattr(memory, field) for name, field in THREE.items()},
        {name: getattr(memory, name) for name in names},
        {},
    )


def _note_illegal(
    asked: PlannedStep, recipe: TrainingRecipe, rows: np.ndarray, reasons: dict[int, str]
) -> None:
    """Note the rows whose plan is not legal; the rules know groups as wide as the pipeline."""
    plan = asked.plan
    groups = where(asked.microbatch_group > 0.0, plan.pipeline, plan.microbatches)
    asked = replace_at(asked, "plan.microbatches", groups)
    legal = np.logical_and.reduce([*np.broadcast_arrays(*verdicts(asked, recipe).values())])
    for place in np.flatnonzero(~np.broadcast_to(legal, len(rows))):
        try:
            refuse_illegal(map_numbers(operator.itemgetter(int(place)), asked), recipe)
        except InputError as error:
            reasons.setdefault(int(rows[place]), str(error))


def _fsdp2(asked: PlannedStep, recipe: TrainingRecipe, notes: Mapping[str, Any]) -> Peaks:
    buffers, size = asked.buffers, np.shape(asked.plan.data)
    chosen = {name: notes[f"#{name}"] for name in ("loss", "ends") if notes[f"#{name}"]}
    choices = dataclasses.replace(
        choose(Fsdp2Recipe(), chosen),
        recompute=list(Fsdp2Recompute)[int(notes["level"])],
        compiled=notes["#compiled"] == "yes",
    )
    memory = fsdp2_memory(asked, recipe, choices)
    memory = map_numbers(lambda value: np.broadcast_to(value, size)[:, None], memory)
    outside = np.asarray(buffers.cuda_context + buffers.communicator)[:, None]
    numbers = {"allocated": memory.active, "reserved": memory.reserved}
    return Peaks(
        {**numbers, "device": memory.reserved + outside},
        {name: getattr(memory, name) for name in (*FSDP_TERMS, *POOLS)},
        BOUNDS,
    )


def _of_2021(asked: PlannedStep, recipe: TrainingRecipe, engine: Engine) -> Peaks:
    """Return the peaks under Megatron-LM or DeepSpeed of 2021-22."""

    def both(wide: PlannedStep, stage: Any) -> tuple[Any, Any]:
        found = stage_2021(wide, recipe, engine, stage)
        return found.peak, found.states

    allocated, own = of_stages(asked, both)
    reserved = allocated * (1.0 + FRAGMENTATION_2021)
    outside = np.asarray(asked.buffers.cuda_context + asked.buffers.communicator)[:, None]
    terms = {
        "Weights, gradients and optimizer states": own,
        "Activations and momentary terms": allocated - own,
    }
    numbers = {"allocated": allocated, "reserved": reserved, "device": reserved + outside}
    return Peaks(numbers, terms, OF_2021)


# ---- Scores -------------------------------------------------------------------------------------


def packaged_answers(source: str | None = None) -> pd.DataFrame:
    """Return every packaged row with its prediction, or those of one source.

    >>> len(packaged_answers("torchtitan_logs"))
    19
    """
    return memory_answers(packaged_rows("memory", source))


def scores(found: pd.DataFrame) -> list[Score]:
    """Return the errors by source, kind of row and number, in the order of the rows.

    >>> [round(score.mean, 3) for score in scores(packaged_answers("simumax_b200"))][:2]
    [0.002, 2.639]
    """
    errors: dict[tuple[str, str, str], list[float]] = collections.defaultdict(list)
    for source, kind, some in zip(found["source"], found["kind"], found["errors"], strict=True):
        for number, error in some.items():
            errors[source, kind, number].append(100.0 * error)
    return [_score(key, np.array(values)) for key, values in errors.items()]


def first_runs(found: pd.DataFrame) -> list[Score]:
    """Return the errors over the first run of each configuration and accelerator.

    For a source whose rows are reruns of few configurations, which would else count many times.
    """
    some = found[found["source"].isin(RERUN) & found["kind"].notna()]
    return scores(some[~some[["group", "machine", "gpus"]].duplicated()])


def _score(key: tuple[str, str, str], errors: np.ndarray) -> Score:
    sizes = np.abs(errors)
    found = (np.mean(sizes), np.median(sizes), np.quantile(sizes, 0.9), np.max(sizes))
    mean, median, p90, largest = map(float, found)
    return Score(*key, len(errors), mean, median, p90, largest, float(np.mean(errors)))


def fills(found: pd.DataFrame) -> list[Fill]:
    """Return, for sources that measured no memory, how many of their runs are said to fit."""
    made = []
    for source, some in found.groupby("source", sort=False):
        full = (some["device"] / some["capacity"]).dropna()
        if len(full) and not any(some["measured"]):
            counts = len(full), int(np.sum(full <= 1.0))
            ends = float(full.min()), float(np.mean(full)), float(full.max())
            made.append(Fill(str(source), *counts, *ends))
    return made


def worst(found: pd.DataFrame, most: int = 5) -> pd.DataFrame:
    """Return the rows with the largest errors, one of each configuration, with ``number``."""
    known = found[found["errors"].map(bool)]
    known = known.assign(number=[next(iter(errors)) for errors in known["errors"]])
    return furthest(known, [abs(next(iter(errors.values()))) for errors in known["errors"]], most)


def largest_terms(terms: Mapping[str, float], most: int = 3) -> list[tuple[str, float]]:
    """Return the largest terms of a prediction, in words, with their bytes."""
    return sorted(terms.items(), key=lambda term: -term[1])[:most]
