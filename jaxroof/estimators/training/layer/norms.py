"""Norms and residuals of a layer.

Source: docs/models/parameters_flops_memory.md, section 4.5; docs/models/training_step_today.md,
section 4.
"""

from jaxroof.estimators.training.kernels import stream
from jaxroof.estimators.training.layer.operation import (
    Kept,
    Operation,
    Operations,
    Passes,
    Saved,
    Weights,
    Work,
)
from jaxroof.estimators.training.planned import TrainingModel
from jaxroof.estimators.training.recipe import Module
from jaxroof.records import Number


def norms(model: TrainingModel) -> Operations:
    """Return the normalisations of the residual stream in a layer."""
    gains = model.norms_per_layer * model.hidden * model.norm_vectors
    return {
        "norms": Operation(
            "norms",
            vectors=Weights(replicated=gains),
            time="elementwise",
            kernel=_norms,
            again=(Module.LAYERNORM,),
            saved=(
                Saved("norm_inputs", lambda kept: _both_norms(kept, _activation_bytes(kept))),
                Saved(
                    "norm_outputs",
                    lambda kept: _both_norms(kept, kept.inputs.activations.linear_input_bytes),
                    dropped=(Module.LAYERNORM,),
                    read=True,
                ),
            ),
        ),
    }


def residuals(model: TrainingModel) -> Operations:
    """Return the sums of a layer with the residual stream, and dropout before them."""
    return {
        "residuals": Operation(
            time="elementwise",
            kernel=_residuals,
            launched=0.0,
            saved=(Saved("dropout_masks", _dropout_masks),),
        ),
    }


def _norms(work: Work) -> Passes:
    """Return the seconds of both norms: N' h (8 forward, 20 backward) bytes."""
    hidden, unit = work.tokens.norm * work.model.hidden, work.rates.plain
    return Passes(stream(8.0 * hidden, 2.0, unit), stream(20.0 * hidden, 4.0, unit))


def _residuals(work: Work) -> Passes:
    """Return the seconds of both sums, of eager kernels and of gradients of output biases.

    N' h (2 (6 + drop) + x eager) forward, 2 (6 + 5 drop) + x eager backward, bias 6 N h / t
    """
    tokens, software, unit = work.tokens, work.software, work.rates.plain
    hidden, eager = tokens.norm * work.model.hidden, 1.0 - software.fused
    more, kernels = eager * work.rates.constants.eager, 2.0 + 6.0 * eager
    biased = 6.0 * tokens.group * work.model.hidden / work.plan.tensor
    return Passes(
        stream(hidden * (2.0 * (6.0 + software.dropout) + more), kernels, unit),
        stream(hidden * (2.0 * (6.0 + 5.0 * software.dropout) + more), kernels, unit)
        + software.bias * stream(biased, 4.0, unit),
    )


def _activation_bytes(kept: Kept) -> Number:
    return kept.inputs.activations.activation_bytes


def _both_norms(kept: Kept, width: Number) -> Number:
    """Return 2 w T h / sigma, outputs kept sharded and gathered again in the backward pass."""
    size = kept.size
    return 2.0 * width * size.tokens * kept.inputs.model.hidden / size.shards


def _dropout_masks(kept: Kept) -> Number:
    """Return 2 T h / sigma with dropout: masks of 1 byte."""
    size, inputs = kept.size, kept.inputs
    dropped = inputs.activations.hidden_dropout
    return dropped * 2.0 * size.tokens * inputs.model.hidden / size.shards
