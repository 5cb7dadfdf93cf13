"""The operations of one transformer layer in order: their work and their messages, by split.

Source: docs/models/transformer_model.md, sections 5 and 6.
"""

from collections.abc import Callable
from typing import NamedTuple

from jaxroof.catalog.models import Model
from jaxroof.errors import InputError
from jaxroof.estimators.published import ledger
from jaxroof.estimators.published.inputs import STUDY, Attention, Inputs, Recipe, Split
from jaxroof.estimators.published.ledger import Core, Costs, Operation
from jaxroof.formulas.arithmetic import where, whole
from jaxroof.formulas.network import Collective, study_all_reduce, study_broadcast, study_gather
from jaxroof.records import Number


class Message(NamedTuple):
    """One collective of an operation."""

    collective: Collective
    volume: Number  # full buffer [B]
    group: Number
    fast: Number


Messages = tuple[Message, ...]
Shape = tuple[Number, Number]  # rows, width


class LayerOperation(NamedTuple):
    """One named operation of a layer: the work of one rank, and the FLOP that the model needs."""

    work: Operation
    model_flops: Number | None  # all ranks, one sequence forward [FLOP]; None at the vector rate
    forward: Messages = ()
    backward: Messages = ()
    recomputed: bool = False  # its forward runs again in the backward pass
    panels: Number | None = None  # its messages are sent panel by panel, hidden behind its work

    @property
    def matrix(self) -> bool:
        """Return whether the operation runs at the matrix rate (else at the vector rate)."""
        return self.model_flops is not None


Operations = dict[str, LayerOperation]


class Ranks(NamedTuple):
    """The plan fields that determine how a layer is split."""

    tensor: Number
    context: Number = 1.0
    microbatch: Number = 1.0
    panels: Number = 1.0
    fast_tensor: Number = 1.0
    fast_context: Number = 1.0

    def over_tensor(self, collective: Collective, volume: Number) -> Message:
        """Return a message among the tensor ranks, empty where there is only one."""
        some = where(self.tensor > 1.0, volume, 0.0)
        return Message(collective, some, self.tensor, self.fast_tensor)

    def over_context(self, collective: Collective, volume: Number) -> Message:
        """Return a message among the context ranks, empty where there is only one."""
        some = where(self.context > 1.0, volume, 0.0)
        return Message(collective, some, self.context, self.fast_context)


class LayerContext(NamedTuple):
    """What every function of a layer reads; what does not divide is dropped (Q6)."""

    model: Model
    costs: Costs
    vector_cost: Number  # matrix rate / vector rate
    ranks: Ranks

    @property
    def width(self) -> Number:
        """Return the bytes of an activation."""
        return self.costs.width.activation

    @property
    def tokens(self) -> Number:
        """Return the tokens of a microbatch on one context rank."""
        return self.ranks.microbatch * whole(self.model.sequence, self.ranks.context)

    def shard(self, amount: Number) -> Number:
        """Return a tensor rank's part of something."""
        return whole(amount, self.ranks.tensor)

    def product_flops(self, inputs: Number, outputs: Number) -> Number:
        """Return the FLOP of multiplying the tokens of a sequence by a whole matrix, 2 D i o.

        Source: Chowdhery et al. 2022 (arXiv 2204.02311), appendix B: 2 FLOP per weight and token.
        """
        return 2.0 * self.model.sequence * inputs * outputs

    def dropout(self, elements: Number) -> LayerOperation:
        """Return a dropout."""
        return LayerOperation(ledger.dropout(elements, self.costs).operation, None)


# ---- The attention core: fused, or operation by operation (sections 5.8 and 5.9) -----------------


def _fused(layer: LayerContext) -> Operations:
    core, key = core_of(layer)
    work = ledger.fused(core, layer.vector_cost, layer.costs)
    ring = layer.ranks.over_context(study_gather, 2.0 * key)
    return {"fusedla": LayerOperation(work, 2.0 * _scores(layer), (ring,), (ring, ring))}


def _unfused(layer: LayerContext) -> Operations:
    core, key = core_of(layer)
    ring = layer.ranks.over_context(study_gather, key)

    def product(work: ledger.Ledger) -> LayerOperation:
        return LayerOperation(work.operation, _scores(layer), (ring,), (ring, ring))

    return {
        "logits": product(ledger.logits(core, layer.costs)),
        "softmax": LayerOperation(ledger.softmax(core, layer.costs).operation, None),
        "dpr_at": layer.dropout(core.sequences * core.queries * core.keys),
        "attend": product(ledger.attend(core, layer.costs)),
    }


def _scores(layer: LayerContext) -> Number:
    """Return the FLOP of one product of dense attention, over all heads of a sequence."""
    return layer.product_flops(layer.model.hidden, layer.model.sequence)


def core_of(layer: LayerContext) -> tuple[Core, Number]:
    """Return a rank's part of attention, and the bytes of its keys."""
    model = layer.model
    head_size = whole(model.hidden, model.heads)
    sequences = layer.ranks.microbatch * layer.shard(model.heads)
    queries = whole(model.sequence, layer.ranks.context)
    key = sequences * model.sequence * head_size * layer.width
    return Core(sequences, queries, model.sequence, head_size), key


def _recompute(layer: LayerContext) -> Operations:
    core = _unfused(layer)
    kept = {
        "logits": core["logits"].work.kept,
        "softmax": 0.0 * core["softmax"].work.kept,
        "dpr_at": 0.0 * core["dpr_at"].work.kept,
        "attend": core["attend"].work.kept - core["softmax"].work.kept,  # the values alone
    }
    return {
        name: operation._replace(
            work=operation.work._replace(kept=kept[name]), recomputed=name != "attend"
        )
        for name, operation in core.items()
    }


def _panels(layer: LayerContext) -> Operations:
    model, ranks, costs = layer.model, layer.ranks, layer.costs
    head_shard = layer.shard(whole(model.hidden, model.heads))
    own_keys = layer.shard(model.sequence)
    sequences = ranks.microbatch * model.heads  # every head on every rank
    core = Core(sequences, whole(model.sequence, ranks.context), model.sequence, head_shard)
    rows = ranks.over_tensor(study_all_reduce, sequences * core.queries * layer.width)
    # a broadcast along the grid, or a reduction to one of its members, which take the same time
    x = ranks.over_tensor(study_broadcast, sequences * core.queries * core.keys * layer.width)
    y = ranks.over_context(study_broadcast, sequences * core.keys * head_shard * layer.width)
    logits = ledger.logits_summa(core, ranks.panels, costs)
    attend = ledger.attend_summa(core, own_keys, ranks.panels, costs)
    softmax = ledger.softmax(core._replace(keys=own_keys), costs).operation
    flops = _scores(layer)
    return {
        "logits": LayerOperation(logits, flops, (y, x), (x, y, x, y), panels=ranks.panels),
        "softmax": LayerOperation(softmax, None, (rows,), (rows,)),
        "dpr_at": layer.dropout(sequences * core.queries * own_keys),
        "attend": LayerOperation(attend, flops, (x, y), (y, x, x, y), panels=ranks.panels),
    }


# ---- The layer (section 6) ----------------------------------------------------------------------


def _layer(
    layer: LayerContext,
    core: Operations,
    into: Callable[[Number], LayerOperation],
    out_of: Callable[[Number], LayerOperation],
    norm: LayerOperation,
    between: Shape,
    biases: tuple[Shape, Shape],
) -> Operations:
    """Return a layer from its products into and out of the inner width, and its norm.

    ``between`` are a rank's rows and columns of activations between operations, ``biases`` those
    that the biases of the MLP and of attention are added to.
    """
    model, costs = layer.model, layer.costs
    width, rows = layer.shard(model.feedforward), layer.tokens
    gelu = LayerOperation(ledger.nonlinearity(rows * width, costs).operation, None)
    inner, mlp, attended = (
        LayerOperation(ledger.bias(*shape, costs), None) for shape in ((rows, width), *biases)
    )
    outer = layer.dropout(between[0] * between[1])
    return {
        "fc1": into(model.feedforward),
        "fc1-bias": inner,
        "act1": gelu,
        "dpr1": layer.dropout(rows * width),
        "fc2": out_of(model.feedforward),
        "fc2-bias": mlp,
        "dpr2": outer,
        "ln1": norm,
        "qkv": into(3.0 * model.hidden),
        **core,
        "vproj": out_of(model.hidden),
        "vproj-bias": attended,
        "dpr_v": outer,
        "ln2": norm,
    }


def layer_1d(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer whose matrices are split over one tensor group."""
    # Q10: biases are added to every token, although the sum is scattered
    tokens, hidden = layer.ranks.microbatch * layer.model.sequence, layer.model.hidden
    return _columns_then_rows(layer, core, ((tokens, hidden), (tokens, hidden)))


def layer_context(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer as in 1D, on the tokens of one context rank."""
    # Q10: one on the rows of a tensor rank, the other on its columns
    shapes = (_rows_of_tokens(layer), (layer.tokens, layer.shard(layer.model.hidden)))
    return _columns_then_rows(layer, core, shapes)


def _columns_then_rows(
    layer: LayerContext, core: Operations, biases: tuple[Shape, Shape]
) -> Operations:
    """Return a layer with its first products split by columns and its second ones by rows."""
    hidden, tokens, costs = layer.model.hidden, layer.tokens, layer.costs
    # an all-gather or a reduce-scatter, which take the same time
    ring = (layer.ranks.over_tensor(study_gather, tokens * hidden * layer.width),)

    def into(outputs: Number) -> LayerOperation:
        work = ledger.linear(tokens, hidden, layer.shard(outputs), costs)  # Q17: saves all inputs
        return LayerOperation(work.operation, layer.product_flops(hidden, outputs), (), ring)

    def out_of(inputs: Number) -> LayerOperation:
        work = ledger.linear(tokens, layer.shard(inputs), hidden, costs)
        return LayerOperation(work.operation, layer.product_flops(inputs, hidden), ring, ())

    between = _rows_of_tokens(layer)
    # Q18: both directions count, backward as one more reduce-scatter
    norm = LayerOperation(ledger.layer_norm(*between, costs).operation, None, ring, ring)
    return _layer(layer, core, into, out_of, norm, between, biases)


def layer_summa(layer: LayerContext, core: Operations) -> Operations:
    """Return the operations of a layer whose products run on a grid of tensor x context ranks."""
    model, ranks, width = layer.model, layer.ranks, layer.costs.width
    tokens, hidden = layer.tokens, model.hidden

    def product(inputs: Number, outputs: Number) -> LayerOperation:
        shard = layer.shard(outputs)
        held = (layer.shard(inputs), whole(inputs, ranks.context))
        work = ledger.summa(tokens, inputs, shard, *held, ranks.panels, layer.costs)
        x = ranks.over_tensor(study_broadcast, tokens * inputs * width.activation)
        y = ranks.over_context(study_broadcast, inputs * shard * width.weight)
        dy = ranks.over_context(study_broadcast, inputs * shard * width.gradient)
        flops = layer.product_flops(inputs, outputs)
        return LayerOperation(work, flops, (x, y), (y, x, x, dy), panels=ranks.panels)

    rows, columns = _columns_of_tokens(layer)
    # Q8: gains over the wrong group; tokens are rounded down after the microbatch
    gains = layer.shard(2.0 * hidden) * width.gradient
    back = whole(2.0 * ranks.microbatch * model.sequence, ranks.context) * width.activation
    norm = LayerOperation(
        ledger.layer_norm(rows, columns, layer.costs).operation,
        None,
        (ranks.over_tensor(study_all_reduce, 2.0 * rows * width.activation),),
        (ranks.over_tensor(study_all_reduce, gains + back),),
    )
    shape = (tokens, layer.shard(hidden))
    return _layer(
        layer,
        core,
        lambda outputs: product(hidden, outputs),
        lambda inputs: product(inputs, hidden),
        norm,
        shape,
        (shape, shape),
    )


def _rows_of_tokens(layer: LayerContext) -> Shape:
    """Return a rank's share of the activations between operations: whole rows of some tokens."""
    own = whole(layer.model.sequence, layer.ranks.context)
    return layer.ranks.microbatch * layer.shard(own), layer.model.hidden


def _columns_of_tokens(layer: LayerContext) -> Shape:
    """Return a rank's share of the activations between operations: rows across tensor ranks."""
    return layer.tokens, layer.shard(layer.model.sequence)  # Q1: not the hidden width


def layer_of(inputs: Inputs, ranks: Ranks) -> LayerContext:
    """Return what the functions of a layer read."""
    system = inputs.system
    costs = Costs(inputs.precision, STUDY)
    return LayerContext(inputs.model, costs, system.matrix_flops / system.vector_flops, ranks)


def operations(inputs: Inputs, recipe: Recipe, **ranks: Number) -> Operations:
    """Return the operations of one layer under the recipe's split, in order.

    Arguments: ``ranks`` are the fields of Ranks.
    Raises: InputError for an attention core that the split does not support.
    """
    if recipe.attention is Attention.PANELS and recipe.split is not Split.SUMMA:
        raise InputError(
            f"attention: 'panels' is of split 'summa' alone, given split {recipe.split.value!r}; "
            "expected fused, unfused or recompute"
        )
    layer = layer_of(inputs, Ranks(**ranks))
    return LAYER[recipe.split](layer, ATTENTION[recipe.attention](layer))


def stage_send(
    inputs: Inputs, recipe: Recipe, *, tensor: Number, context: Number, microbatch: Number
) -> Number:
    """Return the bytes that a rank sends to the next stage: its share of the activations.

    Assumes: one tensor passes between layers, as large as between operations of a layer.
    Source: docs/models/transformer_model.md, section 8.
    """
    rows, columns = BETWEEN[recipe.split](layer_of(inputs, Ranks(tensor, context, microbatch)))
    return inputs.precision.activation * (rows * columns)


ATTENTION: dict[Attention, Callable[[LayerContext], Operations]] = {
    Attention.FUSED: _fused,
    Attention.UNFUSED: _unfused,
    Attention.RECOMPUTE: _recompute,
    Attention.PANELS: _panels,
}
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
