"""Adapters of low rank beside frozen matrices (LoRA): W x + alpha / r B A x, A and B trained.

Beside a matrix of k inputs and n outputs A is k x r and B is r x n. They multiply at 16 bits.
Source: Hu et al. 2021 (arXiv 2106.09685), section 4; Megatron-Bridge, ``ParallelLinearAdapter``;
docs/models/layers_2026.md, section 13.
"""

from jaxroof.estimators.training.inputs import TrainingModel
from jaxroof.estimators.training.layer.mlp import expert_rows, grouped
from jaxroof.estimators.training.layer.operation import (
    ADAPTERS,
    Cut,
    Kept,
    Matrix,
    Operation,
    Operations,
    Passes,
    Saved,
    Work,
    known,
    on_rank,
    product,
    rows,
    times,
)
from jaxroof.estimators.training.rates import stream
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.records import Number

TERMS = {  # part of the model whose matrices have adapters: term of memory of what A makes
    "attention": "qkv",
    "recurrent": "recurrent",
    "mlp": "mlp",
    "shared_experts": "shared_expert",
    "experts": "routed",
}
SPLIT = {Cut.ROWS: Cut.COLUMNS, Cut.EXPERT_ROWS: Cut.EXPERT_COLUMNS}  # how ranks divide B


def adapted(operations: Operations, model: TrainingModel, into: Number = 1.0) -> Operations:
    """Return operations with adapters beside their matrices; routers and indexers have none.

    Arguments: ``into`` is 1 if matrices that are not cut by their inputs have one, else 0.
    Assumes: every expert has its own; their messages among tensor ranks, dropout and the copies of
    few bits that their inputs need not take are left out.
    """
    if known(model.lora_rank, 0.0):
        return operations
    found = dict(operations)
    for name, one in operations.items():
        if one.matrix is not None and one.part in TERMS:
            every = into if one.matrix.cut not in SPLIT else model.adapted_outputs
            if not known(every, 0.0):
                found |= _beside(name, one, one.matrix, every, model.lora_rank)
    return found


def _beside(name: str, one: Operation, matrix: Matrix, every: Number, rank: Number) -> Operations:
    """Return the adapter of a matrix: A and B, and what scales and adds what it makes.

    Bytes m (10 n) forward, m (4 n + 6 k) backward, of m tokens: a product with alpha / r and a sum
    with the outputs, and one of the gradients of inputs.
    """
    share = times(every, times(where(rank > 0.0, 1.0, 0.0), one.share))
    some = larger(rank, 1.0)
    into = matrix._replace(outputs=some)
    out = matrix._replace(inputs=some, cut=SPLIT.get(matrix.cut, matrix.cut))
    routed = matrix.cut in (Cut.EXPERT_COLUMNS, Cut.EXPERT_ROWS)

    def multiplied(of: Matrix, work: Work) -> Passes:
        return (grouped if routed else product)(of, work, work.rates.plain, 2.0)

    def added(work: Work) -> Passes:
        columns, inner = on_rank(matrix, work.plan)
        m = expert_rows(work) if routed else rows(matrix, work.tokens)
        return Passes(
            stream(10.0 * m * columns, 2.0, work.rates.plain),
            stream(m * (4.0 * columns + 6.0 * inner), 2.0, work.rates.plain),
        )

    def narrow(kept: Kept) -> Number:
        tokens = kept.size.routed if routed else kept.size.tokens
        return kept.inputs.activations.activation_bytes * tokens * some

    base = Operation(ADAPTERS, time=one.time, share=share, again=one.again)
    saved = (Saved(TERMS[one.part], narrow, dropped=one.again, read=True),)
    return {
        f"{name}, adapter in": base._replace(
            matrix=into, kernel=lambda work: multiplied(into, work), saved=saved
        ),
        f"{name}, adapter out": base._replace(
            matrix=out, kernel=lambda work: multiplied(out, work)
        ),
        f"{name}, adapter added": base._replace(
            part="", time="experts" if routed else "elementwise", kernel=added
        ),
    }


def trained(operations: Operations, model: TrainingModel) -> Operations:
    """Return operations with a share of what is trained: adapters alone, where there are any."""
    if known(model.trained, 1.0):
        return operations
    return {
        name: one if one.part == ADAPTERS else one._replace(share=times(model.trained, one.share))
        for name, one in operations.items()
    }
