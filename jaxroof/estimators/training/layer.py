"""A layer as named operations: what each holds, and what it costs a token.

Parameters and FLOP are sums over these operations, so that one cannot drift from the other.
Source: docs/models/parameters_flops_memory.md, sections 2.1 and 3.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from jaxroof.catalog.architecture import Architecture
from jaxroof.estimators.training.recipe import Attention, Biases, Mlp, Norm, Recipe
from jaxroof.formulas import parameters
from jaxroof.formulas.model_flops import score_products
from jaxroof.formulas.parameters import matrix_parameters
from jaxroof.records import Number


class Operation(NamedTuple):
    """One operation of a layer: its parameters, and the multiply-adds of one token, forward."""

    part: str  # of the model, as a report sums it
    sharded: Number = 0.0  # parameters that tensor ranks divide
    replicated: Number = 0.0  # parameters that every tensor rank holds
    routed: Number = 0.0  # parameters that expert ranks divide
    products: Number = 0.0

    @property
    def parameters(self) -> Number:
        """Return all parameters."""
        return self.sharded + self.replicated + self.routed


class Biased(NamedTuple):
    """Which biases there are: 1 or 0 each."""

    projections: float  # query, key and value
    output: float
    mlp: float
    experts: float


Operations = dict[str, Operation]


def _matrix(part: str, inputs: Number, outputs: Number) -> Operation:
    count = matrix_parameters(inputs, outputs)
    return Operation(part, sharded=count, products=count)


def _whole_matrix(part: str, inputs: Number, outputs: Number) -> Operation:
    count = matrix_parameters(inputs, outputs)
    return Operation(part, replicated=count, products=count)


def heads_attention(model: Architecture) -> Operations:
    """Return attention whose queries, keys and values are projected head by head."""
    queries, keys = model.heads * model.head_size, model.kv_heads * model.head_size
    return {
        "query": _matrix("attention", model.hidden, queries),
        "key_value": _matrix("attention", model.hidden, 2.0 * keys),
        "output": _matrix("attention", queries, model.hidden),
    }


def latent_attention(model: Architecture) -> Operations:
    """Return attention whose queries, keys and values come from latents of low rank."""
    queries = model.heads * (model.nope_size + model.rope_size)
    keys = model.heads * (model.nope_size + model.value_size)
    latent = model.kv_rank + model.rope_size
    gains = parameters.norm_gains(model.q_rank + model.kv_rank, 1.0, 1.0)
    entering = parameters.query_inputs(model.hidden, model.q_rank)
    return {
        "query_down": _whole_matrix("attention", model.hidden, model.q_rank),
        "query_up": _matrix("attention", entering, queries),
        "key_value_down": _whole_matrix("attention", model.hidden, latent),
        "key_value_up": _matrix("attention", model.kv_rank, keys),
        "output": _matrix("attention", model.heads * model.value_size, model.hidden),
        "latent_norms": Operation("norms", replicated=gains),
    }


def attention(model: Architecture, recipe: Recipe) -> Operations:
    """Return the attention of a layer with its biases and normalisations of heads."""
    biased, headed = BIASED[recipe.biases], HEAD_BIASES[recipe.attention]
    widths = (model.heads + 2.0 * model.kv_heads) * model.head_size
    gains = parameters.norm_gains(model.head_size, model.head_norms, 1.0)
    return ATTENTION[recipe.attention](model) | {
        "attention_bias": Operation(
            "biases",
            sharded=headed * biased.projections * widths,
            replicated=headed * biased.output * model.hidden,
        ),
        "head_norms": Operation("norms", replicated=gains),
    }


def dense_mlp(model: Architecture, recipe: Recipe) -> Operations:
    """Return the MLP of a layer that does not route."""
    biased, gates = BIASED[recipe.biases], GATES[recipe.mlp]
    return {
        "up": _matrix("mlp", model.hidden, gates * model.feedforward),
        "down": _matrix("mlp", model.feedforward, model.hidden),
        "mlp_bias": Operation(
            "biases",
            sharded=biased.mlp * gates * model.feedforward,
            replicated=biased.mlp * model.hidden,
        ),
    }


def routed_mlp(model: Architecture, recipe: Recipe) -> Operations:
    """Return the router, the routed experts and the shared ones of a layer that routes."""
    biased, gates = BIASED[recipe.biases], GATES[recipe.mlp]
    one = expert(model, recipe)
    shared = model.shared_feedforward
    return {
        "router": _whole_matrix("router", model.hidden, model.experts),
        "experts": Operation(
            "experts", routed=model.experts * one, products=model.active_experts * one
        ),
        "shared_up": _matrix("shared_experts", model.hidden, gates * shared),
        "shared_down": _matrix("shared_experts", shared, model.hidden),
        "expert_bias": Operation("biases", routed=model.experts * expert_bias(model, recipe)),
        "router_bias": Operation("biases", replicated=biased.experts * model.experts),
    }


def norms(model: Architecture, recipe: Recipe) -> Operations:
    """Return the normalisations of the residual stream in a layer."""
    gains = parameters.norm_gains(model.hidden, model.norms_per_layer, VECTORS[recipe.norm])
    return {"norms": Operation("norms", replicated=gains)}


def expert(model: Architecture, recipe: Recipe) -> Number:
    """Return the parameters of the matrices of one routed expert."""
    matrices = GATES[recipe.mlp] + 1.0
    return parameters.expert_parameters(model.hidden, model.expert_feedforward, matrices)


def expert_bias(model: Architecture, recipe: Recipe) -> Number:
    """Return the biases of one routed expert."""
    widths = GATES[recipe.mlp] * model.expert_feedforward + model.hidden
    return BIASED[recipe.biases].experts * widths


def dense_layer(model: Architecture, recipe: Recipe) -> Operations:
    """Return the operations of a layer that does not route."""
    return attention(model, recipe) | dense_mlp(model, recipe) | norms(model, recipe)


def routing_layer(model: Architecture, recipe: Recipe) -> Operations:
    """Return the operations of a layer that routes tokens to experts."""
    return attention(model, recipe) | routed_mlp(model, recipe) | norms(model, recipe)


def summed(operations: Iterable[Operation]) -> Operation:
    """Return the sum of operations, of no part."""
    columns = [sum(column) for column in zip(*(op[1:] for op in operations), strict=True)]
    return Operation("", *columns)


def score_width(model: Architecture, recipe: Recipe) -> Number:
    """Return the multiply-adds of scores and values for a query and a key, in one layer."""
    return score_products(model.heads, *HEAD_SIZES[recipe.attention](model))


ATTENTION: dict[Attention, Callable[[Architecture], Operations]] = {
    Attention.HEADS: heads_attention,
    Attention.LATENT: latent_attention,
}
HEAD_SIZES: dict[Attention, Callable[[Architecture], tuple[Number, Number]]] = {  # query, value
    Attention.HEADS: lambda model: (model.head_size, model.head_size),
    Attention.LATENT: lambda model: (model.nope_size + model.rope_size, model.value_size),
}
HEAD_BIASES = {Attention.HEADS: 1.0, Attention.LATENT: 0.0}  # whether projections may have biases
GATES: dict[Mlp, float] = {Mlp.PLAIN: 1.0, Mlp.GATED: 2.0}  # matrices into the MLP's width
VECTORS: dict[Norm, float] = {Norm.RMSNORM: 1.0, Norm.LAYERNORM: 2.0}
BIASED: dict[Biases, Biased] = {
    Biases.NONE: Biased(0.0, 0.0, 0.0, 0.0),
    Biases.QUERY_KEY_VALUE: Biased(1.0, 0.0, 0.0, 0.0),
    Biases.ATTENTION: Biased(1.0, 1.0, 0.0, 0.0),
    Biases.MLP: Biased(0.0, 0.0, 1.0, 0.0),
    Biases.ALL: Biased(1.0, 1.0, 1.0, 0.0),
    Biases.EXPERTS: Biased(1.0, 1.0, 1.0, 1.0),
}
