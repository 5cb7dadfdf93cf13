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
    "stage_memory": "jaxroof.estimators.training.step",
    "model_size": "jaxroof.estimators.training.model_size",
    "model_flops": "jaxroof.estimators.training.model_size",
    "mfu": "jaxroof.estimators.training.model_size",
    "unfused": "jaxroof.estimators.published.unfused",
    "pipeline": "jaxroof.estimators.mlp_pipeline.step",
    "kernel": "jaxroof.estimators.book.products",
    "dot": "jaxroof.estimators.book.products",
    "elementwise": "jaxroof.estimators.book.products",
    "matmul": "jaxroof.estimators.book.products",
    "batched_matmul": "jaxroof.estimators.book.products",
    "sharded_matmul": "jaxroof.estimators.book.sharding",
    "attention": "jaxroof.estimators.book.attention",
    "attention_share": "jaxroof.estimators.book.attention",
    "array": "jaxroof.estimators.book.sharding",
    "contraction": "jaxroof.estimators.book.sharding",
    "torus": "jaxroof.estimators.book.torus",
    "tree": "jaxroof.estimators.book.tree",
    "fabric": "jaxroof.estimators.book.hardware",
    "systolic": "jaxroof.estimators.book.hardware",
    "chain": "jaxroof.estimators.book.hardware",
    "transformer": "jaxroof.estimators.book.transformer",
    "kv_cache": "jaxroof.estimators.book.transformer",
    "training_run": "jaxroof.estimators.book.transformer",
    "training_memory": "jaxroof.estimators.book.transformer",
    "training_bounds": "jaxroof.estimators.book.training",
    "pipeline_hop": "jaxroof.estimators.book.training",
    "pods": "jaxroof.estimators.book.training",
    "serving": "jaxroof.estimators.book.serving",
    "weight_sharding": "jaxroof.estimators.book.serving",
    "chip": "jaxroof.estimators.book.hardware",
    "cluster": "jaxroof.estimators.book.hardware",
    "linear_layer": "jaxroof.estimators.scaling_limits.batches",
    "whole_batch": "jaxroof.estimators.scaling_limits.batches",
    "limits": "jaxroof.estimators.scaling_limits.limits",
    "thresholds": "jaxroof.estimators.scaling_limits.limits",
    "growth": "jaxroof.estimators.scaling_limits.batches",
    "moe_step": "jaxroof.estimators.scaling_limits.older_models",
    "closed_form": "jaxroof.estimators.scaling_limits.older_models",
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
