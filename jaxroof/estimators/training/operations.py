"""The operations of one transformer layer in order: their work and their messages, by split.

Source: fact sheet transformer_model, sections 5 and 6.
"""

from collections.abc import Callable

from jaxroof.errors import InputError
from jaxroof.estimators.training.cores import ATTENTION
from jaxroof.estimators.training.inputs import Inputs
from jaxroof.estimators.training.layer import Layer, LayerOperation, Operations, Ranks
from jaxroof.estimators.training.recipe import Attention, Recipe, Split
from jaxroof.formulas import collectives, linear, normalisation
from jaxroof.formulas.arithmetic import whole
from jaxroof.records import Number


def layer_1d(layer: Layer, core: Operations) -> Operations:
    """Return the operations of a layer whose matrices are split over one tensor group."""
    hidden, tokens = layer.model.hidden, layer.ranks.microbatch * layer.model.sequence
    # Q10: on every token, though the sum is scattered
    return _columns_then_rows(layer, core, (tokens, hidden), (tokens, hidden))


def layer_context(layer: Layer, core: Operations) -> Operations:
    """Return the operations of a layer as in 1D, on one context rank's tokens of each sequence."""
    hidden, ranks = layer.model.hidden, layer.ranks
    own = whole(layer.model.sequence, ranks.context)
    # Q10: the one on a tensor rank's rows, the other on a tensor rank's columns
    mlp = (ranks.microbatch * whole(own, ranks.tensor), hidden)
    attended = (ranks.microbatch * own, whole(hidden, ranks.tensor))
    return _columns_then_rows(layer, core, mlp, attended)


Shape = tuple[Number, Number]  # rows, width


def _columns_then_rows(
    layer: Layer, core: Operations, mlp_bias: Shape, attention_bias: Shape
) -> Operations:
    """Return a layer whose first products are split by columns and whose second ones by rows."""
    model, ranks = layer.model, layer.ranks
    hidden = model.hidden
    own = whole(model.sequence, ranks.context)  # Q6: what does not divide is dropped
    tokens = ranks.microbatch * own
    rows = ranks.microbatch * whole(own, ranks.tensor)
    feedforward = whole(model.feedforward, ranks.tensor)
    volume = tokens * hidden * layer.precision.activation
    gather = (ranks.over_tensor(collectives.all_gather, volume),)
    scatter = (ranks.over_tensor(collectives.reduce_scatter, volume),)

    def columns(outputs: Number) -> LayerOperation:
        work = linear.linear(tokens, hidden, outputs, *layer.widths)
        return LayerOperation(work, True, (), scatter)

    def across_rows(inputs: Number) -> LayerOperation:
        work = linear.linear(tokens, inputs, hidden, *layer.widths)
        return LayerOperation(work, True, scatter, ())

    # Q18: both ways are counted, the way back as one more reduce-scatter
    norm = LayerOperation(
        normalisation.layer_norm(rows, hidden, *layer.widths), False, gather, scatter
    )
    inner, outer = tokens * feedforward, rows * hidden
    return {
        "fc1": columns(feedforward),  # Q17: its whole input is kept on every rank
        "fc1-bias": layer.bias(tokens, feedforward),
        "act1": layer.gelu(inner),
        "dpr1": layer.dropout(inner),
        "fc2": across_rows(feedforward),
        "fc2-bias": layer.bias(*mlp_bias),
        "dpr2": layer.dropout(outer),
        "ln1": norm,
        "qkv": columns(whole(3.0 * hidden, ranks.tensor)),
        **core,
        "vproj": across_rows(whole(hidden, ranks.tensor)),
        "vproj-bias": layer.bias(*attention_bias),
        "dpr_v": layer.dropout(outer),
        "ln2": norm,
    }


def layer_summa(layer: Layer, core: Operations) -> Operations:
    """Return the operations of a layer whose products run on a grid of tensor x context ranks."""
    model, ranks = layer.model, layer.ranks
    hidden, width = model.hidden, layer.precision.activation
    tokens = ranks.microbatch * whole(model.sequence, ranks.context)
    hidden_shard = whole(hidden, ranks.tensor)
    feedforward = whole(model.feedforward, ranks.tensor)

    def product(inputs: Number, outputs: Number) -> LayerOperation:
        shard = whole(outputs, ranks.tensor)
        held = (whole(inputs, ranks.tensor), whole(inputs, ranks.context))
        work = linear.summa(tokens, inputs, shard, *held, ranks.panels, *layer.widths)
        x = tokens * inputs * width
        y = inputs * shard * layer.precision.weight
        dy = inputs * shard * layer.precision.gradient
        forward = (
            ranks.over_tensor(collectives.broadcast, x),
            ranks.over_context(collectives.broadcast, y),
        )
        backward = (
            ranks.over_context(collectives.broadcast, y),
            ranks.over_tensor(collectives.reduce, x),
            ranks.over_tensor(collectives.broadcast, x),
            ranks.over_context(collectives.reduce, dy),
        )
        return LayerOperation(work, True, forward, backward, panels=ranks.panels)

    norm = _norm_2d(layer, tokens)
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


def _norm_2d(layer: Layer, tokens: Number) -> LayerOperation:
    """Return a normalisation whose rows lie across the tensor ranks."""
    model, ranks = layer.model, layer.ranks
    shard = whole(model.sequence, ranks.tensor)  # Q1: the sequence's, not the hidden width's
    statistics = 2.0 * tokens * layer.precision.activation
    # Q8: gains over the wrong group; tokens rounded down after the microbatch
    gains = whole(2.0 * model.hidden, ranks.tensor) * layer.precision.gradient
    back = whole(2.0 * ranks.microbatch * model.sequence, ranks.context)
    return LayerOperation(
        normalisation.layer_norm(tokens, shard, *layer.widths),
        False,
        (ranks.over_tensor(collectives.all_reduce, statistics),),
        (ranks.over_tensor(collectives.all_reduce, gains + back * layer.precision.activation),),
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

    Raises: InputError for an attention core that the split does not have.
    """
    if recipe.attention is Attention.PANELS and recipe.split is not Split.SUMMA:
        raise InputError(
            f"attention: 'panels' is of split 'summa' alone, given split {recipe.split.value!r}; "
            "expected fused, unfused or recompute"
        )
    layer = Layer(
        inputs.model,
        inputs.precision,
        inputs.system.matrix_flops / inputs.system.vector_flops,
        Ranks(tensor, context, microbatch, panels, fast_tensor, fast_context),
    )
    return LAYER[recipe.split](layer, ATTENTION[recipe.attention](layer))


LAYER: dict[Split, Callable[[Layer, Operations], Operations]] = {
    Split.ONE_D: layer_1d,
    Split.SUMMA: layer_summa,
    Split.CONTEXT: layer_context,
}
