"""Operations and events of the simulated program.

Source: docs/models/distir_model.md, section 7.
"""

from typing import Any

import jax.numpy as jnp

from jaxroof.estimators.mlp_pipeline.inputs import Inputs
from jaxroof.estimators.mlp_pipeline.recipe import Choices, Gradients, Optimizer


def counts(inputs: Inputs, choices: Choices) -> tuple[Any, Any]:
    """Return the operations, and the events: an operation has one on every device it keeps."""
    plan, layers = inputs.plan, inputs.model.layers
    assert plan is not None
    data, tensor, stages, many = plan.data, plan.tensor, plan.pipeline, plan.microbatches
    ranks = data * tensor
    visits = ranks * many * (4.0 * layers + 2.0)
    joins = jnp.where(many > 1.0, ranks * many * (layers + 2.0), 0.0)
    alone = visits + joins + ranks * UPDATES[choices.optimizer](stages, layers)
    links = ranks * many * (stages - 1.0)
    sums = jnp.where(tensor > 1.0, data * many * layers, 0.0)
    groups = GROUPS[choices.gradients](data, tensor)
    several = data > 1.0
    operations = alone + 2.0 * links + sums + jnp.where(several, layers * groups, 0.0)
    events = alone + 4.0 * links + sums * tensor + jnp.where(several, ranks * layers, 0.0)
    return operations, events


def _within(data: Any, tensor: Any) -> Any:
    return jnp.where(tensor > 1.0, data, 1.0)


def _across(data: Any, tensor: Any) -> Any:
    return tensor


GROUPS = {Gradients.TENSOR: _within, Gradients.REPLICAS: _across}
UPDATES: dict[Optimizer, Any] = {
    Optimizer.NONE: lambda stages, layers: 0.0,
    Optimizer.HIGHEST: lambda stages, layers: stages,
    Optimizer.ALL: lambda stages, layers: layers,
}
