"""The operations of one transformer layer in order: their work and their messages, by split.

Source: docs/models/transformer_model.md, sections 5 and 6.
"""

from collections.abc import Callable

from jaxroof.errors import InputError
from jaxroof.estimators.published.attention_core import ATTENTION
from jaxroof.estimators.published.inputs import Inputs
from jaxroof.estimators.published.layer import LayerContext, LayerOperation, Operations, Ranks
from jaxroof.estimators.published.recipe import Attention, Recipe, Split
from jaxroof.formulas import ledger, network
from jaxroof.formulas.arithmetic import whole
from jaxroof.records import Number


def layer_1d(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer whose matrices are split over one tensor group."""
    hidden, tokens = layer.model.hidden, layer.ranks.microbatch * layer.model.sequence
    # Q10: computed on every token, although the sum is scattered
    return _columns_then_rows(layer, core, (tokens, hidden), (tokens, hidden))


def layer_context(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer as in 1D, on the tokens of one context rank."""
    hidden, ranks = layer.model.hidden, layer.ranks
    own = whole(layer.model.sequence, ranks.context)
    # Q10: one on the rows of a tensor rank, the other on its columns
    mlp = (ranks.microbatch * whole(own, ranks.tensor), hidden)
    attended = (ranks.microbatch * own, whole(hidden, ranks.tensor))
    return _columns_then_rows(layer, core, mlp, attended)


Shape = tuple[Number, Number]  # rows, width


def _columns_then_rows(
    layer: LayerContext, core: Operations, mlp_bias: Shape, attention_bias: Shape
) -> Operations:
    """Return a layer with its first products split by columns and its second ones by rows."""
    model, ranks = layer.model, layer.ranks
    hidden = model.hidden
    tokens = ranks.microbatch * whole(model.sequence, ranks.context)  # Q6: the remainder is dropped
    feedforward = whole(model.feedforward, ranks.tensor)
    volume = tokens * hidden * layer.precision.activation
    gather = (ranks.over_tensor(network.study_gather, volume),)
    scatter = (ranks.over_tensor(network.study_gather, volume),)

    def columns(outputs: Number) -> LayerOperation:
        work = ledger.linear(tokens, hidden, whole(outputs, ranks.tensor), *layer.widths)
        return LayerOperation(work.operation, layer.product_flops(hidden, outputs), (), scatter)

    def across_rows(inputs: Number) -> LayerOperation:
        work = ledger.linear(tokens, whole(inputs, ranks.tensor), hidden, *layer.widths)
        return LayerOperation(work.operation, layer.product_flops(inputs, hidden), scatter, ())

    rows, width = _rows_of_tokens(layer)
    # Q18: both directions count, backward as one more reduce-scatter
    norm = LayerOperation(
        ledger.layer_norm(rows, width, *layer.widths).operation, None, gather, scatter
    )
    inner, outer = tokens * feedforward, rows * width
    return {
        "fc1": columns(model.feedforward),  # Q17: every rank saves its whole input
        "fc1-bias": layer.bias(tokens, feedforward),
        "act1": layer.gelu(inner),
        "dpr1": layer.dropout(inner),
        "fc2": across_rows(model.feedforward),
        "fc2-bias": layer.bias(*mlp_bias),
        "dpr2": layer.dropout(outer),
        "ln1": norm,
        "qkv": columns(3.0 * hidden),
        **core,
        "vproj": across_rows(hidden),
        "vproj-bias": layer.bias(*attention_bias),
        "dpr_v": layer.dropout(outer),
        "ln2": norm,
    }


def _rows_of_tokens(layer: LayerContext) -> Shape:
    """Return a rank's share of the activations between operations: whole rows of some tokens."""
    model, ranks = layer.model, layer.ranks
    own = whole(model.sequence, ranks.context)  # Q6: the remainder is dropped
    return ranks.microbatch * whole(own, ranks.tensor), model.hidden


def layer_summa(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer whose products run on a grid of tensor x context ranks."""
    model, ranks = layer.model, layer.ranks
    hidden, width = model.hidden, layer.precision.activation
    tokens = ranks.microbatch * whole(model.sequence, ranks.context)
    hidden_shard = whole(hidden, ranks.tensor)
    feedforward = whole(model.feedforward, ranks.tensor)

    def product(inputs: Number, outputs: Number) -> LayerOperation:
        shard = whole(outputs, ranks.tensor)
        held = (whole(inputs, ranks.tensor), whole(inputs, ranks.context))
        work = ledger.summa(tokens, inputs, shard, *held, ranks.panels, *layer.widths)
        x = tokens * inputs * width
        y = inputs * shard * layer.precision.weight
        dy = inputs * shard * layer.precision.gradient
        forward = (
            ranks.over_tensor(network.study_broadcast, x),
            ranks.over_context(network.study_broadcast, y),
        )
        backward = (
            ranks.over_context(network.study_broadcast, y),
            ranks.over_tensor(network.study_broadcast, x),
            ranks.over_tensor(network.study_broadcast, x),
            ranks.over_context(network.study_broadcast, dy),
        )
        flops = layer.product_flops(inputs, outputs)
        return LayerOperation(work, flops, forward, backward, panels=ranks.panels)

    norm = _norm_2d(layer)
    inner, outer = tokens * feedforward, tokens * hidden_shard
    return {
        "fc1": product(hidden, model.feedforward),
        "fc1-bias": layer.bias(tokens, feedforward),
        "act1": layer.gelu(inner),
        "dpr1": layer.dropout(inner),
        "fc2": product(model.feedforward, hidden),
        "fc2-bias": layer.bias(tokens, hidden_shard),
        "dpr2": layer.dropout(outer),
        "ln1": norm,
        "qkv": product(hidden, 3.0 * hidden),
        **core,
        "vproj": product(hidden, hidden),
        "vproj-bias": layer.bias(tokens, hidden_shard),
        "dpr_v": layer.dropout(outer),
        "ln2": norm,
    }


def _columns_of_tokens(layer: LayerContext) -> Shape:
    """Return a rank's share of the activations between operations: rows across tensor ranks."""
    model, ranks = layer.model, layer.ranks
    tokens = ranks.microbatch * whole(model.sequence, ranks.context)
    return tokens, whole(model.sequence, ranks.tensor)  # Q1: not the hidden width


def _norm_2d(layer: LayerContext) -> LayerOperation:
    """Return a normalisation whose rows are divided among the tensor ranks."""
    model, ranks = layer.model, layer.ranks
    tokens, shard = _columns_of_tokens(layer)
    statistics = 2.0 * tokens * layer.precision.activation
    # Q8: gains over the wrong group; tokens are rounded down after the microbatch
    gains = whole(2.0 * model.hidden, ranks.tensor) * layer.precision.gradient
    back = whole(2.0 * ranks.microbatch * model.sequence, ranks.context)
    return LayerOperation(
        ledger.layer_norm(tokens, shard, *layer.widths).operation,
        None,
        (ranks.over_tensor(network.study_all_reduce, statistics),),
        (ranks.over_tensor(network.study_all_reduce, gains + back * layer.precision.activation),),
    )


def operations(
    inputs: Inputs,
    recipe: Recipe,
    *,
    tensor: Number,
    context: Number = 1.0,
    microbatch: Number,
    panels: Number = 1.0,
    fast_tensor: Number = 1.0,
    fast_context: Number = 1.0,
) -> Operations:
    """Return the operations of one layer under the recipe's split, in order.

    Raises: InputError for an attention core that the split does not support.
    """
    if recipe.attention is Attention.PANELS and recipe.split is not Split.SUMMA:
        raise InputError(
            f"attention: 'panels' is of split 'summa' alone, given split {recipe.split.value!r}; "
            "expected fused, unfused or recompute"
        )
    ranks = Ranks(tensor, context, microbatch, panels, fast_tensor, fast_context)
    layer = _layer(inputs, ranks)
    return LAYER[recipe.split](layer, ATTENTION[recipe.attention](layer))


def stage_send(
    inputs: Inputs, recipe: Recipe, *, tensor: Number, context: Number, microbatch: Number
) -> Number:
    """Return the bytes that a rank sends to the next stage: its share of the activations.

    M = w r c for r rows and c columns of activations on the rank

    Assumes: one tensor passes between layers, as large as between operations of a layer.
    Units: degrees [1], microbatch [sequence] -> [B].
    Source: docs/models/transformer_model.md, section 8.
    """
    layer = _layer(inputs, Ranks(tensor, context, microbatch, 1.0, 1.0, 1.0))
    rows, width = BETWEEN[recipe.split](layer)
    return inputs.precision.activation * (rows * width)


def _layer(inputs: Inputs, ranks: Ranks) -> LayerContext:
    system = inputs.system
    return LayerContext(
        inputs.model, inputs.precision, system.matrix_flops / system.vector_flops, ranks
    )


LAYER: dict[Split, Callable[[LayerContext, Operations], Operations]] = {
    Split.ONE_D: layer_1d,
    Split.SUMMA: layer_summa,
    Split.CONTEXT: layer_context,
}
BETWEEN: dict[Split, Callable[[LayerContext], Shape]] = {  # activations between operations
    Split.ONE_D: _rows_of_tokens,
    Split.SUMMA: _columns_of_tokens,
    Split.CONTEXT: _rows_of_tokens,
}
