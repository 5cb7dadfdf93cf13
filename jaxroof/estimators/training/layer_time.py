"""Seconds of one layer and one microbatch: its operations, its messages, the host's limit, FSDP.

Source: docs/models/training_step_today.md, sections 4 and 11; docs/models/layers_2026.md.
"""

from typing import NamedTuple

from jaxroof.estimators.training.inputs import TrainingModel, TrainingPlan
from jaxroof.estimators.training.layer.attention import exchange as context_exchange
from jaxroof.estimators.training.layer.mlp import exchange as expert_exchange
from jaxroof.estimators.training.layer.operation import (
    Cut,
    Operation,
    Passes,
    Tokens,
    Work,
    cast,
    known,
    scaled,
    seconds,
    summed,
    times,
)
from jaxroof.estimators.training.layer.sums import Groups, Kind, MeanWeights, groups
from jaxroof.estimators.training.rates import Rates
from jaxroof.estimators.training.recipe import Module
from jaxroof.formulas.arithmetic import larger, where
from jaxroof.formulas.network import Group, all_reduce, at_full_rate, beside, gather, placed
from jaxroof.formulas.smooth import SHARPER, smooth_larger
from jaxroof.records import Number


class LayerTime(NamedTuple):
    """Seconds of one layer and one microbatch, and their parts before the host's limit."""

    matmul: Number
    attention: Number
    recurrent: Number
    elementwise: Number
    cast: Number
    experts: Number
    tensor_comm: Number
    context_comm: Number
    expert_comm: Number
    recompute: Number
    forward: Number
    backward: Number
    weights: Number  # of backward: products that weight gradients alone need


class OperationTime(NamedTuple):
    """An operation with its seconds in the average layer, and those of its cast."""

    operation: Operation
    share: Number  # of the layers that have it
    time: Passes
    cast: Passes = Passes(0.0, 0.0)


class LayerWork(NamedTuple):
    """Seconds of an average layer and one microbatch, and what they are made of."""

    operations: dict[str, OperationTime]
    parts: dict[str, Passes]  # by the names of a LayerTime
    repeated: list[str]  # operations with seconds that selective recomputation computes again
    busy: Passes  # if the host launched kernels in no time
    time: LayerTime


def tokens_of(model: TrainingModel, plan: TrainingPlan, rates: Rates) -> Tokens:
    """Return the tokens of a microbatch and what moving their hidden states takes."""
    tensor, network = plan.tensor, rates.network
    group = plan.microbatch * model.sequence / plan.context
    shared = where(plan.sequence_parallel > 0.0, tensor, 1.0)
    message, ranks = 2.0 * group * model.hidden, placed(network, tensor)
    return Tokens(
        group=group,
        norm=group / shared,
        rank=group / tensor,
        gathered=gather(message, ranks, network),
        reduced=all_reduce(message, ranks, network),
        message=message,
    )


def recomputed(work: Work) -> tuple[Number, Number]:
    """Return the share of a layer that is computed again, and that of the recipe's modules."""
    level = work.plan.recompute
    return where(level > 1.5, work.software.repeated, 0.0), where(level == 1.0, 1.0, 0.0)


def layer_work(work: Work, modules: frozenset[Module]) -> LayerWork:
    """Return the seconds of an average layer, one microbatch, without FSDP.

    forward = smax(C_f + T_f + X_f, host), backward likewise with what is computed again

    Arguments: ``modules`` are those that selective recomputation computes again.
    Assumes: a layer is the mean of the model's; causal work is even over context ranks; what is
    computed again does not exchange tokens of experts again, unless experts are a module.
    """
    of = groups(work.model)
    blocks, routed = (
        next(g.share for g in of if g.kind is kind) for kind in (Kind.BLOCKS, Kind.ROUTED)
    )
    operations, software = timed_operations(of, work), work.software
    parts = parts_of(operations, blocks, work)
    forward = sum(part.forward for part in parts.values())
    sent = parts["expert_comm"].forward
    again = forward - sent
    if "MLP down" in operations:
        again = again - software.early_stop * operations["MLP down"].time.forward
    repeated = [n for n, one in operations.items() if modules.intersection(one.operation.again)]
    some = sum(_again(operations[name]) for name in repeated)
    some = some + sum(
        times(times(group.share, one.share), one.repeat(work))
        for group in of
        for one in group.operations.values()
        if one.repeat is not None and modules.intersection(one.again)
    )
    if Module.EXPERTS in modules:
        some = some + sent
    whole, modules_again = recomputed(work)
    again = whole * again + modules_again * some
    backward = sum(part.backward for part in parts.values()) + again
    host = work.rates.host * blocks + routed * work.rates.host_experts
    time = LayerTime(
        **{name: part.forward + part.backward for name, part in parts.items()},
        recompute=again,
        forward=smooth_larger(forward, host, SHARPER),
        backward=smooth_larger(backward, host * (1.0 + whole), SHARPER),
        weights=parts["matmul"].weights + parts["experts"].weights,
    )
    return LayerWork(operations, parts, repeated, Passes(forward, backward), time)


def timed_operations(of: Groups, work: Work) -> dict[str, OperationTime]:
    """Return the operations of an average layer that take time."""
    found = {}
    for group in of:
        for name, one in group.operations.items():
            if one.time and not known(one.share, 0.0):
                found[name] = _timed(one, times(group.share, one.share), work)
    return found


def _timed(one: Operation, share: Number, work: Work) -> OperationTime:
    found = OperationTime(one, share, scaled(share, seconds(one, work)))
    if one.matrix is not None and one.kernel is None and one.time == "matmul":
        found = found._replace(cast=scaled(share, cast(one.matrix, work)))
    return found


COMPUTE = ("matmul", "attention", "recurrent", "elementwise", "experts", "cast")


def parts_of(operations: dict[str, OperationTime], blocks: Number, work: Work) -> dict[str, Passes]:
    """Return the parts of the time of a layer: sums over its operations, and messages."""
    every = list(operations.values())
    found = {
        part: summed([one.time for one in every if one.operation.time == part])
        for part in COMPUTE[:-1]
    }
    found["cast"] = summed([one.cast for one in every])
    compute = summed([found[part] for part in COMPUTE])
    columns = [
        one.time
        for one in every
        if (matrix := one.operation.matrix) and one.operation.time == "matmul"
        if matrix.cut is not Cut.ROWS
    ]
    sent = tensor_messages(found["matmul"], summed(columns), work)
    return {
        **found,
        "context_comm": context_exchange(work, found["attention"]),
        "expert_comm": expert_exchange(work, compute),
        "tensor_comm": scaled(blocks, sent),
    }


def _again(one: OperationTime) -> Number:
    """Return the seconds in which the forward pass of an operation is computed again."""
    if one.operation.repeat is not None:
        return 0.0
    return one.time.forward + (one.cast.forward if one.operation.cast_again else 0.0)


def tensor_messages(matmul: Passes, columns: Passes, work: Work) -> Passes:
    """Return what messages of the tensor group add to a layer's work.

    Assumes: pipelined messages are moved by copy engines, so that they do not slow the work.
    """
    tensor, tokens, rates, software = work.plan.tensor, work.tokens, work.rates, work.software
    w, r, slowdown = tokens.gathered, tokens.reduced, rates.constants.overlap_slowdown
    edge = rates.constants.tensor_edge
    hidden = 1.0 - edge / (larger(tensor, 2.0) - 1.0 + edge)
    narrow = where(rates.low > 0.0, 0.75 * w, w)
    seen = 4.0 * (1.0 - hidden) * narrow

    def pipelined(work: Number, share: Number) -> Number:
        return beside(work, share * narrow, 0.0, slowdown) - work + seen

    def started(work: Number, message: Number) -> Number:
        return beside(work, message, message, slowdown) - work

    parallel = work.plan.sequence_parallel > 0.0
    overlapped, early = software.tensor_overlap > 0.0, software.tensor_async > 0.0
    scattered = 2.0 * w + started(columns.inputs, 2.0 * w) + started(columns.weights, 2.0 * w)
    forward = where(
        parallel,
        where(overlapped, pipelined(matmul.forward, 4.0 * hidden), 4.0 * w),
        2.0 * r,
    )
    backward = where(
        parallel,
        where(overlapped, pipelined(matmul.backward, 4.0 * hidden + 2.0), scattered),
        where(early, started(columns.weights, 2.0 * r), 2.0 * r),
    )
    many = tensor > 1.0
    return Passes(where(many, forward, 0.0), where(many, backward, 0.0))


class Sharded(NamedTuple):
    """Seconds of a layer under FSDP, and of the unit that holds embedding and head."""

    forward: Number
    backward: Number
    weights: Number  # of backward: products that weight gradients alone need
    edge: Number


def block(plan: TrainingPlan) -> Number:
    """Return the tensor, context and expert ranks that lie side by side in any order of ranks."""
    return larger(plan.tensor * plan.context, plan.expert * plan.expert_tensor)


def replicated(work: Work, members: Number, inner: Number) -> Group:
    """Return replicas placed by the order of ranks, ``inner`` ranks apart in a block.

    Source: docs/models/networks.md, section 7.
    """
    plan, outer = work.plan, work.plan.rank_order > 0.0
    near = where(outer, block(plan) / inner, members)
    return placed(work.rates.network, members, inner, near, where(outer, plan.pipeline, 1.0))


def with_fsdp(work: Work, time: LayerTime, weights: MeanWeights, trained: MeanWeights) -> Sharded:
    """Return a layer's seconds with its weights gathered and its gradients scattered beside it.

    Assumes: groups span data and context ranks; one layer is gathered ahead; ZeRO 2 keeps the
    gathered weights for the backward pass.
    """
    model, plan, rates, software = work.model, work.plan, work.rates, work.software
    network, slowdown = rates.network, rates.constants.overlap_slowdown
    group = replicated(work, plan.data * plan.context, plan.tensor)
    held, changed = (dense / plan.tensor + routed for dense, routed in (weights, trained))
    eight = (software.fp8 > 0.0) & (software.fp4 == 0.0)  # 4-bit models gather 16 bits
    short = where((software.fused > 0.0) & eight, 1.0, 2.0)
    parameters, gradients = held * short, changed * rates.reduce_bytes
    collected, scattered = (gather(size, group, network) for size in (parameters, gradients))
    again = where(plan.zero_stage > 2.5, 1.0, 0.0)

    def with_messages(alone: Number, message: Number, size: Number) -> Number:
        busy = at_full_rate(size, group.members, network)
        return where(sharded, beside(alone, message, busy, slowdown), alone)

    sharded = plan.zero_stage > 1.5
    table = model.vocabulary * model.hidden / plan.tensor
    edge = gather(2.0 * table, group, network)
    edge = edge + gather(times(model.trained, rates.reduce_bytes * table), group, network)
    sent, size = again * collected + scattered, again * parameters + gradients
    return Sharded(
        with_messages(time.forward, collected, parameters),
        with_messages(time.backward, sent, size),
        time.weights,
        where(sharded, edge, 0.0),
    )
