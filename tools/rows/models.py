"""Models of measured rows of memory: their numbers and their choices, as inputs by path."""

import dataclasses
import functools
import pathlib
import re
from typing import Any

from jaxroof import catalog
from jaxroof.catalog.architecture import Architecture
from jaxroof.catalog.lookup import architecture_with_choices
from jaxroof.errors import refusal
from tools.rows.common import Row, Settings, count

GPT2 = {"mlp": "plain", "norm": "layernorm", "biases": "all", "embeddings": "tied"}
MPT = {**GPT2, "biases": "none"}
SHAPE = {  # what tells a model: field of the architecture, column
    "hidden": "hidden",
    "heads": "heads",
    "vocabulary": "vocab",
    "experts": "moe_experts",
}


def plain_model(row: Row, choices: Settings, **more: float) -> Settings:
    """Return the model that the columns of a row state; ``more`` are fields beside them."""
    heads, hidden = count(row, "heads"), count(row, "hidden")
    if hidden % heads:
        raise refusal("heads", "do not divide the hidden width, and no head size is given")
    fields = {
        "layers": count(row, "layers"),
        "hidden": hidden,
        "feedforward": count(row, "ffn"),
        "heads": heads,
        "kv_heads": count(row, "kv_heads"),
        "head_size": hidden / heads,
        "vocabulary": count(row, "vocab"),
        "sequence": count(row, "seq"),
        **more,
    }
    return {**by_path(fields), **choices}


def by_path(fields: dict[str, float]) -> Settings:
    """Return fields of a model by their paths."""
    return {f"model.{name}": value for name, value in fields.items()}


def named_model(row: Row) -> tuple[Architecture, Settings]:
    """Return the model of the catalogue whose shape a row has, with the row's own layers.

    Width, heads, vocabulary and experts tell the model; its layers may be fewer, and the heads of
    keys and values are those of the row.
    """
    shape = {field: count(row, column, 0.0) for field, column in SHAPE.items()}
    for model, choices in _known():
        if all(getattr(model, field) == value for field, value in shape.items()):
            cut = _with_layers(row, model)
            fields = {f.name: getattr(cut, f.name) for f in dataclasses.fields(cut)}
            del fields["training_tokens"]
            numbers = {name: float(v) for name, v in fields.items() if v is not None}
            return cut, {**by_path(numbers), **choices}
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
def _known() -> list[tuple[Architecture, Any]]:
    """Return all models; of one shape the one of the shortest name, which the others come from."""
    own = sorted(pathlib.Path(__file__).parent.glob("deepseek_v2.toml"))
    names = sorted(catalog.names("architectures"), key=len)
    return [architecture_with_choices(name) for name in [*own, *names]]
