"""Estimators: each maps one record of inputs to one record of results.

A new estimator needs one line here, and its question in ``questions.py``. The command line, row
files and sweep files then accept its name, and the tests of the laws include it.
"""

import importlib
from typing import TYPE_CHECKING

from jaxroof.errors import unknown

if TYPE_CHECKING:
    from jaxroof.estimator import Estimator

HOMES = {
    "published": "jaxroof.estimators.published.step",
    "training": "jaxroof.estimators.training.step",
    "stage_memory": "jaxroof.estimators.training.memory_step",
    "model_size": "jaxroof.estimators.training.model_size",
    "model_flops": "jaxroof.estimators.training.model_flops",
    "mfu": "jaxroof.estimators.training.mfu",
    "unfused": "jaxroof.estimators.unfused.step",
    "pipeline": "jaxroof.estimators.mlp_pipeline.step",
    "kernel": "jaxroof.estimators.operators.kernel",
    "dot": "jaxroof.estimators.operators.dot",
    "elementwise": "jaxroof.estimators.operators.dot",
    "matmul": "jaxroof.estimators.operators.matmul",
    "batched_matmul": "jaxroof.estimators.operators.matmul",
    "sharded_matmul": "jaxroof.estimators.operators.sharded",
    "attention": "jaxroof.estimators.operators.attention",
    "attention_share": "jaxroof.estimators.operators.attention",
    "array": "jaxroof.estimators.operators.sharded_arrays",
    "contraction": "jaxroof.estimators.operators.sharded_arrays",
    "torus": "jaxroof.estimators.operators.torus",
    "tree": "jaxroof.estimators.operators.tree",
    "fabric": "jaxroof.estimators.operators.hardware_parts",
    "systolic": "jaxroof.estimators.operators.hardware_parts",
    "chain": "jaxroof.estimators.operators.hardware_parts",
    "transformer": "jaxroof.estimators.operators.transformer",
    "kv_cache": "jaxroof.estimators.operators.transformer",
    "training_run": "jaxroof.estimators.operators.training_run",
    "training_memory": "jaxroof.estimators.operators.training_run",
    "training_bounds": "jaxroof.estimators.operators.training_bounds",
    "pipeline_hop": "jaxroof.estimators.operators.pods",
    "pods": "jaxroof.estimators.operators.pods",
    "serving": "jaxroof.estimators.operators.serving",
    "weight_sharding": "jaxroof.estimators.operators.weight_sharding",
    "chip": "jaxroof.estimators.operators.chips",
    "cluster": "jaxroof.estimators.operators.chips",
    "linear_layer": "jaxroof.estimators.scaling_limits.linear_layer",
    "whole_batch": "jaxroof.estimators.scaling_limits.whole_batch",
    "limits": "jaxroof.estimators.scaling_limits.limits",
    "thresholds": "jaxroof.estimators.scaling_limits.thresholds",
    "growth": "jaxroof.estimators.scaling_limits.greedy_growth",
    "moe_step": "jaxroof.estimators.scaling_limits.moe_step",
    "closed_form": "jaxroof.estimators.scaling_limits.closed_form",
}


def names() -> tuple[str, ...]:
    """Return the names of all estimators.

    >>> "published" in names()
    True
    """
    return tuple(HOMES)


def estimator(name: str) -> "Estimator":
    """Return an estimator by its name.

    Raises: InputError that suggests the nearest name.

    >>> estimator("published").objective
    'step_time'
    """
    from jaxroof.estimator import Estimator  # not above: a list of names needs no arrays

    if name not in HOMES:
        raise unknown("", name, "estimator", HOMES)
    found = getattr(importlib.import_module(HOMES[name]), name)
    assert isinstance(found, Estimator)
    return found
