"""Estimators: each maps one record of inputs to one record of results.

A new estimator needs one line here, and its question in ``questions.py``. The command line, row
files and sweep files then accept its name, and the tests of the laws include it.
"""

import importlib
from typing import TYPE_CHECKING, Any

from jaxroof.errors import InputError, unknown
from jaxroof.estimators.questions import QUESTIONS

if TYPE_CHECKING:
    from jaxroof.estimator import Estimator

STEP, TORUS = "training", "tpu_training"  # a training step of today, and the same under MaxText

MODULES = {  # home: the estimators that it holds
    "published.step": "published",
    "training.step": "training stage_memory",
    "tpu_training.step": "tpu_training",
    "serving.serving": "serving serving_prefill serving_decode",
    "whole_run.run": "whole_run",
    "training.model_size": "model_size model_flops mfu",
    "published.unfused": "unfused",
    "mlp_pipeline.step": "pipeline",
    "book.products": "kernel dot elementwise matmul batched_matmul",
    "book.sharding": "sharded_matmul array contraction",
    "book.attention": "attention attention_share",
    "book.torus": "torus",
    "book.tree": "tree",
    "book.hardware": "fabric systolic chain chip cluster",
    "book.transformer": "transformer kv_cache training_run training_memory",
    "book.training": "training_bounds pipeline_hop pods",
    "book.serving": "serving_roofline weight_sharding",
    "scaling_limits.batches": "linear_layer whole_batch growth",
    "scaling_limits.limits": "limits thresholds",
    "scaling_limits.older_models": "moe_step closed_form",
}
_OF = {name: home for home, names in MODULES.items() for name in names.split()}
HOMES = {name: f"jaxroof.estimators.{_OF[name]}" for name in QUESTIONS}


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


def is_step(found: "Estimator") -> bool:
    """Return whether an estimator is a training step of today, on any system."""
    return found.name in (STEP, TORUS)


def on_system(found: "Estimator", system: Any) -> "Estimator":
    """Return the estimator of a training step on a system: MaxText's on a torus of TPUs.

    ``system`` is a name, a file or a record; None, or what is none of them, changes nothing.

    >>> on_system(estimator("training"), "tpu-v5p").name
    'tpu_training'
    """
    from jaxroof.catalog.lookup import is_torus  # not above: a list of names needs no records

    if found.name != STEP or system is None:
        return found
    try:
        return estimator(TORUS) if is_torus(system) else found
    except (InputError, TypeError):  # said where the system is read
        return found
