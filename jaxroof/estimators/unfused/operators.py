"""The operators of the two blocks in order: their work and what they communicate, by variant.

Source: docs/models/unfused_block_tables.md, sections 2, 3 and 8.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxroof.estimators.unfused.inputs import Inputs
from jaxroof.estimators.unfused.recipe import Variant
from jaxroof.formulas import ledger as costs
from jaxroof.formulas.arithmetic import where, whole
from jaxroof.formulas.ledger import Ledger
from jaxroof.records import Number


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


class Shard(NamedTuple):
    """The formulas at the sizes that one rank of a group of ``tensor`` ranks has."""

    inputs: Inputs
    tokens: Number
    head_size: Number

    @property
    def tensor(self) -> Number:
        """Return the ranks that share the matrices."""
        return self.inputs.plan.tensor

    @property
    def array(self) -> Number:
        """Return the bytes of the activations between the blocks, of all tokens."""
        return self.tokens * self.inputs.model.hidden * self.inputs.precision.activation

    def share(self, amount: Number) -> Number:
        """Return one rank's part of something, rounded down."""
        return whole(amount, self.tensor)

    def linear(self, width: Number, outputs: Number) -> Ledger:
        """Return a product without bias."""
        return costs.linear(
            self.tokens, width, outputs, *self._widths, self.inputs.booking.gradient_reads
        )

    def biased(self, width: Number, outputs: Number) -> Ledger:
        """Return a product with its bias."""
        weight, _, gradient = self._widths
        return costs.biased(self.linear(width, outputs), self.tokens, outputs, weight, gradient)

    def activation(self, elements: Number) -> Ledger:
        """Return the nonlinearity."""
        booking = self.inputs.booking
        return costs.pointwise(
            elements,
            self.inputs.precision.activation,
            booking.activation_forward,
            booking.activation_backward,
            booking.pointwise_gradients,
        )

    def dropout(self, elements: Number) -> Ledger:
        """Return a dropout."""
        precision = self.inputs.precision
        return costs.dropout(
            elements,
            precision.activation,
            precision.mask,
            self.inputs.booking.pointwise_gradients,
        )

    def norm(self, degree: Number) -> Ledger:
        """Return a normalisation of one rank's tokens of each sequence."""
        model, booking = self.inputs.model, self.inputs.booking
        return costs.layer_norm(
            self.inputs.batch * whole(model.sequence, degree),
            model.hidden,
            *self._widths,
            booking.norm_backward,
            booking.norm_gradients,
            booking.norm_statistics,
        )

    def ends(self, degree: Number) -> Ledger:
        """Return the dropout at the end of a block, on one rank's tokens of each sequence."""
        model = self.inputs.model
        own = self.inputs.batch * whole(model.sequence, degree)
        return self.dropout(own * model.hidden)

    def core(self) -> tuple[Operation, ...]:
        """Return scores, softmax, dropout and weighted sum of one rank's heads, all dense."""
        model, booking = self.inputs.model, self.inputs.booking
        width = self.inputs.precision.activation
        shape = (self.inputs.batch * self.share(model.heads), model.sequence, model.sequence)
        reads = booking.gradient_reads
        logits = costs.logits(*shape, self.head_size, width, reads)
        attend = costs.attend(*shape, self.head_size, width, reads, booking.value_gradients)
        scores = self.tokens * self.share(model.sequence * model.heads)
        return (
            Operation("logits", logits, True),
            Operation("softmax", costs.softmax(*shape, width)),
            Operation("dropout_softmax", self.dropout(scores)),
            Operation("attend", attend, True),
        )

    @property
    def _widths(self) -> tuple[Number, Number, Number]:
        precision = self.inputs.precision
        return precision.weight, precision.activation, precision.gradient


def tensor_blocks(shard: Shard) -> Blocks:
    """Return the blocks whose ends are split along the sequence by the tensor degree.

    A message is the whole array of activations, and empty where the group is one rank.
    """
    tensor, hidden = shard.tensor, shard.inputs.model.hidden
    volume = where(tensor > 1.0, shard.array, 0.0)
    gather, scatter = Sent("allgather", volume, True), Sent("reducescatter", volume, True)
    feedforward = shard.share(shard.inputs.model.feedforward)
    inner = shard.tokens * feedforward
    heads = shard.share(shard.inputs.model.heads * shard.head_size)

    def among(name: str, ledger: Ledger, matrix: bool, **sent: Sent) -> Operation:
        return Operation(name, ledger, matrix, group=tensor, **sent)

    mlp = (
        among("fc1", shard.biased(hidden, feedforward), True, backward=scatter),
        Operation("act", shard.activation(inner)),
        Operation("dpr1", shard.dropout(inner)),
        among("fc2", shard.biased(feedforward, hidden), True, forward=scatter),
        among("dpr2", shard.ends(tensor), False, backward=gather),
    )
    qkv = shard.linear(hidden, shard.share(3.0 * hidden))
    attended = (
        among("layer_norm_1", shard.norm(tensor), False, forward=gather),
        among("qkv_proj", qkv, True, backward=scatter),
        *shard.core(),
        among("v_proj", shard.biased(heads, hidden), True, forward=scatter),
        among("dropout", shard.ends(tensor), False, backward=gather),
        among("layer_norm_2", shard.norm(tensor), False, forward=gather),
    )
    return {"mlp": mlp, "attention": attended}


def sequence_blocks(shard: Shard) -> Blocks:
    """Return the blocks whose ends are split along the sequence by a degree of its own.

    A message leaves out the rank's own part, and the additions of a reduce-scatter count: those
    of the output projection on the way back, as published.
    """
    tensor, degree = shard.tensor, shard.inputs.plan.sequence
    hidden = shard.inputs.model.hidden
    others = (tensor - 1.0) / tensor
    parts = degree > 1.0
    apart = shard.array * ((degree - 1.0) / degree)
    scatter = Sent("reducescatter", shard.array * others, True)
    gather = Sent("allgather", apart, parts)
    last = gather._replace(volume=where(tensor > 1.0, apart, 0.0))
    additions = shard.tokens * hidden * others
    feedforward = shard.share(shard.inputs.model.feedforward)
    heads = shard.share(shard.inputs.model.heads * shard.head_size)
    fc1, fc2 = shard.biased(hidden, feedforward), shard.biased(feedforward, hidden)
    fc2 = fc2._replace(flops_forward=fc2.flops_forward + additions)
    qkv = shard.linear(hidden, shard.share(3.0 * hidden))
    projected = shard.biased(heads, hidden)
    norm = Operation("layer_norm_1", shard.norm(degree), forward=gather, group=degree)
    own = whole(shard.inputs.model.feedforward, degree)  # as published: the inner width

    def among(name: str, ledger: Ledger, **sent: Sent) -> Operation:
        return Operation(name, ledger, True, group=tensor, **sent)

    def added(ledger: Ledger) -> Ledger:
        return ledger._replace(flops_backward=ledger.flops_backward + additions)

    mlp = (
        norm,
        among("fc1", added(fc1), backward=scatter),
        Operation("act", shard.activation(shard.tokens * feedforward)),
        Operation("dpr1", shard.dropout(shard.tokens * feedforward)),
        # as published: where the sequence is split, its degree takes the place of the other one
        among("fc2", fc2, forward=scatter, backward=gather)._replace(
            group=where(parts, degree, tensor)
        ),
        Operation("dpr1", shard.dropout(shard.tokens * own)),
    )
    attended = (
        norm,
        among("qkv_proj", added(qkv), backward=scatter),
        *shard.core(),
        among("v_proj", added(projected), forward=scatter),
        Operation("dropout", shard.ends(degree), backward=last, group=tensor),
    )
    return {"mlp": mlp, "attention": attended}


def operations(inputs: Inputs, variant: Variant) -> Blocks:
    """Return the operators of both blocks, in order."""
    model = inputs.model
    shard = Shard(
        inputs=inputs,
        tokens=inputs.batch * model.sequence,
        head_size=whole(model.hidden, model.heads),
    )
    return BLOCKS[variant](shard)


BLOCKS: dict[Variant, Callable[[Shard], Blocks]] = {
    Variant.TENSOR: tensor_blocks,
    Variant.SEQUENCE: sequence_blocks,
}
