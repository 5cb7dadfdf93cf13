"""The fastest plans of today's training that fit, each with the interval of its step time."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from jaxroof.analyses.least_memory import (
    NoLegalPlan,
    Question,
    Rules,
    count_of,
    needs,
    no_legal_plan,
    place_of,
    question_of,
    reports,
)
from jaxroof.analyses.plan_product import Listed, plan_times, with_plans
from jaxroof.analyses.precision import with_precision
from jaxroof.catalog.chip import Chip, SharedConstants
from jaxroof.catalog.lookup import chip_of
from jaxroof.engine.search.problem import constraints_of
from jaxroof.errors import InputError, refusal
from jaxroof.estimators.training.interval import (
    REGIMES,
    half_width_within_source,
    interval,
    interval_within_source,
    regime,
)
from jaxroof.estimators.training.legality import rules
from jaxroof.estimators.training.model_flops import token_flops
from jaxroof.estimators.training.plan_time import plan_time
from jaxroof.estimators.training.software import Software
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.step_time import StepTime
from jaxroof.estimators.training.training_recipe import memory_recipe
from jaxroof.records import checked, with_named_absences
from jaxroof.settings import apply_settings

PIECE = 1 << 15  # plans timed at once, so that what is written stays in the cache
PARTS = {  # of a step, in the order of printing: name in a Dataset, sentence
    "steady": "Stages at work, all microbatches, the slowest stage",
    "bubble": "Stages that wait for the first and the last microbatch",
    "pipeline_comm": "Sends between stages that nothing hides",
    "data_comm": "Gradients and parameters between replicas that nothing hides",
    "optimizer": "Update of the parameters",
}
OF_LAYER = {  # of one layer and one microbatch, forward and backward
    "matmul": "Matrix products",
    "attention": "Attention",
    "elementwise": "Norms, activations and other element-wise kernels",
    "cast": "Casts to few bits",
    "recompute": "What is computed again",
    "tensor_comm": "Messages of the tensor group that nothing hides",
    "context_comm": "Exchange of the context group that nothing hides",
    "experts": "Routed experts",
    "expert_comm": "Dispatch to experts and return",
    "forward": "Forward pass",
    "backward": "Backward pass",
}
WITHOUT_OFFLOAD = constraints_of(training, "off=0")
RECORDS = {"software": Software(), "shared": SharedConstants()}  # that settings may change


def fastest_plans(
    *,
    model: Any,
    system: Any,
    global_batch: Any,
    gpus: Any,
    where: Rules = (),
    top: int = 1,
    own: str | None = None,
    chip: Chip | str | None = None,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return the plans of a training step that fit and take the shortest time, fastest first.

    Every legal plan whose optimizer states are on the accelerator is evaluated: memory decides
    which fit, then the step time ranks them. ``where``, ``own`` and settings are as in
    ``least_memory``; settings may also change ``chip.FIELD``, ``shared.FIELD`` (constants of all
    chips) and ``software.FIELD``. ``chip`` is that of the system, unless a record is given, or a
    file that ``jaxroof calibrate`` wrote: then the interval is that of runs of your own.

    Returns: a Dataset over ``plan`` of plan fields, memory, ``step_time`` with its 80 % interval
    (``step_time_low``, ``step_time_high``) and parts, tokens a second and ``mfu`` (attention
    halved, 16-bit peak); without a plan ``gpus``, ``plans_feasible``, ``plans_alike`` (as fast as
    the best to within the spread of runs of one software) and so on.
    Raises: InputError for bad input, for a system whose chip is not calibrated, and if no plan is
    legal or fits.

    >>> data = fastest_plans(
    ...     model="llama3-8b", system="h100-nvs8", global_batch=64, gpus=8, where="tp<=8"
    ... )
    >>> bool(data.step_time_low[0] < data.step_time[0] < data.step_time_high[0])
    True
    """
    given = with_precision({**(settings or {}), **more}, system, time=True)
    chip = given.pop("chip", chip)
    own_runs = isinstance(chip, str)
    changes = {k: v for k, v in given.items() if k.partition(".")[0] in (*RECORDS, "chip")}
    rest = {name: value for name, value in given.items() if name not in changes}
    asked = question_of(model, system, global_batch, where, rest)
    records = _records(chip if isinstance(chip, Chip) else chip_of(system, chip), changes)
    size = count_of(gpus)
    found, need = needs(asked.inputs, asked.recipe, size, asked.constraints)
    if not found.size:
        raise NoLegalPlan(no_legal_plan([size], found.refused, asked.constraints, size))
    timed = found.having(WITHOUT_OFFLOAD)
    fitting = timed[need[timed] <= asked.capacity]
    if not len(fitting):
        raise NoPlanFits(
            f"plan: none of {len(timed):,} legal ones without offload fits on {size:,} "
            f"accelerators; expected more of them, or see what needs least: jaxroof fit"
        )
    ranking = Ranking(found, need, fitting, _times(asked, found, fitting, records))
    return _told(asked, records, size, ranking, top, own, own_runs).assign_attrs(
        question="fastest plans",
        model=str(model) if isinstance(model, str) else type(model).__name__,
        system=str(system) if isinstance(system, str) else type(system).__name__,
    )


class Ranking(NamedTuple):
    """The plans of a question, and the times of those that fit."""

    plans: Listed
    need: np.ndarray  # of every plan [B]
    fitting: np.ndarray  # positions of the plans that fit without offload
    times: np.ndarray  # theirs [s]


def _told(
    asked: Question,
    records: Mapping[str, Any],
    size: int,
    ranking: Ranking,
    top: int,
    own: str | None,
    own_runs: bool,
) -> xr.Dataset:
    """Return the first plans with all results, and what holds for all of them."""
    found, need, fitting, times = ranking
    order = np.argsort(times, kind="stable")
    shown = fitting[order[:top]]
    data = reports(asked.inputs, asked.recipe, size, found, shown)
    low = float(records["software"].fp8) + float(records["software"].fp4)
    place = int(regime(float(asked.inputs.model.experts), low, 1.0))
    data = data.assign(_columns(asked, records, size, found, shown, place, own_runs))
    alike = int(np.sum(times <= times.min() * np.exp(half_width_within_source(place))))
    whole = {
        "gpus": (size, "1", "Accelerators"),
        "capacity": (asked.capacity, "B", "High-bandwidth memory that a step may fill"),
        "plans_legal": (found.size, "1", "Legal plans on these accelerators"),
        "plans_feasible": (int(np.sum(need <= asked.capacity)), "1", "Legal plans that fit"),
        "plans_timed": (len(fitting), "1", "Plans that fit without offload, whose time is known"),
        "plans_alike": (alike, "1", "Plans as fast as the best, to within the spread of runs"),
    }
    if own is not None:
        whole |= _own(asked, ranking, size, own, records)
    made = {
        name: xr.Variable((), value, {"units": unit, "long_name": text})
        for name, (value, unit, text) in whole.items()
    }
    return data.assign(made).assign_attrs(
        where=json.dumps([str(rule) for rule in asked.constraints]),
        refused=json.dumps(found.refused),
        reasons=json.dumps({rule.name: rule.words for rule in rules(memory_recipe(asked.recipe))}),
        regime=REGIMES[place].words + ", own runs" * own_runs,
        software_year=float(records["software"].year),
    )


class NoPlanFits(InputError):
    """No legal plan fits on the accelerators that are asked for."""


def _records(chip: Chip, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return chip, shared constants and software with settings applied."""
    found: dict[str, Any] = {"chip": chip, **RECORDS}
    for name, record in found.items():
        own = {
            path.partition(".")[2]: value
            for path, value in changes.items()
            if path.partition(".")[0] == name
        }
        try:
            found[name] = checked(apply_settings(record, None, own)[0])
        except InputError as error:
            raise refusal(name, str(error)) from None
    return found


def _timed(
    asked: Question, size: int, plans: Mapping[str, np.ndarray], records: Mapping[str, Any]
) -> StepTime:
    """Return the step times of some plans."""
    inputs = dataclasses.replace(asked.inputs, gpus=np.float64(size), plan=None)
    inputs = with_named_absences(with_plans(inputs, plans))
    chip = with_named_absences(records["chip"], "chip.")
    return plan_time(inputs, asked.recipe, chip, records["shared"], records["software"])


def _times(
    asked: Question, found: Listed, positions: np.ndarray, records: Mapping[str, Any]
) -> np.ndarray:
    """Return the step time of plans at some positions."""
    inputs, recipe = asked.inputs, asked.recipe
    chip = with_named_absences(records["chip"], "chip.")
    pieces = []
    for start in range(0, len(positions), PIECE):
        plans = found.at(positions[start : start + PIECE])
        pieces.append(
            plan_times(inputs, recipe, chip, records["shared"], records["software"], plans)
        )
    return np.concatenate(pieces)


def _columns(
    asked: Question,
    records: Mapping[str, Any],
    size: int,
    found: Listed,
    shown: np.ndarray,
    place: int,
    own_runs: bool,
) -> dict[str, xr.Variable]:
    """Return step time, interval, parts and rates of the plans that are shown."""
    time = _timed(asked, size, found.at(shown), records)
    total: Any = np.asarray(time.step_time)
    bounds = (interval_within_source if own_runs else interval)(total, place)
    model, batch = asked.inputs.model, float(asked.inputs.global_batch)
    tokens = batch * float(model.sequence) / (total * size)
    flops = float(token_flops(model, asked.recipe)["flops_megatron_causal"])
    peak = float(asked.inputs.system.matrix_flops)

    def column(values: Any, unit: str, text: str) -> xr.Variable:
        wide = np.broadcast_to(np.asarray(values, np.float64), total.shape)
        return xr.Variable(("plan",), wide, {"units": unit, "long_name": text})

    return {
        "step_time": column(total, "s", "Time of one optimizer step"),
        "step_time_low": column(bounds.low, "s", "80 % of measured runs take longer or as long"),
        "step_time_high": column(bounds.high, "s", "80 % of measured runs take less or as long"),
        "tokens_per_second": column(tokens, "token/s", "Tokens a second and accelerator"),
        "mfu": column(
            flops * tokens / peak, "1", "MFU: Megatron-LM with halved attention, 16-bit peak"
        ),
        **{f"time_{n}": column(getattr(time, n), "s", text) for n, text in PARTS.items()},
        **{f"layer_{n}": column(getattr(time, n), "s", text) for n, text in OF_LAYER.items()},
    }


def _own(
    asked: Question,
    ranking: Ranking,
    size: int,
    own: str,
    records: Mapping[str, Any],
) -> dict[str, tuple[Any, str, str]]:
    """Return the fastest plan with the fields of the user's, and its place among all that fit."""
    found, need, fitting, times = ranking
    some = place_of(asked.inputs, asked.recipe, found, size, own)
    some = np.intersect1d(some, found.having(WITHOUT_OFFLOAD), assume_unique=True)
    if not len(some):
        raise refusal("mine", f"{own}: only with offload, whose time is not known")
    chosen, places, _ = np.intersect1d(fitting, some, assume_unique=True, return_indices=True)
    taken = times[places]
    if not len(chosen):
        chosen, taken = some, _times(asked, found, some, records)
    least = int(np.argmin(taken))
    place, seconds = chosen[least], float(taken[least])
    fields = {name: int(value[0]) for name, value in found.at(np.array([place])).items()}
    return {
        "own": (seconds, "s", "Step time of the fastest plan with the fields of yours"),
        "own_device": (float(need[place]), "B", "Its memory"),
        "own_place": (1 + int(np.sum(times < seconds)), "1", "Its place among plans that fit"),
        "own_plan": (json.dumps(fields), "1", "Its fields"),
    }
