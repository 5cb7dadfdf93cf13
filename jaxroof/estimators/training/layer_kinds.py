"""The layers of a model by kind: how many, their parameters, and what they cache of a token.

Source: docs/models/layers_2026.md, sections 1 and 2.
"""

from typing import NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import TrainingModel, training_model
from jaxroof.estimators.training.layer.attention import attention
from jaxroof.estimators.training.layer.operation import Operations
from jaxroof.estimators.training.layer.recurrent import recurrence
from jaxroof.estimators.training.layer.sums import Kind, groups, norm_weights, total_weights
from jaxroof.estimators.training.model_size import size
from jaxroof.estimators.training.recipe import Recipe
from jaxroof.records import Number, value_or

HALF = 2.0  # bytes of a number of a cache in 16 bits
FULL, WINDOWS, CHUNKS = "attention to all", "attention in windows", "attention in chunks"


class LayerKind(NamedTuple):
    """Layers of one kind, or what stands about all of them, and the bytes that they all cache."""

    words: str
    layers: float  # 0 of what stands about them
    parameters: float
    active: float  # parameters that a token meets
    token_bytes: float = 0.0  # of a token; in windows, of one of the latest
    state_bytes: float = 0.0  # that do not grow with the sequence


def layer_kinds(model: Architecture, recipe: Recipe) -> list[LayerKind]:
    """Return the layers of a model by kind, and its ends; their parameters sum to the model's.

    A cache holds 2 kappa d numbers a token and layer, with latents rk + r, and what an indexer
    keeps; layers with a window hold those of the window, recurrent ones a state.
    """
    read = training_model(model, recipe)
    of = groups(read)
    dense, routed = (next(g for g in of if g.kind is kind) for kind in (Kind.DENSE, Kind.ROUTED))
    around = sum(
        group.layers * _counted(group.operations)
        for group in of
        if group.kind in (Kind.EVERY, Kind.BLOCKS)
    )
    expert = total_weights(routed.operations.values()).routed
    used = expert * read.active_experts / max(float(read.experts), 1.0)
    met = _counted(routed.operations) - expert + used
    counts = size(model, recipe)
    ends = sum(
        counts[f"parameters_{part}"]
        for part in ("embedding", "head", "positions", "class_head", "extra")
    )
    kinds = [
        *_attention(read),
        *_recurrent(read),
        _kind("dense MLPs", dense.layers, _counted(dense.operations)),
        LayerKind(
            "experts",
            float(routed.layers),
            float(routed.layers * _counted(routed.operations)),
            float(routed.layers * met),
        ),
        *(
            LayerKind(words, 0.0, float(held), float(held))
            for words, held in (("norms", around + norm_weights(read)), ("embedding, head", ends))
        ),
    ]
    return [kind for kind in kinds if kind.parameters]


def _kind(
    words: str, layers: Number, each: float, token: float = 0.0, state: float = 0.0
) -> LayerKind:
    number, parameters = float(layers), float(layers * each)
    return LayerKind(words, number, parameters, parameters, number * token, number * state)


def _counted(operations: Operations) -> float:
    return float(total_weights(operations.values()).all)


def _attention(model: TrainingModel) -> list[LayerKind]:
    """Return the layers with attention; those with windows may share their shape with the rest."""
    each = {name: _counted(operations) for name, _, operations in attention(model)}
    shared = each.get("attention", 0.0)
    values = value_or(model.value_size or None, model.head_size)
    heads = model.kv_heads * (model.head_size + values)
    full = HALF * float(model.kv_rank + model.rope_size if model.latent else heads)
    indexed = HALF * float(model.index_layers * model.index_size) / max(float(model.full_layers), 1)
    near_heads = value_or(model.window_kv_heads, model.kv_heads)
    near_size = value_or(model.window_head_size, model.head_size)
    values = value_or(model.value_size or None, near_size)
    near = HALF * float(near_heads * (near_size + values))
    words = CHUNKS if model.chunked else WINDOWS
    return [
        _kind(FULL, model.full_layers, each.get("full attention", shared), full + indexed),
        _kind(words, model.windowed_layers, each.get("windowed attention", shared), near),
    ]


def _recurrent(model: TrainingModel) -> list[LayerKind]:
    """Return the recurrent layers, with their state and the inputs that a convolution holds."""
    before = model.convolution - 1.0
    inner = model.mamba_heads * model.mamba_head_size
    keys = model.delta_key_heads * model.delta_key_size
    values = model.delta_value_heads * model.delta_value_size
    wide = model.kda_heads * model.kda_head_size
    states = {
        "Mamba-2": inner * model.mamba_state
        + before * (inner + 2.0 * model.mamba_groups * model.mamba_state),
        "gated DeltaNet": values * model.delta_key_size + before * (2.0 * keys + values),
        "KDA": wide * model.kda_head_size + before * 3.0 * wide,
    }
    return [
        _kind(name, layers, _counted(operations), 0.0, HALF * float(states[name]))
        for name, layers, operations in recurrence(model)
    ]
