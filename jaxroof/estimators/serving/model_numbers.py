"""What a server reads of a model: weights and cached numbers of a layer, keys that a token sees.

Source: docs/models/serving.md, section 1; letters as there.
"""

from typing import NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.inputs import layers_by_part
from jaxroof.estimators.training.recipe import Embeddings, Mlp, Recipe
from jaxroof.formulas.arithmetic import larger, smaller, where
from jaxroof.records import Number


class Numbers(NamedTuple):
    """A model as the formulas of a server read it."""

    layers: Number  # L
    dense: Number  # L_d, layers with a dense MLP
    routed: Number  # L_e, layers with experts
    hidden: Number  # h
    vocabulary: Number
    own_head: float  # 1 unless the head shares the embedding
    matrices: float  # G, of a gated MLP and its halves: 2 + gated
    feedforward: Number  # f; 0 without dense layers
    expert_feedforward: Number  # f_e
    shared_feedforward: Number  # f_s
    experts: Number  # E
    active: Number  # k
    attention: Number  # P_a, weights of a layer's attention
    mlp: Number  # P_m, of its dense MLP
    shared: Number  # P_s, of its shared experts
    expert: Number  # P_e, of one routed expert
    cached: Number  # w, numbers of a token in the cache of a layer
    cache_shards: Number  # kappa', tensor ranks over which the cache is cut
    decode_flops: Number  # q_d [FLOP] of a pair of query and key
    prompt_flops: Number  # q_p [FLOP]
    latent: Number  # 1 with latent attention
    window: Number  # u [token]
    windowed: Number  # l, share of layers with it; chunks of a sequence count as all of it


def numbers(model: Architecture, recipe: Recipe) -> Numbers:
    """Return the numbers of a model.

    heads: P_a = h a d + 2 h kappa d + a d h, w = 2 kappa d, q_d = q_p = 4 a d;
    latent: P_a = Q + h (r + e) + r a (n + v) + a v h, w = r + e, q_d = 2 a (2 r + e),
    q_p = 2 a (n + e + v)
    """
    layers, hidden, heads = model.layers, model.hidden, model.heads
    parts = layers_by_part(model)
    matrices = 2.0 + float(recipe.mlp is Mlp.GATED)
    latent, wide = model.kv_rank > 0.0, heads * model.head_size
    key = model.nope_size + model.rope_size
    low = model.q_rank * (hidden + heads * key)
    queries = where(model.q_rank > 0.0, low, hidden * heads * key)
    cached = model.kv_rank + model.rope_size
    inner = where(parts["dense_layers"] > 0.0, model.feedforward, 0.0)
    up = model.kv_rank * heads * (model.nope_size + model.value_size)
    return Numbers(
        layers=layers,
        dense=parts["dense_layers"],
        routed=parts["routed_layers"],
        hidden=hidden,
        vocabulary=model.vocabulary,
        own_head=float(recipe.embeddings is not Embeddings.TIED),
        matrices=matrices,
        feedforward=inner,
        expert_feedforward=model.expert_feedforward,
        shared_feedforward=model.shared_feedforward,
        experts=larger(model.experts, 1.0),
        active=larger(model.active_experts, 1.0),
        attention=where(
            latent,
            queries + hidden * cached + up + heads * model.value_size * hidden,
            2.0 * hidden * wide + 2.0 * hidden * model.kv_heads * model.head_size,
        ),
        mlp=matrices * hidden * inner,
        shared=matrices * hidden * model.shared_feedforward,
        expert=matrices * hidden * model.expert_feedforward,
        cached=where(latent, cached, 2.0 * model.kv_heads * model.head_size),
        cache_shards=where(latent, 1.0, model.kv_heads),
        decode_flops=where(latent, 2.0 * heads * (model.kv_rank + cached), 4.0 * wide),
        prompt_flops=where(latent, 2.0 * heads * (key + model.value_size), 4.0 * wide),
        latent=where(latent, 1.0, 0.0),
        window=where(model.window > 0.0, model.window, 1.0),
        windowed=where(model.chunked > 0.0, 0.0, model.windowed_layers / layers),
    )


def _within(model: Numbers, tokens: Number) -> Number:
    """Return G_u(x) = z x - z^2 / 2, z = min(x, u): the integral of min(position, window)."""
    seen = smaller(tokens, model.window)
    return seen * tokens - seen * seen / 2.0


def keys(model: Numbers, start: Number, end: Number) -> Number:
    """Return the keys that a token sees, the mean over positions and layers.

    (1 - l) (x + y) / 2 + l (G_u(y) - G_u(x)) / max(y - x, 1e-9)
    """
    near = (_within(model, end) - _within(model, start)) / larger(end - start, 1e-9)
    return (1.0 - model.windowed) * (start + end) / 2.0 + model.windowed * near


def held(model: Numbers, tokens: Number) -> Number:
    """Return the tokens that a cache holds, the mean over layers: (1 - l) x + l min(x, u)."""
    full = 1.0 - model.windowed
    return full * tokens + model.windowed * smaller(tokens, model.window)
