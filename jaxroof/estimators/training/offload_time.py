"""Seconds that optimizer states in host memory add to a step.

Source: as assumed; no measured run offloads. Ren et al. 2021 (arXiv 2101.06840), section 4: what
moves is one copy of gradients and weights, and the host updates.
"""

from jaxroof.estimators.training.inputs import TrainingInputs
from jaxroof.estimators.training.layer.sums import mean_weights
from jaxroof.estimators.training.planned import planned
from jaxroof.estimators.training.recipe import TrainingRecipe
from jaxroof.estimators.training.stage_time import stage_layers
from jaxroof.estimators.training.step_time import UPDATE_BYTES
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number, value_or

HOST_BANDWIDTH = 64e9  # [B/s] of a PCIe 5 x16 link, one direction, where a system has no other


def offload_time(inputs: TrainingInputs, recipe: TrainingRecipe) -> Number:
    """Return the seconds by which a step is longer whose optimizer states lie in host memory.

    t = o n ((g + w) / B + 42 / H), n parameters that a rank of the mean stage updates

    Assumes: nothing hides the link (B) or the host's update (H of host memory, an accelerator);
    the update on the accelerator stays counted, so that this is not too low; activations that are
    offloaded are hidden.
    Units: -> [s].
    """
    step = planned(inputs, recipe)
    model, plan, states = step.model, step.plan, step.states
    layers, _, _ = stage_layers(model, plan)
    each = layers / plan.pipeline
    dense, routed = mean_weights(model, plan)
    dense = (each * dense + model.vocabulary * model.hidden) / plan.tensor
    group = plan.data * plan.context
    experts = larger(group * plan.tensor / (plan.expert * plan.expert_tensor), 1.0)
    sharded = plan.zero_stage > 0.5
    own = dense / where(sharded, group, 1.0) + each * routed / where(sharded, experts, 1.0)
    moved = (states.weight_bytes + states.gradient_bytes) / value_or(
        inputs.system.pcie_bandwidth, HOST_BANDWIDTH
    )
    return plan.offload_optimizer * own * (moved + UPDATE_BYTES / inputs.shared.host_memory)
