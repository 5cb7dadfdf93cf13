"""Models of measured rows: their architecture, and their records for memory."""

import dataclasses
import functools
import importlib.resources
import re
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.errors import refusal
from jaxroof.estimators.training.memory_inputs import Counts
from jaxroof.estimators.training.memory_model import MemoryModel, counts, memory_model
from jaxroof.estimators.training.recipe import Biases, Embeddings, Mlp, Norm, Recipe
from jaxroof.settings import choose
from jaxroof.validation.measured_rows import Row, count

GPT2 = Recipe(  # the shape of GPT-2 and GPT-3
    mlp=Mlp.PLAIN, norm=Norm.LAYERNORM, biases=Biases.ALL, embeddings=Embeddings.TIED
)
MPT = dataclasses.replace(GPT2, biases=Biases.NONE)
LLAMA = Recipe()
SHAPE = {  # what tells a model: field of the architecture, column
    "hidden": "hidden",
    "heads": "heads",
    "vocabulary": "vocab",
    "experts": "moe_experts",
}


def described(model: Architecture, recipe: Recipe) -> tuple[MemoryModel, Counts]:
    """Return a model with its choices as numbers, and its parameters by part."""
    return memory_model(model, recipe), counts(model, recipe)


def plain_architecture(row: Row, **more: Any) -> Architecture:
    """Return the architecture that the columns of a row state; ``more`` are fields beside them."""
    heads, hidden = count(row, "heads"), count(row, "hidden")
    size = more.pop("head_size", hidden / heads)
    if size != int(size):
        raise refusal("heads", "do not divide the hidden width, and no head size is given")
    fields: dict[str, Any] = {
        "layers": count(row, "layers"),
        "hidden": hidden,
        "feedforward": count(row, "ffn"),
        "heads": heads,
        "kv_heads": count(row, "kv_heads"),
        "vocabulary": count(row, "vocab"),
        "sequence": count(row, "seq"),
    }
    return Architecture(**{**fields, "head_size": size, **more})


def named_architecture(row: Row) -> tuple[Architecture, Recipe]:
    """Return the model of the catalogue whose shape a row has, with the row's own layers.

    Width, heads, vocabulary and experts tell the model; its layers may be fewer, and the heads of
    keys and values are those of the row.

    Raises: InputError if no model of the catalogue has the shape.
    """
    shape = {field: count(row, column, 0.0) for field, column in SHAPE.items()}
    for model, recipe in _known():
        if all(getattr(model, field) == value for field, value in shape.items()):
            return _with_layers(row, model), recipe
    said = "no model of the catalogue has this width, heads, vocabulary and experts"
    raise refusal("model", f"{said}; expected one, or all options in settings")


def _with_layers(row: Row, model: Architecture) -> Architecture:
    layers, dense = count(row, "layers"), model.first_dense_layers
    if layers > model.layers:
        said = f"given {layers:.0f}, but the model of this shape has {model.layers:.0f}"
        raise refusal("layers", f"{said}; expected as many or fewer")
    if layers != model.layers and dense > 0.0:
        stated = re.search(r"(\d+) dense first layer", row.cells.get("note", ""))
        if stated is None:
            raise refusal("note", "does not say how many layers of a cut model are dense")
        dense = float(stated[1])
    return dataclasses.replace(
        model,
        layers=layers,
        first_dense_layers=dense,
        kv_heads=count(row, "kv_heads", float(model.kv_heads)),
        sequence=count(row, "seq"),
        mtp_layers=0.0,  # rows with multi-token prediction state it among their settings
    )


@functools.cache
def _known() -> tuple[tuple[Architecture, Recipe], ...]:
    names: list[Any] = list(catalog.names("architectures"))
    with importlib.resources.as_file(importlib.resources.files(__package__)) as folder:
        names += sorted(folder.glob("*.toml"))
        found = [architecture_with_choices(name) for name in names]
    return tuple((model, choose(Recipe(), choices)) for model, choices in found)
