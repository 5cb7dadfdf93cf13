"""The attention core of a layer: fused, or operation by operation.

Source: docs/models/transformer_model.md, sections 5.8 and 5.9.
"""

from collections.abc import Callable

from jaxroof.estimators.published.layer import LayerContext, LayerOperation, Operations
from jaxroof.estimators.published.recipe import Attention
from jaxroof.formulas import ledger, network
from jaxroof.formulas.arithmetic import whole
from jaxroof.records import Number


def _fused(layer: LayerContext) -> Operations:
    shape, key = _core(layer)
    work = ledger.fused(*shape, layer.vector_cost, layer.precision.activation)
    gather = layer.ranks.over_context(network.study_gather, 2.0 * key)
    scatter = layer.ranks.over_context(network.study_gather, 2.0 * key)
    return {"fusedla": LayerOperation(work, 2.0 * _product(layer), (gather,), (gather, scatter))}


def _unfused(layer: LayerContext) -> Operations:
    shape, key = _core(layer)
    sequences, queries, keys, _ = shape
    width = layer.precision.activation
    gather = layer.ranks.over_context(network.study_gather, key)
    scatter = layer.ranks.over_context(network.study_gather, key)
    ring = ((gather,), (gather, scatter))
    softmax = ledger.softmax(sequences, queries, keys, width).operation
    logits = ledger.logits(*shape, width).operation
    attend = ledger.attend(*shape, width).operation
    return {
        "logits": LayerOperation(logits, _product(layer), *ring),
        "softmax": LayerOperation(softmax, None),
        "dpr_at": layer.dropout(sequences * queries * keys),
        "attend": LayerOperation(attend, _product(layer), *ring),
    }


def _product(layer: LayerContext) -> Number:
    """Return the FLOP of one product of dense attention, over all heads of a sequence."""
    return layer.product_flops(layer.model.hidden, layer.model.sequence)


def _core(layer: LayerContext) -> tuple[tuple[Number, Number, Number, Number], Number]:
    """Return a rank's (sequences, queries, keys, head size), and the bytes of its keys."""
    model, ranks = layer.model, layer.ranks
    sequences = ranks.microbatch * whole(model.heads, ranks.tensor)
    queries = whole(model.sequence, ranks.context)
    head_size = whole(model.hidden, model.heads)
    key = sequences * model.sequence * head_size * layer.precision.activation
    return (sequences, queries, model.sequence, head_size), key


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
    model, ranks, width = layer.model, layer.ranks, layer.precision.activation
    sequences = ranks.microbatch * model.heads  # every head on every rank
    queries, keys = whole(model.sequence, ranks.context), model.sequence
    head_shard = whole(whole(model.hidden, model.heads), ranks.tensor)
    own_keys = whole(model.sequence, ranks.tensor)
    shape = (sequences, queries, keys)
    x = sequences * queries * keys * width
    y = sequences * keys * head_shard * width
    rows = ranks.over_tensor(network.study_all_reduce, sequences * queries * width)
    tensor, context = ranks.over_tensor, ranks.over_context
    send_x, send_y = tensor(network.study_broadcast, x), context(network.study_broadcast, y)
    sum_x, sum_y = tensor(network.study_broadcast, x), context(network.study_broadcast, y)
    logits = ledger.logits_summa(*shape, head_shard, ranks.panels, width)
    attend = ledger.attend_summa(*shape, own_keys, head_shard, ranks.panels, width)
    softmax = ledger.softmax(sequences, queries, own_keys, width).operation
    flops = _product(layer)
    return {
        "logits": LayerOperation(
            logits, flops, (send_y, sum_x), (send_x, send_y, send_x, sum_y), panels=ranks.panels
        ),
        "softmax": LayerOperation(softmax, None, (rows,), (rows,)),
        "dpr_at": layer.dropout(sequences * queries * own_keys),
        "attend": LayerOperation(
            attend, flops, (send_x, send_y), (send_y, sum_x, send_x, sum_y), panels=ranks.panels
        ),
    }


ATTENTION: dict[Attention, Callable[[LayerContext], Operations]] = {
    Attention.FUSED: _fused,
    Attention.UNFUSED: _unfused,
    Attention.RECOMPUTE: _recompute,
    Attention.PANELS: _panels,
}
