"""What the commands print of a stored Dataset: sentences, and tables."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr
from rich.table import Table

from jaxroof.analyses import roofline_reading as roofs
from jaxroof.analyses.result_metadata import filled_paths
from jaxroof.catalog.needs import training_capacities
from jaxroof.views import trace_blocks
from jaxroof.views.text import (
    all_plans,
    compare,
    design,
    elasticities,
    fastest_plans,
    fit,
    fit_changes,
    fit_stages,
    least_memory,
    pareto,
    plan,
    roofline,
    schedule,
    search,
    stages,
    tables,
    training_layers,
    uncertain,
    uncertain_inputs,
)
from jaxroof.views.text.interval import interval_sentence
from jaxroof.views.text.layers import tables_of_layer

Piece = str | Table
WIDE = 10_000  # columns: a page shows them all
GAIN = 0.01  # speed that a stair must add, as `jaxroof pareto` has it
PLANS = 5  # plans of an uncertain answer, as `jaxroof search` has it


def answer(data: xr.Dataset) -> Iterator[Piece]:
    """Yield the sentences and tables that the command of a Dataset prints; none if unknown."""
    question = str(data.attrs.get("question", ""))
    for found, said in KINDS:
        if found(data, question):
            yield from said(data)
            return


def title_of(data: xr.Dataset) -> str:
    """Return the title of a Dataset; empty where its file has none."""
    if data.attrs.get("title"):
        return str(data.attrs["title"])
    question = data.attrs.get("question")
    try:
        if question == "fit":
            return fit.title(data)
        if question in ("fastest plans", "least memory") and data["gpus"].ndim == 0:
            return least_memory.title(data)
    except (LookupError, ValueError, TypeError, AttributeError):  # of an older file
        return ""
    named = [str(data.attrs[name]) for name in ("model", "system") if name in data.attrs]
    return " on ".join(named)


# ---- Plans of a training step -------------------------------------------------------------------


def _fastest(data: xr.Dataset) -> Iterator[Piece]:
    if data["gpus"].ndim:
        each = [one.assign(capacity=_limit(data)) for one in _by_size(data)]
        yield fastest_plans.sizes_table(each)
        yield plan.glossary(data, least_memory.fields_of_sizes(each))
        return
    yield fastest_plans.answer_sentence(data)
    yield plan.plan_sentence(data.isel(plan=0))
    yield fastest_plans.parts_sentence(data)
    yield fastest_plans.own_sentence(data)
    yield fastest_plans.uneven_sentence(data)
    yield fastest_plans.plans_table(data)
    yield fastest_plans.table_sentence(data, least_memory.shown_fields(data))
    yield fastest_plans.layer_sentence(data)
    yield fastest_plans.software_sentence(data)


def _least(data: xr.Dataset) -> Iterator[Piece]:
    if data["gpus"].ndim:
        for one in _by_size(data):
            yield f"{int(one['gpus']):,} accelerators:"
            yield least_memory.plans_table(one.assign(capacity=_limit(data)))
    else:
        searched = json.loads(data.attrs.get("options", "{}")).get("gpus") is None
        yield least_memory.answer_sentence(data, searched)
        yield least_memory.largest_sentence(data)
        yield least_memory.own_sentence(data)
        yield least_memory.plans_table(data)
        yield least_memory.counts_sentence(data)
    yield plan.glossary(data, least_memory.shown_fields(data))


def _by_size(data: xr.Dataset) -> list[xr.Dataset]:
    """Return the plans of each number of accelerators."""
    sizes = data["gpus"].values
    return [
        data.isel(plan=np.flatnonzero(sizes == size)).assign(gpus=size) for size in np.unique(sizes)
    ]


def _legal(data: xr.Dataset) -> Iterator[Piece]:
    limit = _limit(data)
    each = _by_size(data) if "gpus" in data else [data]
    for some in each:
        fitting = np.flatnonzero(some["feasible"].values)
        size = f"{int(some['gpus']):,} accelerators: " if len(each) > 1 else ""
        if len(fitting):
            best = some.isel(plan=int(fitting[0]))
            yield size + search.best_sentence(best, len(fitting), limit)
        yield tables.plans_table(some, range(some.sizes["plan"]), limit)


def _limit(data: xr.Dataset) -> float:
    """Return what a plan may need, from the inputs of the Dataset."""
    numbers = json.loads(data.attrs["inputs"])
    return float(np.prod([numbers[path] for path in filled_paths(data)]))


def _fit(data: xr.Dataset) -> Iterator[Piece]:
    yield fit.answer_sentence(data)
    yield fit_changes.change_sentence(data)
    yield from fit.open_sentences(data)
    yield fit.stages_table(data)
    if fit_changes.changes_of(data):
        yield fit_changes.changes_table(data)
        yield fit_changes.cost_sentence()
    yield from fit.assumption_sentences(data)


# ---- Sweeps -------------------------------------------------------------------------------------


def _grid(data: xr.Dataset) -> Iterator[Piece]:
    yield from search.sweep_sentences(data)
    if data.sizes or ("step_time" in data and "feasible" in data):
        grid = tables.grid_table(data, most=20)
        yield from () if grid is None else [grid]
    else:
        yield roofline.result_table(data)


def _compared(data: xr.Dataset) -> Iterator[Piece]:
    dims = [dim for dim in ("model", "gpus") if dim in data.sizes]
    for place in np.ndindex(*(data.sizes[dim] for dim in dims)):
        some = data.isel(dict(zip(dims, place, strict=True)))
        yield from compare.compare_sentences(some)
        yield interval_sentence(some)
        where = " ".join(f"{dim} {some[dim].values}" for dim in dims)
        yield where
        yield compare.rate_table(some)
        if bool(some["feasible"].any()):
            yield compare.parts_table(some)


def _every_plan(data: xr.Dataset) -> Iterator[Piece]:
    yield from all_plans.plan_sentences(data)
    yield all_plans.plan_table(data, most=20)


def _fit_stages(data: xr.Dataset) -> Iterator[Piece]:
    yield fit_stages.stages_sentence(data)
    yield fit_stages.fullest_table(data)


def _stages(data: xr.Dataset) -> Iterator[Piece]:
    yield stages.stage_sentence(data)
    yield stages.stage_table(data)


def _bindings(data: xr.Dataset) -> Iterator[Piece]:
    yield elasticities.binding_sentence(data)
    yield from search.sweep_sentences(data.drop_dims("parameter"))
    yield elasticities.binding_table(data)


# ---- One question -------------------------------------------------------------------------------


def _roofline(data: xr.Dataset) -> Iterator[Piece]:
    sweep = bool({*data.sizes} - {"case"})
    if not roofs.is_roofline(data):
        yield str(data.attrs["about"])
        yield roofline.plain_sweep_table(data) if sweep else roofline.result_table(data)
        return
    yield from roofline.sweep_sentences(data) if sweep else roofline.shape_sentences(data)
    yield roofline.sweep_table(data, most=20) if sweep else roofline.result_table(data)


def _design(data: xr.Dataset) -> Iterator[Piece]:
    yield from design.design_sentences(data)
    yield interval_sentence(data)
    yield design.design_table(data)
    yield from (*design.proof_sentences(data), *design.warning_sentences(data))


def _stairs(data: xr.Dataset) -> Iterator[Piece]:
    capacities = training_capacities()
    each = {n: data.isel(step_number=np.flatnonzero(data.gpus.values == n)) for n in _sizes(data)}
    if len(each) == 1:
        chosen = pareto.stairs_to_show(data, GAIN)
        yield from pareto.stairs_sentences(data, GAIN)
        yield interval_sentence(data)
        yield pareto.stairs_table(data, chosen, capacities)
    elif each:
        yield from pareto.sizes_sentences(each, GAIN)
        yield interval_sentence(data)
        yield pareto.sizes_table(each, GAIN, None, capacities)


def _sizes(data: xr.Dataset) -> list[int]:
    return list(dict.fromkeys(data["gpus"].values.ravel().tolist()))


def _uncertain(data: xr.Dataset) -> Iterator[Piece]:
    if "gpus" in data.sizes:
        yield from uncertain.sizes_sentences(data)
        yield uncertain.sizes_table(data)
    else:
        yield from uncertain.sentences(data)
        if float(data["feasible_share"]) > 0:
            yield uncertain.bands_table(data)
            yield uncertain.plans_table(data, PLANS)
    yield uncertain_inputs.inputs_table(data)


def _layers(data: xr.Dataset) -> Iterator[Piece]:
    if "kind" in data.coords and "block" not in data.coords:
        yield training_layers.training_layer_sentence(data)
        yield training_layers.notes_sentence(data)
    yield from tables_of_layer(data, WIDE)


def _schedules(data: xr.Dataset) -> Iterator[Piece]:
    yield from schedule.schedule_sentences(data)
    yield interval_sentence(data)
    yield schedule.schedules_table(data)


def _trace(data: xr.Dataset) -> Iterator[Piece]:
    if "schedule" not in data.sizes:
        devices = len(trace_blocks.workers(data))
        events = f"{data.sizes['event']:,} events on {devices:,} devices"
        yield f"{events}; {trace_blocks.block_words(data)}."


def _nothing(data: xr.Dataset) -> Iterator[Piece]:
    yield from ()


Kind = tuple[Callable[[xr.Dataset, str], bool], Callable[[xr.Dataset], Iterator[Piece]]]


def _asked(*names: str) -> Callable[[Any, str], bool]:
    return lambda _, question: question in names


def _along(*dims: str) -> Callable[[xr.Dataset, str], bool]:
    return lambda data, _: {*dims} <= {*map(str, data.sizes)}


KINDS: list[Kind] = [  # the first that holds
    (_asked("fastest plans"), _fastest),
    (_asked("least memory"), _least),
    (_asked("legal plans"), _legal),
    (_asked("fit"), _fit),
    (_asked("fit_stages"), _fit_stages),
    (_asked("roofline"), _roofline),
    (_asked("design"), _design),
    (_along("event"), _trace),
    (_along("operation"), _layers),
    (_along("stage"), _stages),
    (lambda data, question: data.attrs.get("answer") == "plans", _every_plan),
    (_asked("every plan"), _every_plan),
    (_along("quantile", "draw"), _uncertain),
    (_along("step_number"), _stairs),
    (_along("schedule", "device"), _schedules),
    (_along("parameter", "factor"), _nothing),
    (lambda data, question: "elasticity" in data, _bindings),
    (lambda data, question: "memory_limit" in data and "system" in data.sizes, _compared),
    (_asked("search", "table"), _grid),
]
