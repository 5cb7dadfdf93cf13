"""How many parameters a model has: in all, for one token, and by part.

Source: docs/models/parameters_flops_memory.md, section 2.
"""

from jaxroof.catalog import lookup as named
from jaxroof.catalog.architecture import Architecture
from jaxroof.estimator import Estimator
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.estimators.training.layer import (
    VECTORS,
    Operation,
    dense_layer,
    expert,
    expert_bias,
    routing_layer,
    summed,
)
from jaxroof.estimators.training.recipe import Embeddings, Recipe
from jaxroof.formulas import parameters
from jaxroof.formulas.arithmetic import where
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


def layers_by_part(model: Architecture, recipe: Recipe) -> dict[str, Operation]:
    """Return the sums over all layers, part by part."""
    routing = parameters.routing_layers(model.layers, model.experts, model.first_dense_layers)
    kinds = (
        (model.layers - routing, dense_layer(model, recipe)),
        (routing, routing_layer(model, recipe)),
    )
    found: dict[str, Operation] = {}
    for count, layer in kinds:
        for one in layer.values():
            before = found.get(one.part, Operation(one.part))[1:]
            values = (held + count * value for held, value in zip(before, one[1:], strict=True))
            found[one.part] = Operation(one.part, *values)
    return found


def last_layer(model: Architecture, recipe: Recipe) -> Operation:
    """Return the sum over the operations of a layer of the last kind: one that routes, if any."""
    dense, routing = (
        summed(layer(model, recipe).values()) for layer in (dense_layer, routing_layer)
    )
    there = model.experts > 0.0
    pairs = zip(routing[1:], dense[1:], strict=True)
    return Operation("", *(where(there, one, other) for one, other in pairs))


def size(model: Architecture, recipe: Recipe) -> dict[str, Number]:
    """Return the parameters of a model, by the names of a ModelSize."""
    vectors = VECTORS[recipe.norm]
    layers = layers_by_part(model, recipe)
    last = parameters.norm_gains(model.hidden, 1.0, vectors)
    table = parameters.matrix_parameters(model.vocabulary, model.hidden)
    parts = {f"parameters_{part}": one.parameters for part, one in layers.items()}
    parts["parameters_norms"] = parts["parameters_norms"] + last
    parts |= {
        "parameters_embedding": table,
        "parameters_head": HEADS[recipe.embeddings] * table,
        "parameters_positions": parameters.matrix_parameters(model.positions, model.hidden),
        "parameters_class_head": parameters.class_head(model.hidden, model.classes),
        "parameters_extra": model.extra_parameters,
    }
    total = sum(parts.values())
    routing = parameters.routing_layers(model.layers, model.experts, model.first_dense_layers)
    one = expert(model, recipe) + expert_bias(model, recipe)
    active = parameters.active_parameters(total, model.experts, model.active_experts, one, routing)
    module = parameters.prediction_parameters(
        model.hidden, last_layer(model, recipe).parameters, vectors
    )
    return {
        "parameters": total,
        "active_parameters": active,
        **parts,
        "parameters_mtp": model.mtp_layers * module,
    }


def step(inputs: SizeInputs, recipe: Recipe) -> ModelSize:
    """Return the parameters of a model."""
    counts = size(inputs.model, recipe)
    return ModelSize(**counts, weights=counts["parameters"] * inputs.weight_width)


HEADS: dict[Embeddings, float] = {Embeddings.SEPARATE: 1.0, Embeddings.TIED: 0.0}

model_size = Estimator(
    name="model_size",
    step=step,
    inputs=SizeInputs,
    recipe=Recipe(),
    names={"model": named.architecture_with_choices},
    example=lambda: SizeInputs(model=named.architecture_with_choices("mixtral-8x7b")[0]),
    about=QUESTIONS["model_size"],
)
