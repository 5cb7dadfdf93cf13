"""An MLP: that of a layer that does not route, or the shared experts of one that does.

Source: docs/models/parameters_flops_memory.md, sections 2.1 and 4.5;
docs/models/training_step_today.md, section 4.
"""

from jaxroof.estimators.training.kernels import stream
from jaxroof.estimators.training.layer.operation import (
    Cut,
    Kept,
    Matrix,
    Operation,
    Operations,
    Passes,
    Saved,
    Weights,
    Work,
)
from jaxroof.estimators.training.planned import TrainingModel
from jaxroof.estimators.training.recipe import Module
from jaxroof.formulas.arithmetic import where
from jaxroof.records import Number


def dense_mlp(model: TrainingModel) -> Operations:
    """Return the MLP of a layer that does not route."""
    bias = model.mlp_bias
    gates = 1.0 + model.gated
    return mlp(model, model.feedforward, "MLP", "mlp", "mlp", (Module.MLP,)) | {
        "biases of an MLP": Operation(
            "biases",
            vectors=Weights(bias * gates * model.feedforward, bias * model.hidden),
        ),
    }


def shared_experts(model: TrainingModel) -> Operations:
    """Return the experts that every token meets."""
    modules = (Module.SHARED_EXPERTS, Module.EXPERTS)
    width = model.shared_feedforward
    return mlp(model, width, "shared experts", "shared_experts", "shared_expert", modules)


def mlp(
    model: TrainingModel,
    width: Number,
    name: str,
    part: str,
    term: str,
    modules: tuple[Module, ...],
) -> Operations:
    """Return an MLP of a width; at width 0 there are no products."""
    there = where(width > 0.0, 1.0, 0.0)
    gates = 1.0 + model.gated

    def activation(work: Work) -> Passes:
        """N f / t (4 + 2 g) bytes forward, (6 + 4 g) backward and 2 for the biases' gradients."""
        inner, unit = work.tokens.group * width / work.plan.tensor, work.rates.plain
        back = 6.0 + 4.0 * model.gated + 2.0 * work.software.bias
        return Passes(
            stream(inner * (4.0 + 2.0 * model.gated), 1.0, unit), stream(inner * back, 1.0, unit)
        )

    def inside(kept: Kept) -> Number:
        """T f / t (nu g + lambda): the inputs of the nonlinearity and of the second product."""
        acts = kept.inputs.activations
        each = acts.nonlinearity_bytes * gates + acts.linear_input_bytes
        return kept.size.tokens * width / kept.inputs.plan.tensor * each

    up = Matrix(model.hidden, gates * width, Cut.COLUMNS)
    down = Matrix(width, model.hidden, Cut.ROWS)
    return {
        f"{name} up": Operation(part, up, share=there, time="matmul", again=modules),
        f"{name} activation": Operation(
            time="elementwise",
            kernel=activation,
            launched=there,
            again=modules,
            saved=(Saved(term, inside, dropped=modules, read=True),),
        ),
        f"{name} down": Operation(
            part, down, share=there, time="matmul", halves=0.5 * there, again=modules
        ),
    }
