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
    "System": "jaxroof.catalog.system",
    "Candidates": "jaxroof.estimator",
    "Estimator": "jaxroof.estimator",
    "evaluate": "jaxroof.analyses.evaluate",
    "explain": "jaxroof.analyses.explain",
    "evaluate_rows": "jaxroof.analyses.rows.evaluate",
    "Inputs": "jaxroof.estimators.published.inputs",
    "Model": "jaxroof.catalog.models",
    "Plan": "jaxroof.estimators.published.inputs",
    "Precision": "jaxroof.estimators.published.inputs",
    "Recipe": "jaxroof.estimators.published.recipe",
    "Split": "jaxroof.estimators.published.recipe",
    "Attention": "jaxroof.estimators.published.recipe",
    "training": "jaxroof.estimators.published.step",
    "layers": "jaxroof.analyses.layers",
    "unfused_layers": "jaxroof.analyses.unfused_layers",
    "mlp": "jaxroof.catalog.lookup",
    "model": "jaxroof.catalog.lookup",
    "system": "jaxroof.catalog.lookup",
    "linspace": "jaxroof.engine.grid.axes",
    "geomspace": "jaxroof.engine.grid.axes",
    "between": "jaxroof.engine.grid.axes",
    "design": "jaxroof.engine.codesign.design",
    "elasticities": "jaxroof.engine.sensitivity.elasticities",
    "capacity_steps": "jaxroof.engine.sensitivity.response",
    "response": "jaxroof.engine.sensitivity.response",
    "pareto": "jaxroof.engine.search.pareto",
    "plans": "jaxroof.engine.search.all_plans",
    "search": "jaxroof.engine.search.search",
    "survey": "jaxroof.engine.search.search",
    "tabulate": "jaxroof.engine.grid.tabulate",
    "uncertain": "jaxroof.engine.uncertainty.uncertain",
    "read": "jaxroof.io.formats",
    "write": "jaxroof.io.formats",
    "roofline": "jaxroof.analyses.roofline",
    "schedule": "jaxroof.analyses.schedule",
    "sensitivities": "jaxroof.analyses.scaling_sensitivities",
    "stages": "jaxroof.analyses.stages",
    "trace": "jaxroof.analyses.trace",
    "run": "jaxroof.config.run_sweep",
    "run_design": "jaxroof.config.design_file",
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
