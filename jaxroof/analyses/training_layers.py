"""One layer of a training step of today, operation by operation."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.training_question import training_step
from jaxroof.engine.grid.dataset import Columns, dataset, field_metadata, provenance
from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer_operations import (
    Operation,
    OperationReport,
    layer_operations,
)
from jaxroof.estimators.training.plan_time import timed
from jaxroof.estimators.training.step import training
from jaxroof.estimators.training.training_recipe import TrainingRecipe
from jaxroof.missing import naming_all
from jaxroof.records import with_named_absences

PRODUCT, KERNEL, MESSAGE = "matrix product", "kernel", "message"
AGAIN, WAIT = "computed again", "wait"  # and what else an operation may be
LEAST = 1e-12  # share of the layer's time below which an operation takes none
OPERATIONS = {  # of a layer: words, kind
    "qkv": ("qkv", PRODUCT),
    "query_down": ("latent of queries", PRODUCT),
    "query_up": ("queries of their latent", PRODUCT),
    "query": ("queries", PRODUCT),
    "key_value_down": ("latent of keys and values", PRODUCT),
    "key_value_up": ("keys and values of it", PRODUCT),
    "attention": ("attention", KERNEL),
    "output": ("attention output", PRODUCT),
    "up": ("MLP up", PRODUCT),
    "down": ("MLP down", PRODUCT),
    "shared_up": ("shared experts up", PRODUCT),
    "shared_down": ("shared experts down", PRODUCT),
    "router": ("router", PRODUCT),
    "router_scores": ("router scores", KERNEL),
    "permutation": ("permutation of tokens", KERNEL),
    "routed_up": ("routed experts up", PRODUCT),
    "routed_activation": ("activation of experts", KERNEL),
    "routed_down": ("routed experts down", PRODUCT),
    "routed_cast": ("casts of experts", KERNEL),
    "elementwise": ("element-wise kernels", KERNEL),
    "cast": ("casts", KERNEL),
    "tensor": ("tensor messages", MESSAGE),
    "context": ("context messages", MESSAGE),
    "exchange": ("expert messages", MESSAGE),
    "recompute": ("recomputation", AGAIN),
    "launch_limit": ("launch limit", WAIT),
    "fsdp": ("FSDP messages", MESSAGE),
}


def training_layers(
    inputs: TrainingInputs | Mapping[str, Any],
    recipe: TrainingRecipe | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    **more: Any,
) -> xr.Dataset:
    """Return one row per operation of an average layer and one microbatch, under one plan.

    Arguments: ``inputs`` is a record with a plan, or settings that make one, as in ``evaluate``.
    Messages are what nothing hides of them; ``launch limit`` is what waiting for the host adds.
    Returns: a Dataset over ``operation`` of seconds and FLOP in both directions, the share of the
    layer's time and the rate over the 16-bit peak; ``kind`` says what an operation is. The seconds
    sum to the layer's. Operations that take no time are left out.
    Raises: InputError for settings that are unknown or out of range, and for a plan that is not
    given or not legal.

    >>> plan = {"plan.data": 8, "plan.tensor": 8}
    >>> data = training_layers(
    ...     {"model": "llama3-70b", "system": "h100-nvs8", "global_batch": 64, **plan}
    ... )
    >>> data.operation.values[:3].tolist(), round(float(data.share.sum()), 12)
    (['qkv', 'attention', 'attention output'], 1.0)
    """
    asked = training_step(inputs, recipe, {**(settings or {}), **more})
    given, choices = asked
    with naming_all(training, given, choices):
        full = with_named_absences(given)
        found = layer_operations(full.model.sequence, timed(full, choices))
    least = LEAST * sum(map(_seconds, found.values()))
    names = [name for name in OPERATIONS if _seconds(found[name]) > least]
    columns = _columns([found[name] for name in names], float(given.system.matrix_flops))
    attrs = provenance(training, given, choices, picture="layer_bars")
    data = dataset(columns, (), given, field_metadata(OperationReport), attrs)
    words, kinds = zip(*(OPERATIONS[name] for name in names), strict=True)
    return data.assign_coords(
        operation=("operation", list(words), {"long_name": "Operation of a layer"}),
        kind=("operation", list(kinds), {"long_name": "What an operation is"}),
    )


def _seconds(operation: Operation) -> float:
    return float(operation.time.forward) + float(operation.time.backward)


def _columns(rows: list[Operation], peak: float) -> Columns:
    """Return the columns of some operations; the layer's time is their sum."""

    def column(values: list[Any]) -> np.ndarray:
        return np.array([float(value) for value in values])

    every = {
        "time_forward": column([row.time.forward for row in rows]),
        "time_backward": column([row.time.backward for row in rows]),
        "flops_forward": column([row.flops.forward for row in rows]),
        "flops_backward": column([row.flops.backward for row in rows]),
    }
    time = every["time_forward"] + every["time_backward"]
    flops = every["flops_forward"] + every["flops_backward"]
    every["share"] = time / time.sum()
    every["peak_share"] = np.where(flops > 0.0, flops / (time * peak), np.nan)
    return {name: (("operation",), values) for name, values in every.items()}
