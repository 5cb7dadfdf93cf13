"""How many parameters a model has: in all, for one token, and by part.

Source: docs/models/parameters_flops_memory.md, section 2.
"""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.layer.operation import weights
from jaxroof.estimators.training.layer.sums import (
    by_part,
    groups,
    last_layer,
    norm_weights,
    total_weights,
)
from jaxroof.estimators.training.planned import training_model
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.formulas.arithmetic import larger
from jaxroof.records import Number, quantity, record


@record
class SizeInputs:
    """A model, and how wide its parameters are."""

    model: Architecture
    weight_width: Number = quantity("B", "Bytes of one parameter.", default=2.0)


def _part(doc: str, words: str) -> Number:
    return quantity("1", doc, part_of="parameters", words=words)


@record
class ModelSize:
    """Parameters of a model."""

    parameters: Number = quantity("1", "Parameters of the model.", headline=True)
    active_parameters: Number = quantity(
        "1", "Parameters that one token meets, embedding and head included.", headline=True
    )
    parameters_attention: Number = _part("Matrices of attention.", "attention")
    parameters_mlp: Number = _part("Matrices of dense MLPs.", "dense MLPs")
    parameters_experts: Number = _part("Matrices of routed experts.", "routed experts")
    parameters_shared_experts: Number = _part("Matrices of shared experts.", "shared experts")
    parameters_router: Number = _part("Routers.", "routers")
    parameters_norms: Number = _part("Normalisations.", "normalisations")
    parameters_biases: Number = _part("Biases.", "biases")
    parameters_embedding: Number = _part("Embedding of the vocabulary.", "embedding")
    parameters_head: Number = _part("Head, unless it is the embedding.", "head")
    parameters_positions: Number = _part("Learned embedding of positions.", "positions")
    parameters_class_head: Number = _part("Head of a model of pictures.", "class head")
    parameters_extra: Number = _part("Parameters given beside all these.", "extra")
    parameters_mtp: Number = quantity(
        "1", "Modules of multi-token prediction, which are not in the sum."
    )
    weights: Number = quantity("B", "Bytes of all parameters.")


def size(architecture: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the parameters of a model, by the names of a ModelSize.

    active = total - (L - L_d) (E - k) of an expert; the two embedding matrices count, as do shared
    experts and the router. A module of multi-token prediction, which the total leaves out, is one
    more layer + 2 h^2 + three norms: embedding and head are those of the main model.

    Source: docs/models/parameters_flops_memory.md, sections 2.1 and 2.2.
    """
    model = training_model(architecture, recipe)
    norm, table, of = norm_weights(model), model.vocabulary * model.hidden, groups(model)
    parts = {f"parameters_{part}": held for part, (held, _) in by_part(of).items()}
    parts["parameters_norms"] = parts["parameters_norms"] + norm
    parts |= {
        "parameters_embedding": table,
        "parameters_head": (1.0 - model.tied) * table,
        "parameters_positions": model.positions * model.hidden,
        "parameters_class_head": model.classes * (model.hidden + 1.0),
        "parameters_extra": model.extra_parameters,
    }
    total = sum(parts.values())
    layers, _, routing = of[-1]
    expert = total_weights(routing.values()).routed / larger(model.experts, 1.0)
    module = last_layer(model, of, lambda one: weights(one).all)
    joins = 2.0 * model.hidden * model.hidden
    return {
        "parameters": total,
        "active_parameters": total - layers * (model.experts - model.active_experts) * expert,
        **parts,
        "parameters_mtp": model.mtp_layers * (module + joins + 3.0 * norm),
    }


def step(inputs: SizeInputs, recipe: Recipe) -> ModelSize:
    """Return the parameters of a model."""
    counts = size(inputs.model, recipe)
    return ModelSize(**counts, weights=counts["parameters"] * inputs.weight_width)


model_size = Estimator(
    name="model_size",
    step=step,
    inputs=SizeInputs,
    recipe=Recipe(),
    names={"model": named.architecture_with_choices},
    example=lambda: SizeInputs(model=named.architecture_with_choices("mixtral-8x7b")[0]),
    about=QUESTIONS["model_size"],
)
