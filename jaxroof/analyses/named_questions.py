"""Questions about an estimator that may be given by name, with its inputs by settings.

``jr.search("training", model="llama3-70b", system="h100-nvs8", gpus=256, global_batch=1024)`` asks
what ``jr.search(jr.training, inputs)`` asks of a record of inputs.
"""

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import xarray as xr

from jaxroof import estimators
from jaxroof.engine.grid.axes import AxisValues
from jaxroof.engine.grid.tabulate import tabulate as table
from jaxroof.errors import refusal
from jaxroof.estimator import Estimator
from jaxroof.estimators import STEP, on_system
from jaxroof.estimators import estimator as named

Result = TypeVar("Result")
HOMES = {  # the questions of the engine, imported when they are asked
    "search": "jaxroof.engine.search.search",
    "pareto": "jaxroof.engine.search.pareto",
    "survey": "jaxroof.engine.search.all_plans",
    "plans": "jaxroof.engine.search.all_plans",
    "tabulate": "jaxroof.engine.grid.tabulate",
    "elasticities": "jaxroof.engine.sensitivity.elasticities",
    "response": "jaxroof.engine.sensitivity.response",
    "capacity_steps": "jaxroof.engine.sensitivity.response",
    "slopes_at_limit": "jaxroof.engine.sensitivity.binding",
    "uncertain": "jaxroof.engine.uncertainty.uncertain",
    "design": "jaxroof.engine.codesign.design",
}


def by_name(question: Callable[..., Result]) -> Callable[..., Result]:
    """Return a question of an estimator and inputs that also takes a name and settings.

    Without inputs, they are built from ``settings`` and keywords, as in ``evaluate``.
    """

    @functools.wraps(question)
    def asked(estimator: Any, *records: Any, **more: Any) -> Result:
        settings = {**(more.get("settings") or {}), **more}
        found = named(estimator) if isinstance(estimator, str) else estimator
        if isinstance(found, Estimator) and not records:
            found = on_system(found, settings.get("system"))
        built = isinstance(found, Estimator) and not records and "inputs" not in more
        return question(found, *((None,) if built else records), **more)

    return asked


def evaluate(
    estimator: Estimator | str,
    settings: Mapping[str, Any] | None = None,
    *,
    axes: AxisValues | None = None,
    **more: Any,
) -> xr.Dataset:
    """Evaluate an estimator at settings: dotted paths of its inputs, or choices of its recipe.

    Arguments: ``estimator`` itself or its name; ``settings`` and ``more`` are values, texts with
    units, or names from the catalogue; ``axes`` as in ``tabulate``.
    """
    given = {**(settings or {}), **more}
    asked = named(estimator) if isinstance(estimator, str) else estimator
    return table(on_system(asked, given.get("system")), None, axes=axes, settings=given)


def estimator_for(inputs: Any) -> Estimator:
    """Return the estimator that a record of inputs is of; of settings, that of a training step.

    The record of an estimator stands beside it.

    >>> estimator_for({"model": "llama3-8b"}).name
    'training'
    """
    if isinstance(inputs, Mapping):
        return on_system(named(STEP), inputs.get("system"))
    room, *_ = type(inputs).__module__.rpartition(".")
    for name in (name for name, home in estimators.HOMES.items() if home.startswith(f"{room}.")):
        if (one := named(name)).inputs is type(inputs):
            return one
    given = type(inputs).__name__
    raise refusal("inputs", f"a {given}; expected inputs of an estimator, or estimator=... beside")


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = by_name(getattr(importlib.import_module(HOMES[name]), name))
    globals()[name] = found
    return found
