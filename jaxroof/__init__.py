"""jaxroof: analytical performance modelling of transformer training, on arrays.

Names load on first use, so that importing the package does not import JAX.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "InputError": "jaxroof.errors",
    "record": "jaxroof.records",
    "quantity": "jaxroof.records",
    "replace_at": "jaxroof.records",
    "System": "jaxroof.hardware",
    "Candidates": "jaxroof.estimator",
    "Estimator": "jaxroof.estimator",
    "evaluate": "jaxroof.answers",
    "explain": "jaxroof.explained",
    "evaluate_rows": "jaxroof.rows.answer",
    "Inputs": "jaxroof.estimators.training.inputs",
    "Model": "jaxroof.estimators.training.inputs",
    "Plan": "jaxroof.estimators.training.inputs",
    "Precision": "jaxroof.estimators.training.inputs",
    "Recipe": "jaxroof.estimators.training.recipe",
    "Split": "jaxroof.estimators.training.recipe",
    "Attention": "jaxroof.estimators.training.recipe",
    "training": "jaxroof.estimators.training.step",
    "layers": "jaxroof.views.layers",
    "unfused_layers": "jaxroof.views.unfused",
    "mlp": "jaxroof.named",
    "model": "jaxroof.named",
    "system": "jaxroof.named",
    "linspace": "jaxroof.engine.axes",
    "geomspace": "jaxroof.engine.axes",
    "between": "jaxroof.engine.axes",
    "design": "jaxroof.engine.design",
    "elasticities": "jaxroof.engine.sensitivity",
    "capacity_steps": "jaxroof.engine.response",
    "response": "jaxroof.engine.response",
    "pareto": "jaxroof.engine.pareto",
    "plans": "jaxroof.engine.every_plan",
    "search": "jaxroof.engine.search",
    "survey": "jaxroof.engine.search",
    "tabulate": "jaxroof.engine.tabulate",
    "uncertain": "jaxroof.engine.uncertain",
    "read": "jaxroof.engine.store",
    "write": "jaxroof.engine.store",
    "roofline": "jaxroof.shell.cases",
    "schedule": "jaxroof.scheduled",
    "sensitivities": "jaxroof.scaling_limits",
    "stages": "jaxroof.stage_by_stage",
    "trace": "jaxroof.traces",
    "run": "jaxroof.files",
    "run_design": "jaxroof.designs",
}
_ROOMS = {"plot": "jaxroof.views.plots"}  # modules under a name of their own
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(_ROOMS[name])
    if name not in _HOMES:
        raise _no_attribute(name)
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def _no_attribute(name: str) -> AttributeError:
    """Return the error for a name that is not public, with the nearest one that is."""
    from jaxroof.errors import nearest

    near = nearest(name, __dir__())
    meant = f". Did you mean {near!r}?" if near else ""
    # named, so that Python does not add a suggestion of its own to the traceback
    return AttributeError(f"module 'jaxroof' has no attribute {name!r}{meant}", name=name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
