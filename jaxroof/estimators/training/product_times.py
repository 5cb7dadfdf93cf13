"""The matrix products of one layer on one tensor rank, and their seconds in every direction.

Source: docs/models/training_step_today.md, sections 4 and 11.
"""

from collections.abc import Iterable
from typing import NamedTuple

from jaxroof.estimators.training.memory_model import MemoryModel
from jaxroof.estimators.training.rates import Rates
from jaxroof.formulas.arithmetic import where
from jaxroof.formulas.kernel_times import matmul, stream
from jaxroof.records import Number


class Product(NamedTuple):
    """A product [rows, inner] x [inner, columns], and the share of the layers that have it."""

    rows: Number
    columns: Number
    inner: Number
    share: Number = 1.0


Products = dict[str, Product]  # by name


class Layer(NamedTuple):
    """The products of a layer: cut by columns or by rows."""

    by_columns: Products
    by_rows: Products


class Both(NamedTuple):
    """Seconds forward and backward."""

    forward: Number
    backward: Number


class Directions(NamedTuple):
    """Seconds of some products forward, for their inputs' and for their weights' gradients."""

    forward: Number
    inputs: Number
    weights: Number


def dense_share(model: MemoryModel) -> Number:
    """Return the share of the layers that have a dense MLP."""
    return where(model.experts > 0.0, model.first_dense_layers / model.layers, 1.0)


def head_widths(model: MemoryModel) -> tuple[Number, Number]:
    """Return the width of a head's queries and keys, and that of its values.

    (d, d), or with latents (nope + rope, value)

    Source: docs/models/parameters_flops_memory.md, section 1.
    """
    latent = model.kv_rank > 0.0
    return (
        where(latent, model.nope_size + model.rope_size, model.head_size),
        where(latent, model.value_size, model.head_size),
    )


def layer_products(model: MemoryModel, tensor: Number, tokens: Number) -> Layer:
    """Return the products of an average layer on one tensor rank.

    qkv (N, (a + 2 k) d / t, h), up (N, (1 + g) f / t, h); out (N, h, a d / t), down (N, h, f / t)

    Assumes: attention with latents has four products in place of qkv, or three if queries have no
    latent; shared experts are an MLP of their own.
    Source: docs/models/training_step_today.md, sections 4 and 11.
    """
    hidden = model.hidden
    query, value = (model.heads * width / tensor for width in head_widths(model))
    dense = dense_share(model)
    shared = (1.0 - dense) * where(model.shared_feedforward > 0.0, 1.0, 0.0)
    latent = where(model.kv_rank > 0.0, 1.0, 0.0)
    queries = latent * where(model.q_rank > 0.0, 1.0, 0.0)
    plain = (model.heads + 2.0 * model.kv_heads) * model.head_size / tensor
    keys = model.heads * (model.nope_size + model.value_size) / tensor
    columns = (1.0 + model.gated) * model.feedforward / tensor
    shared_width = model.shared_feedforward / tensor
    return Layer(
        by_columns={
            "qkv": Product(tokens, plain, hidden, 1.0 - latent),
            "query_down": Product(tokens, model.q_rank, hidden, queries),
            "query_up": Product(tokens, query, model.q_rank, queries),
            "query": Product(tokens, query, hidden, latent - queries),
            "key_value_down": Product(tokens, model.kv_rank + model.rope_size, hidden, latent),
            "key_value_up": Product(tokens, keys, model.kv_rank, latent),
            "up": Product(tokens, columns, hidden, dense),
            "shared_up": Product(tokens, (1.0 + model.gated) * shared_width, hidden, shared),
        },
        by_rows={
            "output": Product(tokens, hidden, value),
            "down": Product(tokens, hidden, model.feedforward / tensor, dense),
            "shared_down": Product(tokens, hidden, shared_width, shared),
        },
    )


def seconds(product: Product, rates: Rates) -> Directions:
    """Return the seconds of one product; weight gradients are summed in 32 bits."""
    m, n, k, share = product
    return Directions(
        share * matmul(m, n, k, rates.layer, rates.read, 2.0),
        share * matmul(m, k, n, rates.layer, rates.read, 2.0),
        share * matmul(k, n, m, rates.layer, rates.read, 8.0),
    )


def flops(product: Product) -> Number:
    """Return the FLOP of one product, forward; its gradients take twice as many.

    F = 2 m n k
    """
    m, n, k, share = product
    return share * 2.0 * m * n * k


def summed(times: Iterable[Directions]) -> Directions:
    """Return the seconds of several products."""
    return Directions(*(sum(way[1:], way[0]) for way in zip(*times, strict=True)))


def cast(product: Product, rates: Rates) -> Both:
    """Return the seconds in which inputs of a product, then gradients, are cast to few bits."""
    m, n, k, share = product
    many = share * where(rates.low > 0.0, 1.0, 0.0)
    return Both(*(many * stream(rates.cast * m * width, 1.0, rates.layer) for width in (k, n)))


def casts(layer: Layer, rates: Rates) -> Both:
    """Return the seconds in which inputs, then gradients, are cast to few bits."""
    every = (*layer.by_columns.values(), *layer.by_rows.values())
    return Both(*map(sum, zip(*(cast(one, rates) for one in every), strict=True)))
