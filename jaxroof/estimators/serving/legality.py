"""The rules and the limits of servers, one verdict each.

Source: docs/models/serving.md, section 8.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxroof.estimator import Limit
from jaxroof.estimators.legality import Rule, verdicts
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Absent, Number, value_or

NEEDS = {"fp8": ("fp8", "mxfp4-8"), "fp4": ("fp4",)}  # rate of the chip: formats that run at it
BELOW_ONE = float(np.nextafter(1.0, 0.0))


def is_given(value: Any) -> bool:
    """Return whether a number is there, whatever it is."""
    return value is not None and type(value) is not Absent


def _gpus_used(inputs: Any, *, tensor: Any, data: Any, pipeline: Any) -> Any:
    gpus, size = value_or(inputs.gpus, None), tensor * data * pipeline
    return True if gpus is None else (size <= gpus) & (gpus % size == 0)


def _gpus_enough(inputs: Any, *, tensor: Any, data: Any, pipeline: Any) -> Any:
    return tensor * data * pipeline <= value_or(inputs.gpus, np.inf)


def _kv_heads(inputs: Any, *, tensor: Any) -> Any:
    heads = inputs.model.kv_heads
    return (heads % tensor == 0) | (tensor % heads == 0) | (inputs.model.kv_rank > 0)


def _columns(inputs: Any, *, tensor: Any) -> Any:
    model = inputs.model
    return (model.feedforward % tensor == 0) & (model.shared_feedforward % tensor == 0)


def _experts(inputs: Any, *, tensor: Any, data: Any, whole: Any) -> Any:
    model, ranks = inputs.model, tensor * data
    shared = ((whole > 0) & (model.experts % ranks == 0)) | (
        (whole == 0) & (model.expert_feedforward % ranks == 0)
    )
    return shared | (model.experts == 0)


def _attention_data(inputs: Any, *, tensor: Any, data: Any, whole: Any) -> Any:
    routes = inputs.model.experts > 0
    return ((data == 1) | routes) & ((whole == 0) | (routes & (tensor * data > 1)))


def _slow_known(inputs: Any, *, tensor: Any, data: Any, pipeline: Any) -> Any:
    inside = tensor * data * pipeline <= inputs.system.fast_domain
    return inside | is_given(inputs.system.slow_bandwidth)


NO_SLOW = "no bandwidth between fast domains is known (system.slow_bandwidth)"
NO_RATE = "the chip's rate in that format is not known"
_SLOW = Rule(
    "slow_bandwidth_known",
    _slow_known,
    f"replicas beyond one fast domain: {NO_SLOW}",
    "A replica is in one fast domain, or the bandwidth between domains is known.",
    "a fast domain is of {fast_domain:.0f}",
)
_THERE = "there are {gpus:,.0f} accelerators"
_EVENLY = Rule(
    "gpus_used",
    _gpus_used,
    "replicas that do not fill the accelerators evenly",
    "Whole replicas fill the accelerators.",
    _THERE,
)
_PART = Rule(  # of a pool, beside which there is another
    "gpus_used",
    _gpus_enough,
    "replicas of more accelerators than there are",
    "There are accelerators for a replica.",
    _THERE,
)
_ANY: tuple[Rule, ...] = (
    Rule(
        "heads_divisible",
        lambda inputs, *, tensor: inputs.model.heads % tensor == 0,
        "tensor degrees that cut a head",
        "Tensor degree divides the heads.",
        "the model has {heads:.0f} heads",
    ),
    Rule(
        "kv_heads_divisible",
        _kv_heads,
        "tensor degrees that neither divide the key/value heads nor are a multiple of them",
        "Cache heads are shared out or copied.",
        "the model has {kv_heads:.0f} heads of keys and values",
    ),
    Rule(
        "feedforward_divisible",
        _columns,
        "tensor degrees that do not divide the width of MLPs",
        "Tensor degree divides the width of MLPs.",
        "MLPs are {feedforward:.0f} and {shared_feedforward:.0f} wide",
    ),
    Rule(
        "attention_data_needs_experts",
        _attention_data,
        "data-parallel attention or whole experts of a dense model, which takes more replicas",
        "Data-parallel attention and whole experts are of a model with experts.",
    ),
    Rule(
        "experts_divisible",
        _experts,
        "ranks that neither share the experts out whole nor cut them evenly",
        "Experts are shared out whole, or cut evenly.",
        "the model has {experts:.0f} experts, {expert_feedforward:.0f} wide",
    ),
    Rule(
        "stages_enough",
        lambda inputs, *, pipeline: pipeline <= inputs.model.layers,
        "more stages than layers",
        "There are no more stages than layers.",
        "the model has {layers:.0f} layers",
    ),
)
_BATCH = Rule(
    "batch_enough",
    lambda inputs, *, data, pipeline, batch: batch >= data * pipeline,
    "ranks or stages without a sequence",
    "Every rank and stage has a sequence.",
)
RULES: tuple[Rule, ...] = (_EVENLY, *_ANY, _SLOW, _BATCH)  # of an aggregated server
DECODE_RULES: tuple[Rule, ...] = (_PART, *RULES[1:])
PREFILL_RULES: tuple[Rule, ...] = (_PART, *_ANY)


# ---- Limits -------------------------------------------------------------------------------------


def memory_limit(inputs: Any) -> Number:
    """Return the bytes that an engine takes of an accelerator."""
    system = inputs.system
    return inputs.software.usable * value_or(system.hbm_reported, system.hbm_capacity)


def _chunks_limit(inputs: Any) -> Number:
    """Return the most chunks a decode step: one, where prompts ride in decode steps."""
    return where(inputs.software.mixed > 0.0, 1.0, np.inf)


def _gpus(inputs: Any) -> Number:
    return value_or(inputs.gpus, np.inf)


MEMORY = Limit("memory", memory_limit)
TTFT = Limit("ttft", "limits.ttft")
TPOT = Limit("tpot", "limits.tpot")
BUSY = Limit("busy", lambda inputs: BELOW_ONE, relax=False)
CHUNKS = Limit("chunks", _chunks_limit, relax=False)
LOAD = Limit("load_gpus", _gpus)
LIMITS: tuple[Limit, ...] = (MEMORY, TTFT, TPOT, BUSY, CHUNKS, LOAD)  # of an aggregated server
PREFILL_LIMITS: tuple[Limit, ...] = (MEMORY, TTFT, LOAD)
DECODE_LIMITS: tuple[Limit, ...] = (MEMORY, TPOT, LOAD)
VERDICTS = {  # of the results that have limits: name, sentence
    "memory": ("memory_fits", "It fits in the memory."),
    "ttft": ("ttft_met", "The first token comes in time."),
    "tpot": ("tpot_met", "Every further token comes in time."),
    "busy": ("queue_stable", "There is time left without prompts."),
    "chunks": ("prompts_keep_up", "Chunks take prompts as fast as they arrive."),
    "load_gpus": ("load_met", "The accelerators carry the load."),
}


def sentences(limits: Iterable[Limit]) -> dict[str, str]:
    """Return the verdicts of limits with their sentences."""
    return dict(VERDICTS[limit.result] for limit in limits)


def judged(
    rules: Iterable[Rule], limits: Iterable[Limit], inputs: Any, found: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the verdict of every rule and limit on the results of a plan, and all together."""
    met = {VERDICTS[one.result][0]: found[one.result] <= one.of(inputs) for one in limits}
    return verdicts((), rules, inputs, **met)
