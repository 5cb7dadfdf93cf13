"""One MLP step by pipeline stage: the work, idle time and memory of each."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from jaxroof.analyses.evaluate import resolve_settings
from jaxroof.engine.grid.dataset import attributes, provenance
from jaxroof.estimators.mlp_pipeline.legality import legal
from jaxroof.estimators.mlp_pipeline.memory import weights
from jaxroof.estimators.mlp_pipeline.step import memory_limit, pipeline, simulated
from jaxroof.missing import naming_all
from jaxroof.records import with_named_absences

MEANINGS = {
    "forward": ("s", "Time of a forward visit"),
    "backward": ("s", "Time of a backward visit"),
    "send": ("s", "Time of a message to the next stage"),
    "sync": ("s", "Sums over replicas that nothing hides"),
    "done": ("s", "When the stage has done its visits"),
    "busy_share": ("1", "Share of the step that the stage is busy"),
    "idle_share": ("1", "Share of the step that the stage idles"),
    "memory": ("B", "Most memory that one device of the stage holds at once"),
    "weights": ("B", "Memory of the stage's weights on one device"),
    "layers": ("1", "Layers of the stage"),
}


def stages(settings: Mapping[str, Any] | None = None, /, **more: Any) -> xr.Dataset:
    """Return work, idle time and memory of every stage; settings as in ``jr.evaluate("pipeline")``.

    Returns: a Dataset over ``stage``: seconds of its visits, shares of the step, bytes.
    Raises: InputError for settings that are missing, unknown (with the nearest name) or out of
    range, and for a plan that breaks a rule.

    >>> plan = {"plan.data": 1, "plan.tensor": 1, "plan.pipeline": 2, "plan.microbatches": 4}
    >>> found = stages(plan, model="mlp-xs", system="distir-a", profile="distir-a")
    >>> [round(float(share), 3) for share in found.idle_share]
    [0.181, 0.181]
    """
    inputs, recipe = resolve_settings(pipeline, {**(settings or {}), **more})
    return stages_of(inputs, recipe)


def stages_of(inputs: Any, recipe: Any) -> xr.Dataset:
    """Return work, idle time and memory of every stage, from checked inputs."""
    pipeline.refuse_contradictions(inputs)
    legal(with_named_absences(inputs), recipe.chosen())
    import jax  # the chain loops

    fitted = pipeline.sized_recipe(inputs, recipe)
    with naming_all(pipeline, inputs, fitted):
        columns, step_time = jax.jit(lambda asked: _columns(with_named_absences(asked), fitted))(
            inputs
        )
    count = int(inputs.plan.pipeline)
    found: dict[str, Any] = {
        name: ("stage", np.asarray(values)[:count], _about(name))
        for name, values in columns.items()
    }
    attrs = provenance(pipeline, inputs, recipe)
    step_time = xr.Variable(
        (), float(step_time), attributes({"unit": "s", "doc": "Time of one step"})
    )
    limit = float(memory_limit(with_named_absences(inputs)))
    found["memory_limit"] = xr.Variable(
        (), limit, attributes({"unit": "B", "doc": "Memory that a step may fill"})
    )
    found["memory_fits"] = xr.Variable(
        "stage",
        found["memory"][1] <= limit,
        attributes({"unit": "1", "doc": "Memory is at most the usable capacity"}),
    )
    return xr.Dataset({**found, "step_time": step_time}, {"stage": np.arange(count)}, attrs)


def _columns(inputs: Any, recipe: Any) -> tuple[dict[str, Any], Any]:
    """Return the columns of every stage, and the time of the step."""
    run = simulated(inputs, recipe)
    costs, held = run.costs, run.held
    columns = {
        "forward": costs.forward,
        "backward": costs.backward,
        "send": costs.send,
        "sync": costs.exposed,
        "done": run.done,
        "busy_share": run.busy,
        "idle_share": 1.0 - run.busy,
        "memory": run.memory,
        "weights": weights(run.inputs, held),
        "layers": held.high - held.low,
    }
    return columns, run.step_time


def _about(name: str) -> dict[str, Any]:
    unit, doc = MEANINGS[name]
    return attributes({"unit": unit, "doc": doc})
