"""One transformer layer as two tables of operators, each alone: nothing fused, nothing hidden.

The formulas are those of the training step of the study of 2024; ``Booking`` says what is counted
differently.

Source: docs/models/unfused_block_tables.md, sections 1 to 8.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from jaxroof.catalog import lookup as named
from jaxroof.catalog.models import Model
from jaxroof.catalog.system import System
from jaxroof.estimator import Column, Detail, Estimator, Rows
from jaxroof.estimators.published import ledger
from jaxroof.estimators.published.inputs import Booking, Precision
from jaxroof.estimators.published.ledger import Costs, Ledger, Work
from jaxroof.estimators.published.operations import LayerContext, Ranks, core_of
from jaxroof.estimators.questions import QUESTIONS
from jaxroof.formulas.arithmetic import larger, where, whole
from jaxroof.formulas.network import others
from jaxroof.records import Number, quantity, record, units, with_named_absences

BLOCK_NAMES = ("mlp", "attention")


class Variant(enum.Enum):
    """How the operators between the matrix products are split."""

    TENSOR = "tensor"  # along the sequence, by the tensor degree
    SEQUENCE = "sequence_parallel"  # along the sequence, by a degree of its own


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The structural choices of the unfused blocks."""

    variant: Variant = Variant.TENSOR


DIVIDED: dict[Variant, dict[str, tuple[str, ...]]] = {  # what of the model each degree divides
    Variant.TENSOR: {"tensor": ("heads", "feedforward", "sequence")},
    Variant.SEQUENCE: {"tensor": ("heads", "feedforward"), "sequence": ("sequence", "feedforward")},
}


@record
class Plan:
    """How one layer is split over accelerators; what does not divide is dropped."""

    tensor: Number = quantity("1", "Tensor-parallel degree.", whole=True, default=1.0, symbol="tp")
    sequence: Number = quantity(
        "1",
        "Sequence-parallel degree, of the variant that has one.",
        whole=True,
        default=1.0,
        symbol="sp",
    )


@record
class Inputs:
    """The layers of a model on one accelerator of a machine, and how they are split.

    Of the machine, peak rates count alone: no efficiency, no launch, no latency.
    """

    model: Model
    system: System
    precision: Precision = Precision()
    booking: Booking = Booking()
    batch: Number = quantity("sequence", "Sequences of one batch.", whole=True, default=1.0)
    fast_links: Number = quantity(
        "1",
        "1 where a fast domain has fast links, 0 where every message takes the slow ones.",
        whole=True,
        zero=True,
        most=1,
        default=1.0,
    )
    plan: Plan = Plan()


def text(doc: str) -> Any:
    """Declare a field that is a name: it takes no part in arithmetic."""
    return dataclasses.field(default="", metadata={"static": True, "doc": doc})


@record
class Operator:
    """One operator of one layer on one accelerator, all its operands in memory.

    ``there_forward`` and ``there_backward`` say whether it communicates, ``fast`` over which links.
    """

    name: str = text("Operator.")
    collective_forward: str = text("Its collective, forward, where there is one.")
    collective_backward: str = text("Its collective, backward, where there is one.")
    flops_forward: Number = quantity("FLOP", "Arithmetic, forward.")
    activation_in: Number = quantity("B", "Activations read, forward.")
    activation_other: Number = quantity("B", "Second operand or mask read, forward.")
    activation_out: Number = quantity("B", "Activations written, forward.")
    kept: Number = quantity("B", "Activations kept for the backward pass.")
    weights: Number = quantity("B", "Weights.")
    traffic_forward: Number = quantity("B", "Bytes moved in HBM, forward.")
    flops_backward: Number = quantity("FLOP", "Arithmetic, backward.")
    activation_gradients: Number = quantity("B", "Gradients of activations moved, backward.")
    weight_gradients: Number = quantity("B", "Gradients of weights written, backward.")
    traffic_backward: Number = quantity("B", "Bytes moved in HBM, backward.")
    message_backward: Number = quantity("B", "Message of its collective, backward.")
    group: Number = quantity("1", "Ranks that its messages go among.")
    message_forward: Number = quantity("B", "Message of its collective, forward.")
    compute_forward: Number = quantity("s", "Time in arithmetic, forward.")
    memory_forward: Number = quantity("s", "Time in HBM, forward.")
    compute_backward: Number = quantity("s", "Time in arithmetic, backward.")
    memory_backward: Number = quantity("s", "Time in HBM, backward.")
    intensity: Number = quantity("1", "Time in arithmetic over time in HBM, forward.")
    work_forward: Number = quantity("s", "The longer of arithmetic and HBM, forward.")
    work_backward: Number = quantity("s", "The longer of arithmetic and HBM, backward.")
    links_forward: Number = quantity("s", "Time in communication, forward.")
    links_backward: Number = quantity("s", "Time in communication, backward.")
    time_forward: Number = quantity("s", "Time forward, with its communication.")
    time_backward: Number = quantity("s", "Time backward, with its communication.")
    links_share_forward: Number = quantity("1", "Share of the time in communication, forward.")
    links_share_backward: Number = quantity("1", "Share of the time in communication, backward.")
    there_forward: Any = quantity("1", "It communicates, forward.")
    there_backward: Any = quantity("1", "It communicates, backward.")
    fast: Any = quantity("1", "Its messages take the fast links.")


SUMMED = (  # of one block, in the order of the sheet
    "kept",
    "weights",
    "weight_gradients",
    "flops_forward",
    "flops_backward",
    "time_forward",
    "time_backward",
    "links_forward",
    "links_backward",
)


@record
class Report:
    """The sums over the operators of each block, of all layers of one accelerator, and of both."""

    mlp_kept: Number = quantity("B", "MLP: activations kept for the backward pass.")
    mlp_weights: Number = quantity("B", "MLP: weights.")
    mlp_weight_gradients: Number = quantity("B", "MLP: weight gradients.")
    mlp_flops_forward: Number = quantity("FLOP", "MLP: arithmetic, forward.")
    mlp_flops_backward: Number = quantity("FLOP", "MLP: arithmetic, backward.")
    mlp_time_forward: Number = quantity("s", "MLP: time forward.")
    mlp_time_backward: Number = quantity("s", "MLP: time backward.")
    mlp_links_forward: Number = quantity("s", "MLP: time in communication, forward.")
    mlp_links_backward: Number = quantity("s", "MLP: time in communication, backward.")
    mlp_links_share: Number = quantity("1", "MLP: share of the forward time in communication.")
    attention_kept: Number = quantity("B", "Attention: activations kept for the backward pass.")
    attention_weights: Number = quantity("B", "Attention: weights.")
    attention_weight_gradients: Number = quantity("B", "Attention: weight gradients.")
    attention_flops_forward: Number = quantity("FLOP", "Attention: arithmetic, forward.")
    attention_flops_backward: Number = quantity("FLOP", "Attention: arithmetic, backward.")
    attention_time_forward: Number = quantity("s", "Attention: time forward.")
    attention_time_backward: Number = quantity("s", "Attention: time backward.")
    attention_links_forward: Number = quantity("s", "Attention: time in communication, forward.")
    attention_links_backward: Number = quantity("s", "Attention: time in communication, backward.")
    attention_links_share: Number = quantity(
        "1", "Attention: share of the forward time in communication."
    )
    step_time: Number = quantity("s", "Time of all layers, forward and backward.", headline=True)
    throughput: Number = quantity("sequence/s", "Sequences done in a second.", better="higher")
    flops: Number = quantity("FLOP", "Arithmetic of one accelerator, forward and backward.")
    memory: Number = quantity("B", "Memory of weights, their gradients and what is kept.")
    links_share: Number = quantity("1", "Share of the time in communication, both directions.")
    utilisation: Number = quantity(
        "1", "Arithmetic over what the matrix peak does in that time.", better="higher"
    )
    degrees_divide: Any = quantity(
        "1", "Each degree divides what it cuts; what is left over is done by nobody."
    )


# ---- The operators: their work and what they communicate -----------------------------------------


class Sent(NamedTuple):
    """What an operator communicates in one direction."""

    collective: str = ""
    volume: Number = 0.0  # [B]
    there: Any = False  # whether there is a message at all, be it empty


NOTHING = Sent()


class Operation(NamedTuple):
    """One operator of a block."""

    name: str
    ledger: Ledger
    matrix: bool = False  # runs at the matrix rate, else at the vector rate
    forward: Sent = NOTHING
    backward: Sent = NOTHING
    group: Number = 1.0  # ranks of its messages


Blocks = dict[str, tuple[Operation, ...]]  # "mlp" and "attention"


def _biased(layer: LayerContext, inputs: Number, outputs: Number) -> Ledger:
    product = ledger.linear(layer.tokens, inputs, outputs, layer.costs)
    return ledger.biased(product, layer.tokens, outputs, layer.costs)


def _columns(layer: LayerContext) -> Ledger:
    """Return the product that gives queries, keys and values."""
    hidden = layer.model.hidden
    return ledger.linear(layer.tokens, hidden, layer.shard(3.0 * hidden), layer.costs)


def _heads(layer: LayerContext) -> Number:
    """Return the columns of a rank's heads."""
    return layer.shard(layer.model.heads * whole(layer.model.hidden, layer.model.heads))


def _ends(layer: LayerContext, degree: Number) -> tuple[Ledger, Ledger]:
    """Return norm and dropout at the ends of a block, on one rank's tokens of each sequence."""
    rows, hidden = layer.ranks.microbatch * whole(layer.model.sequence, degree), layer.model.hidden
    return ledger.layer_norm(rows, hidden, layer.costs), ledger.dropout(rows * hidden, layer.costs)


def _inner(layer: LayerContext, width: Number) -> tuple[Operation, Operation]:
    """Return what stands between the two products of the MLP."""
    elements = layer.tokens * width
    act, dropped = (of(elements, layer.costs) for of in (ledger.nonlinearity, ledger.dropout))
    return Operation("act", act), Operation("dpr1", dropped)


def _attention(layer: LayerContext) -> tuple[Operation, ...]:
    """Return scores, softmax, dropout and weighted sum of one rank's heads, all dense."""
    core, _ = core_of(layer)
    scores = layer.tokens * layer.shard(layer.model.sequence * layer.model.heads)
    return (
        Operation("logits", ledger.logits(core, layer.costs), True),
        Operation("softmax", ledger.softmax(core, layer.costs)),
        Operation("dropout_softmax", ledger.dropout(scores, layer.costs)),
        Operation("attend", ledger.attend(core, layer.costs), True),
    )


def tensor_blocks(layer: LayerContext, sequence: Number) -> Blocks:
    """Return the blocks whose ends are split along the sequence by the tensor degree.

    A message is the whole array of activations, and empty where the group is one rank.
    """
    tensor, hidden = layer.ranks.tensor, layer.model.hidden
    volume = where(tensor > 1.0, layer.tokens * hidden * layer.width, 0.0)
    gather, scatter = Sent("allgather", volume, True), Sent("reducescatter", volume, True)
    feedforward, (norm, dropped) = layer.shard(layer.model.feedforward), _ends(layer, tensor)

    def among(name: str, book: Ledger, matrix: bool, **sent: Sent) -> Operation:
        return Operation(name, book, matrix, group=tensor, **sent)

    mlp = (
        among("fc1", _biased(layer, hidden, feedforward), True, backward=scatter),
        *_inner(layer, feedforward),
        among("fc2", _biased(layer, feedforward, hidden), True, forward=scatter),
        among("dpr2", dropped, False, backward=gather),
    )
    attended = (
        among("layer_norm_1", norm, False, forward=gather),
        among("qkv_proj", _columns(layer), True, backward=scatter),
        *_attention(layer),
        among("v_proj", _biased(layer, _heads(layer), hidden), True, forward=scatter),
        among("dropout", dropped, False, backward=gather),
        among("layer_norm_2", norm, False, forward=gather),
    )
    return {"mlp": mlp, "attention": attended}


def sequence_blocks(layer: LayerContext, sequence: Number) -> Blocks:
    """Return the blocks whose ends are split along the sequence by a degree of its own.

    A message leaves out the rank's own part, and the additions of a reduce-scatter count: those
    of the output projection on the way back, as published.
    """
    tensor, hidden = layer.ranks.tensor, layer.model.hidden
    array, parts = layer.tokens * hidden * layer.width, sequence > 1.0
    apart = array * others(sequence)
    scatter = Sent("reducescatter", array * others(tensor), True)
    gather = Sent("allgather", apart, parts)
    last = gather._replace(volume=where(tensor > 1.0, apart, 0.0))
    additions = layer.tokens * hidden * others(tensor)
    feedforward = layer.shard(layer.model.feedforward)
    fc2 = _biased(layer, feedforward, hidden)
    fc2 = fc2._replace(flops_forward=fc2.flops_forward + additions)
    normed, dropped = _ends(layer, sequence)
    norm = Operation("layer_norm_1", normed, forward=gather, group=sequence)
    own = whole(layer.model.feedforward, sequence)  # as published: the inner width

    def among(name: str, book: Ledger, **sent: Sent) -> Operation:
        return Operation(name, book, True, group=tensor, **sent)

    def added(book: Ledger) -> Ledger:
        return book._replace(flops_backward=book.flops_backward + additions)

    mlp = (
        norm,
        among("fc1", added(_biased(layer, hidden, feedforward)), backward=scatter),
        *_inner(layer, feedforward),
        # as published: where the sequence is split, its degree takes the place of the other one
        among("fc2", fc2, forward=scatter, backward=gather)._replace(
            group=where(parts, sequence, tensor)
        ),
        Operation("dpr1", ledger.dropout(layer.tokens * own, layer.costs)),
    )
    attended = (
        norm,
        among("qkv_proj", added(_columns(layer)), backward=scatter),
        *_attention(layer),
        among("v_proj", added(_biased(layer, _heads(layer), hidden)), forward=scatter),
        Operation("dropout", dropped, backward=last, group=tensor),
    )
    return {"mlp": mlp, "attention": attended}


def operations(inputs: Inputs, variant: Variant) -> Blocks:
    """Return the operators of both blocks, in order."""
    costs, plan = Costs(inputs.precision, inputs.booking), inputs.plan
    ranks = Ranks(plan.tensor, microbatch=inputs.batch)
    return BLOCKS[variant](LayerContext(inputs.model, costs, 1.0, ranks), plan.sequence)


BLOCKS: dict[Variant, Callable[[LayerContext, Number], Blocks]] = {
    Variant.TENSOR: tensor_blocks,
    Variant.SEQUENCE: sequence_blocks,
}


# ---- Their times ---------------------------------------------------------------------------------


def blocks(inputs: Inputs, recipe: Recipe) -> dict[str, tuple[Operator, ...]]:
    """Return the operators of each block of one layer, in order.

    Assumes: every operand moves between HBM and the chip, and communication hides behind nothing;
    peak rates.
    """
    asked = with_named_absences(inputs)
    found = operations(asked, recipe.variant)
    return {name: tuple(_operator(one, asked) for one in found[name]) for name in BLOCK_NAMES}


def _operator(one: Operation, inputs: Inputs) -> Operator:
    system, book = inputs.system, one.ledger
    fast = (one.group <= system.fast_domain) & (inputs.fast_links > 0.0)
    ahead = _direction("forward", book.forward, one.forward, one.matrix, fast, system)
    back = _direction("backward", book.backward, one.backward, one.matrix, fast, system)
    return Operator(
        **ahead,
        **back,
        name=one.name,
        activation_in=book.entering,
        activation_other=book.beside,
        activation_out=book.leaving,
        kept=book.kept,
        weights=book.weights,
        activation_gradients=book.gradients,
        weight_gradients=book.weight_gradients,
        group=one.group,
        intensity=_share(ahead["compute_forward"], ahead["memory_forward"]),
        fast=fast,
    )


def _direction(
    way: str, work: Work, sent: Sent, matrix: bool, fast: Any, system: System
) -> dict[str, Any]:
    """Return the fields of an operator in one direction; a message has no latency."""
    compute = work.flops / (system.matrix_flops if matrix else system.vector_flops)
    memory = work.traffic / system.hbm_bandwidth
    volume = where(sent.there, sent.volume, 0.0)
    links = where(fast, volume / system.fast_bandwidth, volume / system.slow_bandwidth)
    longer = larger(compute, memory)
    found = {
        "collective": sent.collective,
        "flops": work.flops,
        "traffic": work.traffic,
        "message": volume,
        "compute": compute,
        "memory": memory,
        "work": longer,
        "links": links,
        "time": longer + links,
        "links_share": _share(links, longer + links),
        "there": sent.there,
    }
    return {f"{name}_{way}": value for name, value in found.items()}


def _share(part: Number, whole: Number) -> Number:
    """Return a ratio, 0 of nothing."""
    return part / where(whole > 0.0, whole, 1.0)


def step(inputs: Inputs, recipe: Recipe) -> Report:
    """Return the sums over each block and over both, of all layers.

    Assumes: equal layers, one after the other; nothing beside them.
    """
    found = blocks(inputs, recipe)
    depth = inputs.model.layers
    sums: dict[str, Any] = {}
    for name, operators in found.items():
        for field in SUMMED:
            sums[f"{name}_{field}"] = depth * sum(getattr(one, field) for one in operators)
        sums[f"{name}_links_share"] = _share(
            sums[f"{name}_links_forward"], sums[f"{name}_time_forward"]
        )

    def both(*fields: str) -> Number:
        return sum(sums[f"{name}_{field}"] for name in found for field in fields)

    step_time = both("time_forward", "time_backward")
    flops = both("flops_forward", "flops_backward")
    return Report(
        **sums,
        step_time=step_time,
        throughput=_share(inputs.batch, step_time),
        flops=flops,
        memory=both("weights", "weight_gradients", "kept"),
        links_share=_share(both("links_forward", "links_backward"), step_time),
        utilisation=_share(flops, step_time * inputs.system.matrix_flops),
        degrees_divide=_divide(inputs, recipe),
    )


def _divide(inputs: Inputs, recipe: Recipe) -> Any:
    """Return whether each degree divides what it cuts: nothing is left out."""
    held: Any = True
    for degree, fields in DIVIDED[recipe.variant].items():
        for field in fields:
            left = getattr(inputs.model, field) % getattr(inputs.plan, degree)
            held = held & (left == 0.0)
    return held


FLAGS = ("there_forward", "there_backward", "fast")
DIM = ("operation",)


def layer_rows(inputs: Inputs, recipe: Recipe) -> Rows:
    """Return the operators of both blocks; a message or a group that is not there is missing."""
    found = blocks(inputs, recipe)
    rows = [one for name in BLOCK_NAMES for one in found[name]]
    numbers: dict[str, Any] = {
        name: np.array([float(getattr(one, name)) for one in rows]) for name in units(Operator)
    }
    there = {way: numbers[f"there_{way}"] > 0.0 for way in ("forward", "backward")}
    either, columns = there["forward"] | there["backward"], {}
    for way, sent in there.items():
        numbers[f"message_{way}"] = np.where(sent, numbers[f"message_{way}"], np.nan)
        collectives = [getattr(one, f"collective_{way}") for one in rows]
        columns[f"communication_{way}"] = np.where(sent, collectives, "")
    numbers["group"] = np.where(either, numbers["group"], -1.0).astype(np.int64)
    columns["topology"] = np.where(either, np.where(numbers["fast"] > 0.0, "nvlink", "ib"), "")
    names = [one.name for one in rows]
    block = [name for name in BLOCK_NAMES for _ in found[name]]
    texts = {"operation": names, "block": block, **columns}
    return Rows(
        {
            **{n: Column(values, DIM) for n, values in numbers.items() if n not in FLAGS},
            **{n: Column(values, DIM, {}, label=True) for n, values in texts.items()},
        },
        {"picture": "unfused_bars"},
    )


DETAILS = {"layers": Detail(layer_rows, (Operator,), one_by_one=True)}


def example() -> Inputs:
    """Return the reference case: GPT-3 on A100 at tensor 4."""
    machine = named.system("a100-unfused")
    return Inputs(model=named.model("gpt3"), system=machine, plan=Plan(tensor=4.0))


unfused = Estimator(
    name="unfused",
    inputs=Inputs,
    recipe=Recipe(),
    step=step,
    names={"model": named.model_with_choices, "system": named.labelled_system},
    example=example,
    about=QUESTIONS["unfused"],
    details=lambda: DETAILS,
)
