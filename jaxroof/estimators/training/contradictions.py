"""What inputs of a training step cannot be together, said of the field and its value.

Source: docs/models/layers_2026.md, section 1.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from jaxroof.errors import refusal
from jaxroof.estimators.training.inputs import layers_by_part
from jaxroof.estimators.training.recipe import Attention, Recipe, Recurrence, TrainingRecipe
from jaxroof.records import value_or

SIZES = {  # of a kind of recurrent layer: what it cannot be without
    Recurrence.MAMBA: ("mamba_heads", "mamba_head_size", "mamba_groups", "mamba_state"),
    Recurrence.DELTA: (
        *("delta_key_heads", "delta_value_heads", "delta_key_size", "delta_value_size"),
    ),
    Recurrence.KDA: ("kda_heads", "kda_head_size"),
}
INDEXER = ("index_layers", "index_heads", "index_size", "index_topk")
Fault = tuple[str, Any, str]  # path, its value, what would be right


def refuse_contradictions(inputs: Any, recipe: TrainingRecipe) -> None:
    """Check that the numbers and choices of a step go together.

    Raises: InputError for the first field that does not go with the others.
    """
    refuse((*of_model(inputs.model, recipe), *_of_experts(inputs)))


def refuse(faults: Iterable[Fault]) -> None:
    """Raise InputError for the first of some faults, if there are any."""
    for path, value, right in faults:
        raise refusal(path, f"given {float(np.max(value)):,g}; expected {right}")


def of_model(model: Any, recipe: Recipe) -> Iterator[Fault]:
    """Yield what numbers and choices of a model do not go together."""
    layers, parts = model.layers, layers_by_part(model)
    recurrent = model.mamba_layers + model.delta_layers + model.kda_layers
    most = {
        "active_experts": (model.active_experts, model.experts, "experts"),
        "windowed_layers": (model.windowed_layers, layers, "layers"),
        "first_dense_layers": (model.first_dense_layers, layers, "layers"),
        "sink_layers": (model.sink_layers, layers, "layers"),
        "index_layers": (model.index_layers, parts["full_layers"], "layers without a window"),
        "routed_layers": (parts["routed_layers"] + parts["dense_layers"], layers, "layers"),
        "full_layers": (parts["full_layers"] + model.windowed_layers + recurrent, layers, "layers"),
    }
    for name, (value, bound, words) in most.items():
        if np.any(value > bound):
            several = name in ("routed_layers", "full_layers")
            own = "with layers of other kinds" if several else f"the {words} of the model"
            yield f"model.{name}", value, f"at most {float(np.min(bound)):,g}, {own}"
    if np.any((model.chunked > 0.0) & (model.windowed_layers > 0.0) & (model.window <= 0.0)):
        yield "model.window", model.window, "the tokens of a chunk, as model.chunked is 1"
    for kind, names in SIZES.items():
        count = getattr(model, names[0].partition("_")[0] + "_layers")
        if np.any(count > 0.0) and recipe.recurrence is not kind:
            path = f"model.{names[0].partition('_')[0]}_layers"
            yield path, count, f"recurrence={kind.value} with it"
    chosen = [*SIZES.get(recipe.recurrence, ())]
    chosen += INDEXER if recipe.attention is Attention.SPARSE else ()
    for name in chosen:
        if np.any(getattr(model, name) <= 0.0):
            said = (
                recipe.recurrence if name in SIZES.get(recipe.recurrence, ()) else recipe.attention
            )
            yield f"model.{name}", getattr(model, name), f"above 0 where layers are {said.value}"


def _of_experts(inputs: Any) -> Iterator[Fault]:
    model, imbalance = inputs.model, inputs.activations.routing_imbalance
    if np.any(imbalance < 1.0):
        yield "routing_imbalance", imbalance, "at least 1, which is balanced"
    most = np.maximum(value_or(model.experts, 1.0), 1.0)
    if np.any(imbalance > most):
        yield "routing_imbalance", imbalance, f"at most {float(np.min(most)):,g}, the experts"
    software = getattr(inputs, "software", None)
    if software is not None and np.any((software.graph > 0.0) & (software.graph_part > 0.0)):
        right = "0 beside software.graph, of which parts of a layer are part"
        yield "software.graph_part", software.graph_part, right
